import json
import sys

import pytest

from benchmarks.bench import Findings, Missing, Setting
from benchmarks.latency import runs_per_round
from benchmarks.measure import Figure, alternate, ratio
from benchmarks.process import Child, ChildError
from benchmarks.report import markdown, to_json


def test_rounds_alternate_and_each_round_has_another_order():
    calls = []

    def work(name):
        calls.append(name)
        return [1.0, 3.0, 2.0]

    samples = alternate({"a": lambda: work("a"), "b": lambda: work("b")}, rounds=2)
    assert samples == {"a": [2.0, 2.0], "b": [2.0, 2.0]}
    assert calls == ["a", "b", "a", "b", "b", "a"]


@pytest.mark.parametrize(("seconds", "times"), [([0.2, 0.1], 5), ([3e-4, 2.5e-4], 20), ([1e-6], 500), ([0.0], 500)])
def test_a_round_of_microseconds_has_more_runs(seconds, times):
    assert runs_per_round(seconds) == times


def test_a_slow_minute_does_not_change_a_ratio():
    samples = {"ours": [1.0, 10.0, 1.0], "other": [2.0, 20.0, 2.0]}
    quotient = ratio("x", samples, "ours", "other", aim=0.5)
    assert (quotient.value, quotient.low, quotient.high, quotient.met) == (0.5, 0.5, 0.5, True)
    assert ratio("x", samples, "other", "ours", aim=1.0).met is False
    assert ratio("x", samples, "other", "ours").met is None


def test_a_child_answers_fails_and_dies_by_name():
    with Child("mine", sys.executable) as child:
        assert set(child.call("versions", names=["pytest", "no-such-thing"])) == {"pytest"}
        with pytest.raises(ChildError, match=r"mine: run: KeyError"):
            child.call("run", name="never opened", times=1)
        assert child.call("import", modules=["json"])["seconds"] >= 0
    with Child("dead", sys.executable) as child:
        child._process.kill()
        child._process.wait()
        with pytest.raises(ChildError, match="dead: the process died during `versions`"):
            child.call("versions", names=[])


def test_an_environment_that_is_not_there_is_named(tmp_path):
    setting = Setting({"tflite-1": sys.executable, "tf2-1": str(tmp_path / "python")}, [], tmp_path, 1)
    assert setting.python("tflite-") == ("tflite-1", sys.executable)
    with pytest.raises(Missing, match=r"onnx2tf\*"):
        setting.python("onnx2tf")
    with pytest.raises(Missing, match="tf2-1"):
        setting.python("tf2-")


def test_the_page_says_what_was_missed_and_what_is_missing():
    findings = Findings(
        [ratio("speed", {"a": [2.0], "b": [1.0]}, "a", "b", aim=1.0)],
        [Figure("speed", "a", 2.0, "s")],
        ["no onnx-tf here"],
    )
    page = markdown(findings)
    assert "| speed | a / b | 2.000 | 2.000 to 2.000 | 1 | <= 1 | MISSED |" in page
    assert "- no onnx-tf here" in page
    assert json.loads(to_json(findings))["ratios"][0]["met"] is False
