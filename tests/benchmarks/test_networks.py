import sys

import onnx
import pytest

from benchmarks.bench import Findings
from benchmarks.measure import Ratio
from benchmarks.networks import _count, _medians
from benchmarks.process import Child


@pytest.mark.parametrize("name", ["detector", "recurrent"])
def test_the_networks_that_no_cache_has_are_valid(name, tmp_path):
    path = tmp_path / "model.onnx"
    with Child("made", sys.executable) as child:
        child.call(name, path=str(path))
    onnx.checker.check_model(onnx.load(path), full_check=True)


def test_what_turns_the_ends_is_no_operator():
    assert _count({"operators": {"TRANSPOSE": 3, "CONV_2D": 2}, "turns": 2}) == 3


def one(what, value, other, aim=None):
    return Ratio(what, "onnx-compat", other, value, value, value, 1, aim)


def test_the_median_network():
    latency = "network, latency, 1 thread"
    found = Findings(
        [
            *(one(f"{name}: {latency}", value, "onnx2tf", 1.0) for name, value in (("a", 0.5), ("b", 0.9), ("c", 2.0))),
            one(f"a: {latency}", 3.0, "onnxruntime"),
            one("a: bytes of the file", 4.0, "onnx2tf"),
        ]
    )
    _medians(found)
    beside, runtime, size = found.ratios[5:]
    assert beside == Ratio(f"the median network: {latency}", "onnx-compat", "onnx2tf", 0.9, 0.5, 2.0, 3, 1.0)
    assert (runtime.other, runtime.value, runtime.met) == ("onnxruntime", 3.0, False)  # only the median has that aim
    assert (size.what, size.value, size.aim) == ("the median network: bytes of the file", 4.0, None)
