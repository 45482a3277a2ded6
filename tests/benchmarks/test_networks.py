import importlib
import sys
from pathlib import Path

import numpy as np
import onnx
import pytest

import benchmarks
from benchmarks.bench import Findings
from benchmarks.measure import Ratio
from benchmarks.networks import _add_medians, _count_operators
from benchmarks.process import Child


@pytest.mark.parametrize("name", ["detector", "recurrent"])
def test_the_networks_that_no_cache_has_are_valid(name, tmp_path):
    path = tmp_path / "model.onnx"
    with Child("made", sys.executable) as child:
        child.call(name, path=str(path))
    onnx.checker.check_model(onnx.load(path), full_check=True)


def test_transposes_at_the_ends_are_not_counted():
    assert _count_operators({"operators": {"TRANSPOSE": 3, "CONV_2D": 2}, "turns": 2}) == 3


@pytest.fixture
def agreement(monkeypatch):
    monkeypatch.syspath_prepend(str(Path(benchmarks.__file__).parent / "child"))
    return importlib.import_module("agreement")


def test_an_output_with_its_channels_last_has_the_same_numbers(agreement):
    wanted = np.arange(24, dtype=np.float32).reshape(1, 2, 3, 4)
    assert agreement._error(wanted.transpose(0, 2, 3, 1), wanted) == 0
    assert agreement._error(wanted.transpose(0, 2, 3, 1) + 2.3, wanted) == pytest.approx(0.1)
    with pytest.raises(ValueError, match="where the model has"):
        agreement._error(wanted[:, :1], wanted)


def test_tensors_are_matched_by_name_else_by_position(agreement):
    details = [{"name": "b", "index": 0}, {"name": "a", "index": 1}]
    assert [agreement._match_tensors(details, names)["a"]["index"] for names in (["a", "b"], ["a", "c"])] == [1, 0]
    with pytest.raises(ValueError, match="2 of the 3"):
        agreement._match_tensors(details, ["a", "b", "c"])


def make_ratio(subject, value, theirs, aim=None):
    return Ratio(subject, "onnx-compat", theirs, value, value, value, 1, aim)


def test_the_median_network():
    latency = "network, latency, 1 thread"
    findings = Findings(
        [
            *(
                make_ratio(f"{name}: {latency}", value, "onnx2tf", 1.0)
                for name, value in (("a", 0.5), ("b", 0.9), ("c", 2.0))
            ),
            make_ratio(f"a: {latency}", 3.0, "onnxruntime"),
            make_ratio("a: bytes of the file", 4.0, "onnx2tf"),
        ]
    )
    _add_medians(findings)
    beside, runtime, size = findings.ratios[5:]
    assert beside == Ratio(f"the median network: {latency}", "onnx-compat", "onnx2tf", 0.9, 0.5, 2.0, 3, 1.0)
    assert (runtime.theirs, runtime.value, runtime.met) == ("onnxruntime", 3.0, False)  # only the median has that aim
    assert (size.subject, size.value, size.aim) == ("the median network: bytes of the file", 4.0, None)
