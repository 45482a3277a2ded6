"""The chart of many networks: what is where, and that it is well-formed."""

import xml.etree.ElementTree as ET

from benchmarks import chart
from benchmarks.bench import Findings
from benchmarks.measure import Ratio

NAMESPACE = "{http://www.w3.org/2000/svg}"


def one(name, value, other="onnx2tf", threads=1):
    what = f"{name}: network, latency, {threads} thread{'s' * (threads > 1)}"
    return Ratio(what, "onnx-compat", other, value, value, value, 3, None)


def dots(text):
    return [float(each.get("cx")) for each in ET.fromstring(text).iter(NAMESPACE + "circle")][2:]  # noqa: S314 (our own)


def test_twice_and_half_are_equally_far_from_one_and_nothing_leaves_the_chart():
    half, same, twice, beyond = dots(chart.svg([one("a", 0.5), one("b", 1.0), one("<c>", 2.0), one("d", 1000.0)], 1))
    assert round(same - half, 1) == round(twice - same, 1) > 0
    assert beyond == chart._across(8)


def test_the_page_has_a_chart_for_each_number_of_threads_and_every_ratio(tmp_path):
    found = Findings([one("a", 0.5), one("a", 0.75, "onnxruntime", 2)], missing=["b: no file"])
    chart.write(found, tmp_path)
    page = (tmp_path / "networks.md").read_text()
    assert sorted(path.name for path in tmp_path.iterdir()) == ["networks-1.svg", "networks-2.svg", "networks.md"]
    assert "| a | network, latency, 2 threads | onnxruntime | 0.75 | 0.75 to 0.75 |" in page
    assert "(networks-2.svg)" in page
    assert "- Not measured: b: no file" in page
