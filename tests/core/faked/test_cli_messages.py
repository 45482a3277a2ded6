"""Messages of the commands: the next step after a failed verification, and files of another format than expected."""

import pytest

import onnx_compat
from onnx_compat.errors import InputError, VerificationError
from onnx_compat.verification.converted_file import open_converted

TFLITE = b"\x1c\0\0\0TFL3" + b"\0" * 20
ONNX = b"\x08\x07\x12\x04test" + b"\0" * 20
VERIFY = ("verify", "m.onnx", "--oracle", "reference", "--shim", "off")


def test_a_failed_verification_names_the_next_step(command):
    assert "hint: run it again with --layers" in command(*VERIFY)[1].splitlines()[-1]
    assert "hint:" not in command(*VERIFY[:-2])[1]


def test_a_bisection_has_no_next_step(command, monkeypatch):
    from onnx_compat.verification import bisection

    result = bisection.Bisection("p", "the pass 'p' makes the result wrong", {})
    monkeypatch.setattr(bisection, "bisect_verification", lambda *_, **__: result)
    out = command(*VERIFY, "--bisect-passes")[1]
    assert out.splitlines()[-1] == "passes: the pass 'p' makes the result wrong"
    assert "hint:" not in out


def test_a_defect_has_one_place_and_one_hint(command, monkeypatch):
    def fail(_):
        raise VerificationError("%3 is read before it is computed", hint="Report it.", node="add_0", operator="Add")

    monkeypatch.setattr(onnx_compat, "load", fail)
    code, _, err = command("run", "m.onnx")
    assert code == 70
    assert err.splitlines() == [
        "error: VerificationError: %3 is read before it is computed",
        "  where: a defect in onnx-compat, operator Add, node 'add_0'",
        "  hint: Report it; run the command again with --debug, and report its output",
    ]
    assert "hint: Report it" in command("run", "m.onnx", "--debug")[2].splitlines()[-1]


def test_an_onnx_file_that_is_named_tflite(command, tmp_path):
    path = tmp_path / "m.tflite"
    path.write_bytes(ONNX)
    with pytest.raises(InputError, match="it is an ONNX model"):
        open_converted(path)
    assert "is no .tflite file: it is an ONNX model" in command("inspect", path)[2]
