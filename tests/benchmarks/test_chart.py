"""The chart of many networks: what is where, and that it is well-formed."""

import xml.etree.ElementTree as ET

from benchmarks import chart
from benchmarks.measure import Ratio

NAMESPACE = "{http://www.w3.org/2000/svg}"


def one(name, value, other="onnx2tf"):
    return Ratio(f"{name}: network, latency, 1 thread", "onnx-compat", other, value, value, value, 3, None)


def dots(text):
    return [float(each.get("cx")) for each in ET.fromstring(text).iter(NAMESPACE + "circle")][3:]  # noqa: S314 (our own)


def test_twice_and_half_are_equally_far_from_one_and_nothing_leaves_the_chart():
    half, same, twice, beyond = dots(
        chart.svg([one("a", 0.5), one("b", 1.0), one("<c>", 2.0), one("d", 1000.0)], "1 thread")
    )
    assert round(same - half, 1) == round(twice - same, 1) > 0
    assert beyond == round(chart._across(8), 1)


def test_each_of_the_others_has_a_dot_of_its_own():
    others = ["onnx2tf", "litert-torch", "onnxruntime"]
    root = ET.fromstring(chart.svg([one("a", 0.5, other) for other in others], "1 thread"))  # noqa: S314 (our own)
    assert [each.get("class") for each in root.iter(NAMESPACE + "circle")] == others * 2


def test_it_brings_its_own_ground():
    """What is light on a dark system is read on a page that is light all the same."""
    text = chart.svg([one("a", 0.5)], "1 thread")
    ground = next(ET.fromstring(text).iter(NAMESPACE + "rect"))  # noqa: S314 (our own)
    assert (ground.get("class"), ground.get("width"), ground.get("height")) == ("ground", "100%", "100%")
    light, dark = text.split("prefers-color-scheme:dark")
    assert ".ground{fill:#fff}" in light and ".ground{" in dark
