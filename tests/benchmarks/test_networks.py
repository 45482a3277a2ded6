import sys

import onnx
import pytest

from benchmarks.bench import Findings, Setting
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


def test_the_median_network(tmp_path):
    def one(name, value, other):
        return Ratio(f"{name}: network, latency, 1 thread", "onnx-compat", other, value, value, value, 1, None)

    found = Findings([one("a", 0.5, "onnx2tf"), one("b", 0.9, "onnx2tf"), one("c", 2.0, "onnx2tf"), one("a", 3.0, "x")])
    _medians(Setting({}, [], tmp_path, 1, (1,)), found)
    (median,) = found.ratios[4:]
    assert (median.value, median.low, median.high, median.rounds, median.met) == (0.9, 0.5, 2.0, 3, True)
    assert median.what == "the median network: network, latency, 1 thread"
