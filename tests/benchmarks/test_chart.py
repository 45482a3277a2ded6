"""The chart of latency ratios: the positions of its dots, and well-formed SVG."""

import xml.etree.ElementTree as ET

from benchmarks import chart
from benchmarks.measure import Ratio

NAMESPACE = "{http://www.w3.org/2000/svg}"


def make_ratio(name, value, theirs="onnx2tf"):
    return Ratio(f"{name}: network, latency, 1 thread", "onnx-compat", theirs, value, value, value, 3, None)


def dots(text):
    return [float(dot.get("cx")) for dot in ET.fromstring(text).iter(NAMESPACE + "circle")][3:]  # noqa: S314 (our own)


def test_ratios_are_logarithmic_and_stay_inside_the_chart():
    half, same, twice, beyond = dots(
        chart.draw_chart(
            [make_ratio("a", 0.5), make_ratio("b", 1.0), make_ratio("<c>", 2.0), make_ratio("d", 1000.0)], "1 thread"
        )
    )
    assert round(same - half, 1) == round(twice - same, 1) > 0
    assert beyond == round(chart._x_of(8), 1)


def test_each_other_model_has_a_dot():
    peers = ["onnx2tf", "litert-torch", "onnxruntime"]
    root = ET.fromstring(chart.draw_chart([make_ratio("a", 0.5, peer) for peer in peers], "1 thread"))  # noqa: S314 (our own)
    assert [dot.get("class") for dot in root.iter(NAMESPACE + "circle")] == peers * 2


def test_the_chart_has_a_background():
    """The SVG has a background rectangle, because a page may be light on a system with a dark colour scheme."""
    text = chart.draw_chart([make_ratio("a", 0.5)], "1 thread")
    ground = next(ET.fromstring(text).iter(NAMESPACE + "rect"))  # noqa: S314 (our own)
    assert (ground.get("class"), ground.get("width"), ground.get("height")) == ("ground", "100%", "100%")
    light, dark = text.split("prefers-color-scheme:dark")
    assert ".ground{fill:#fff}" in light and ".ground{" in dark
