"""The conversion bench on fake child processes: the requests that each gets, and the findings from its answers."""

import pytest

from benchmarks import conversion, from_torch
from benchmarks.bench import Findings, Setting
from benchmarks.process import ChildError

OURS, PEER = "onnx-compat", "onnx2tf"


class Tool:
    """A fake child process whose conversions take fixed times and memory.

    `fails`: the name of the tool that raises ChildError.
    """

    calls: list = []
    fails = ""
    peak = {OURS: 3_000_000, PEER: 50_000_000}
    size = 2_000_000

    def __init__(self, label, python):
        self.label = label

    def __enter__(self):
        return self

    def __exit__(self, *_):
        pass

    def call(self, command, path, **arguments):
        self.calls.append((self.label, command, arguments.get("model") or arguments["name"]))
        if self.label == self.fails:
            raise ChildError(f"{self.label}: it is refused")
        with open(path, "wb") as file:
            file.truncate(self.size)
        first = len([call for call in self.calls if call[0] == self.label]) == 2
        return {"seconds": 0.1 if self.label == OURS else 2.0, "peak": self.peak[self.label] if first else 0}


@pytest.fixture(name="measured")
def _measure_fixture(monkeypatch, tmp_path):
    python = tmp_path / "python"
    python.touch()
    monkeypatch.setattr(conversion, "Child", Tool)
    monkeypatch.setattr(from_torch, "Child", Tool)
    monkeypatch.setattr(Tool, "calls", [])
    (tmp_path / "small.onnx").write_bytes(b"12345")
    setting = Setting({"tflite-1": str(python), "onnx2tf": str(python)}, [], tmp_path, 8)

    def measure(size):
        model = tmp_path / "m.onnx"
        model.write_bytes(bytes(size))
        findings = Findings()
        return conversion.measure_in_process(setting, "m", model, tmp_path / "small.onnx", findings), findings

    return measure


def ratios(findings):
    return {(ratio.subject.partition(": ")[2], ratio.ours, ratio.theirs): ratio for ratio in findings.ratios}


def test_the_first_conversion_after_a_small_one_measures_the_memory(measured, tmp_path):
    files, findings = measured(5_000_000)
    assert files == {tool: str(tmp_path / f"m.{tool}.tflite") for tool in (OURS, PEER)}
    assert [model.rpartition("/")[2] for tool, _, model in Tool.calls if tool == OURS] == [
        "small.onnx",
        *["m.onnx"] * 3,
    ]
    by_subject = ratios(findings)
    assert by_subject[conversion.TIME, OURS, PEER].value == pytest.approx(0.05)
    assert by_subject[conversion.TIME, OURS, PEER].met is True
    assert (
        by_subject[conversion.PEAK, OURS, conversion.MODEL].value,
        by_subject[conversion.PEAK, OURS, conversion.MODEL].aim,
    ) == (
        0.6,
        2,
    )
    assert (
        by_subject[conversion.PEAK, PEER, conversion.MODEL].value,
        by_subject[conversion.PEAK, PEER, conversion.MODEL].aim,
    ) == (
        10,
        None,
    )


def test_the_memory_of_a_small_model_is_given_in_bytes_alone(measured):
    _, findings = measured(10)
    assert all(ratio.theirs != conversion.MODEL for ratio in findings.ratios)
    assert [
        (figure.tool, figure.value) for figure in findings.figures if figure.subject == f"m: {conversion.PEAK}"
    ] == [
        (OURS, 3),
        (PEER, 50),
    ]
    (size,) = [figure.value for figure in findings.figures if figure.subject == f"m: {conversion.MODEL}"]
    assert size == 2  # nodes compute its weights: only the converted file holds them


def test_a_peer_that_fails_is_named_and_ours_that_fails_ends_it(measured, monkeypatch):
    monkeypatch.setattr(Tool, "fails", PEER)
    files, findings = measured(5_000_000)
    assert list(files) == [OURS]
    assert findings.missing == ["m: onnx2tf: it is refused"]
    assert {figure.tool for figure in findings.figures if figure.subject == f"m: {conversion.TIME}"} == {OURS}
    monkeypatch.setattr(Tool, "fails", OURS)
    with pytest.raises(ChildError, match="it is refused"):
        measured(5_000_000)


def test_litert_torch_converts_modules_of_the_zoo_by_name(measured, monkeypatch, tmp_path):
    findings = Findings()
    setting = Setting({}, [], tmp_path, 8)
    assert from_torch.from_torch(setting, {"vit": ("vit", False)}, findings) == {}
    assert "no environment litert-torch*" in findings.missing[0]
    setting.pythons["litert-torch"] = str(tmp_path / "python")
    monkeypatch.setattr(Tool, "peak", {"litert-torch": 0})
    wanted = {"vit (small)": ("vit", False), "gru (small)": ("gru", False)}
    files = from_torch.from_torch(setting, wanted, findings)
    assert set(files) == set(wanted)
    assert [name for _, _, name in Tool.calls] == ["gru", "vit", "gru"]  # the first is the warm-up
    assert [(figure.subject, figure.tool) for figure in findings.figures] == [
        (f"{n}: {conversion.TIME}", "litert-torch") for n in wanted
    ]
