"""Time and memory of a conversion: what is asked of which process, and what is made of the answers."""

import pytest

from benchmarks import conversion, from_torch
from benchmarks.bench import Findings, Setting
from benchmarks.process import ChildError

OURS, PEER = "onnx-compat", "onnx2tf"


class Tool:
    """A child whose conversions take as long, and as much, as told; `fails` names the one that does not convert."""

    asked: list = []
    fails = ""
    peak = {OURS: 3_000_000, PEER: 50_000_000}
    size = 2_000_000

    def __init__(self, label, python):
        self.label = label

    def __enter__(self):
        return self

    def __exit__(self, *_):
        pass

    def call(self, command, path, **told):
        self.asked.append((self.label, command, told.get("model") or told["name"]))
        if self.label == self.fails:
            raise ChildError(f"{self.label}: it is refused")
        with open(path, "wb") as file:
            file.truncate(self.size)
        first = len([one for one in self.asked if one[0] == self.label]) == 2
        return {"seconds": 0.1 if self.label == OURS else 2.0, "peak": self.peak[self.label] if first else 0}


@pytest.fixture(name="measured")
def _measured(monkeypatch, tmp_path):
    python = tmp_path / "python"
    python.touch()
    monkeypatch.setattr(conversion, "Child", Tool)
    monkeypatch.setattr(from_torch, "Child", Tool)
    monkeypatch.setattr(Tool, "asked", [])
    (tmp_path / "small.onnx").write_bytes(b"12345")
    setting = Setting({"tflite-1": str(python), "onnx2tf": str(python)}, [], tmp_path, 8)

    def measure(size):
        model = tmp_path / "m.onnx"
        model.write_bytes(bytes(size))
        found = Findings()
        return conversion.inside(setting, "m", model, tmp_path / "small.onnx", found), found

    return measure


def ratios(found):
    return {(one.what.partition(": ")[2], one.ours, one.other): one for one in found.ratios}


def test_the_first_conversion_after_a_small_one_tells_of_the_memory(measured, tmp_path):
    files, found = measured(5_000_000)
    assert files == {tool: str(tmp_path / f"m.{tool}.tflite") for tool in (OURS, PEER)}
    assert [model.rpartition("/")[2] for tool, _, model in Tool.asked if tool == OURS] == [
        "small.onnx",
        *["m.onnx"] * 3,
    ]
    each = ratios(found)
    assert each[conversion.TIME, OURS, PEER].value == pytest.approx(0.05)
    assert each[conversion.TIME, OURS, PEER].met is True
    assert (each[conversion.PEAK, OURS, conversion.MODEL].value, each[conversion.PEAK, OURS, conversion.MODEL].aim) == (
        0.6,
        2,
    )
    assert (each[conversion.PEAK, PEER, conversion.MODEL].value, each[conversion.PEAK, PEER, conversion.MODEL].aim) == (
        10,
        None,
    )


def test_of_a_small_model_the_memory_is_told_in_bytes_alone(measured):
    _, found = measured(10)
    assert all(one.other != conversion.MODEL for one in found.ratios)
    assert [(one.of, one.value) for one in found.figures if one.what == f"m: {conversion.PEAK}"] == [
        (OURS, 3),
        (PEER, 50),
    ]
    (size,) = [one.value for one in found.figures if one.what == f"m: {conversion.MODEL}"]
    assert size == 2  # its nodes make the weights: those are in the file that was made


def test_a_peer_that_fails_is_named_and_ours_that_fails_ends_it(measured, monkeypatch):
    monkeypatch.setattr(Tool, "fails", PEER)
    files, found = measured(5_000_000)
    assert list(files) == [OURS]
    assert found.missing == ["m: onnx2tf: it is refused"]
    assert {one.of for one in found.figures if one.what == f"m: {conversion.TIME}"} == {OURS}
    monkeypatch.setattr(Tool, "fails", OURS)
    with pytest.raises(ChildError, match="it is refused"):
        measured(5_000_000)


def test_litert_torch_converts_modules_of_the_zoo_by_name(measured, monkeypatch, tmp_path):
    found = Findings()
    setting = Setting({}, [], tmp_path, 8)
    assert from_torch.from_torch(setting, {"vit": ("vit", False)}, found) == {}
    assert "no environment litert-torch*" in found.missing[0]
    setting.pythons["litert-torch"] = str(tmp_path / "python")
    monkeypatch.setattr(Tool, "peak", {"litert-torch": 0})
    wanted = {"vit (small)": ("vit", False), "gru (small)": ("gru", False)}
    made = from_torch.from_torch(setting, wanted, found)
    assert set(made) == set(wanted)
    assert [name for _, _, name in Tool.asked] == ["gru", "vit", "gru"]  # the first does not count
    assert [(one.what, one.of) for one in found.figures] == [
        (f"{n}: {conversion.TIME}", "litert-torch") for n in wanted
    ]
