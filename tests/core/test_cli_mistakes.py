"""Mistakes on the command line: each is a message that says what to do, and an exit code other than 70."""

import io
import sys
from pathlib import Path
from typing import Any, List, Tuple

import numpy as np
import pytest
from building import model, node, relu_model, value
from bundles import Keeper
from registered import register
from written import Writer, command_line

import onnx_compat
from onnx_compat.boundary import typed_error
from onnx_compat.cli import main
from onnx_compat.cli.exit_codes import INPUT
from onnx_compat.conversion.convert import format_of_path
from onnx_compat.discovery import memory, missing_shims, selection
from onnx_compat.errors import ConversionError, InputError, ShimError
from onnx_compat.verification.converted_file import ConvertedFile


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return the current folder, with the models `m.onnx` and `reshape.onnx` in it."""
    (tmp_path / "m.onnx").write_bytes(relu_model().SerializeToString())
    proto = model([node("Reshape", ["x", "s"], ["y"])], [value("x", ["n", 3])], [value("y")], {"s": np.array([4, 6])})
    (tmp_path / "reshape.onnx").write_bytes(proto.SerializeToString())
    (tmp_path / "wrong.py").write_text("raise ValueError('of the user')")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("ONNX_COMPAT_SHIM", "reference")
    return tmp_path


USAGE: List[Tuple[str, str]] = [
    ("verify m.onnx --dim batch=²", "NAME=SIZE"),
    ("verify m.onnx --dim n=99999999999999999999", "NAME=SIZE"),
    ("verify m.onnx --dim n=-1", "NAME=SIZE"),
    ("convert m.onnx o.tflite --shape x=٣", "NAME=SIZE"),
    ("convert m.onnx o.tflite --shape x=1,²", "NAME=SIZE"),
    ("convert m.onnx o.tflite --value x=abc", "NAME=VALUE"),
    ("run m.onnx --seed -1", "range"),
    ("run m.onnx --seed 99999999999", "range"),
    ("verify m.onnx --rtol -1", "finite"),
    ("verify m.onnx --atol nan", "finite"),
    ("verify m.onnx --rtol inf", "finite"),
    ("convert m.onnx o.tflite --block-size 0", "range"),
    ("convert m.onnx o.tflite --mean 1,x", "list of numbers"),
    ("run m.onnx --import wrong", "ValueError: of the user"),
    ("run m.onnx --import nowhere", "nowhere"),
    ("run m.onnx --limit nodes=x", "positive integer"),
    ("convert m.onnx o.tflit", "did you mean '.tflite'?"),
    ("convert m.onnx o.h5", "did you mean '.keras'?"),
    ("convert m.onnx -", "--to"),
    ("convert m.onnx - --to saved_model", "--to"),
    ("convert m.onnx - --to tflite --json", "--json"),
    ("run m.onnx --output - --json", "--json"),
    ("rnu m.onnx", "did you mean 'run'?"),
    ("m.onnx", "inspect m.onnx"),
]


@pytest.mark.parametrize(("line", "text"), USAGE)
def test_a_mistake_of_usage(line: str, text: str, folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert command_line(line.split()) == 2
    captured = capsys.readouterr()
    assert text in captured.err + captured.out  # --json prints to standard output
    assert "Traceback" not in captured.err
    assert not list(folder.glob("o.*"))


OTHERS: List[Tuple[str, int, str]] = [
    ("run m.onn", 3, "did you mean 'm.onnx'?"),
    ("run m.onnx --shim refrence", 5, "did you mean 'reference'?"),
    ("run m.onnx --dim n=100000000000", 6, "2400.0 GB"),
    ("run m.onnx --dim m=3", 6, "'n'"),
    ("run m.onnx --inputs m.onnx", 6, "it is an ONNX model"),
    ("verify m.onnx --converted m.onnx --layers", 6, "are not compared"),
    ("verify reshape.onnx", 6, "--dim NAME=SIZE"),
]


@pytest.mark.parametrize(("line", "code", "text"), OTHERS)
def test_a_mistake_in_what_is_given(
    line: str, code: int, text: str, folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert command_line(line.split()) == code
    assert text in capsys.readouterr().err


# -- suffixes ------------------------------------------------------------------------------------------------------------
def test_suffixes_in_any_case() -> None:
    paths = {"a.TFLITE": "tflite", "a.Keras": "keras", "A.PB": "graphdef", "a": "saved_model", "a.b/": "?"}
    for path, form in list(paths.items())[:4]:
        assert format_of_path(path) == form
    with pytest.raises(ConversionError, match=r"'\.b' is no suffix"):
        format_of_path("a.b/")


# -- standard input and output ---------------------------------------------------------------------------------------------
class _Stream(io.TextIOWrapper):
    """A stream of text over bytes in memory."""

    def __init__(self, content: bytes = b"") -> None:
        super().__init__(io.BytesIO(content), encoding="utf-8")

    @property
    def content(self) -> bytes:
        self.flush()
        return self.buffer.getvalue()  # type: ignore[attr-defined]  # the buffer is the BytesIO above


def test_a_model_from_standard_input(monkeypatch: Any, folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for command in ("run", "inspect", "support", "verify"):
        monkeypatch.setattr(sys, "stdin", _Stream((folder / "m.onnx").read_bytes()))
        assert command_line([command, "-"]) == 0, capsys.readouterr().err
    monkeypatch.setattr(sys, "stdin", _Stream(b"version https://git-lfs.github.com/spec/v1"))
    assert command_line(["run", "-"]) == 3
    assert "git lfs pull" in capsys.readouterr().err
    monkeypatch.setattr(sys, "stdin", _Stream(b""))
    assert command_line(["run", "-", "--inputs", "-"]) == 2
    assert "already" in capsys.readouterr().err


def test_a_pipe_of_the_shell(folder: Path) -> None:
    """`onnx-compat run <(cat m.onnx)` has a path of /dev/fd."""
    import os

    reader, writer = os.pipe()
    os.write(writer, (folder / "m.onnx").read_bytes())
    os.close(writer)
    try:
        assert command_line(["run", "/dev/fd/%d" % reader]) == 0
    finally:
        os.close(reader)


def test_outputs_and_files_to_standard_output(monkeypatch: Any, folder: Path) -> None:
    out = _Stream()
    monkeypatch.setattr(sys, "stdout", out)
    assert command_line(["run", "m.onnx", "--output", "-"]) == 0
    assert np.load(io.BytesIO(out.content))["y"].shape == (2, 3)
    assert sys.stdout is out
    writer = Writer()
    monkeypatch.delenv("ONNX_COMPAT_SHIM")
    monkeypatch.setattr(selection, "installed_shims", lambda: {"writer": None})
    monkeypatch.setitem(selection._LOADED, "writer", writer)
    out = _Stream()
    monkeypatch.setattr(sys, "stdout", out)
    assert command_line(["convert", "m.onnx", "-", "--to", "tflite", "--shim", "writer"]) == 0
    assert out.content == b"new"


# -- hints and memory ------------------------------------------------------------------------------------------------------
def test_a_hint_never_installs_what_is_installed(monkeypatch: Any) -> None:
    assert missing_shims.how_to_get("tflite").startswith(("pip install", "the shim tflite is"))
    monkeypatch.setattr(selection, "installed_shims", lambda: {"tflite": None})
    monkeypatch.setattr(selection, "probe", lambda name: None)
    for remedy in ("repair it", None):
        monkeypatch.setattr(selection, "hint", lambda name, remedy=remedy: remedy)
        assert "pip install 'onnx-compat[tflite]'" not in missing_shims.how_to_get("tflite")
        assert missing_shims.how_to_get("tflite") == remedy or "doctor" in missing_shims.how_to_get("tflite")


def test_an_array_that_does_not_fit_the_memory_is_named_in_gb() -> None:
    with pytest.raises(MemoryError) as caught:
        np.empty((2**44, 3), np.float32)
    assert "takes 211106.2 GB" in typed_error(caught.value).reason
    assert typed_error(MemoryError("text")).reason.endswith(": text")
    with pytest.raises(InputError, match=r"x takes 8000000\.0 GB"):
        memory.check_memory("x", (10**15,), 8)
    memory.check_memory("x", (10,), 8)


def rows_of_six() -> Any:
    """Return a model that refuses the generated number of rows."""
    return model([node("Reshape", ["x", "s"], ["y"])], [value("x", ["n", 3])], [value("y")], {"s": np.array([4, 6])})


def test_the_oracle_is_asked_first() -> None:
    """Generated sizes that the model refuses are its error, not that of the shim."""
    proto = rows_of_six()
    with pytest.raises(InputError, match="the model itself refuses inputs of the generated sizes") as caught:
        onnx_compat.verify(proto, shim="reference")
    assert "'x' [2, 3]" in caught.value.reason
    assert caught.value.operator == "Reshape"
    assert onnx_compat.verify(proto, shim="reference", dims={"n": 8}).ok
    with pytest.raises(ShimError):
        onnx_compat.verify(proto, shim="nonsense")


def test_convert_asks_the_oracle_before_it_runs_the_file(monkeypatch: Any, tmp_path: Path, capsys: Any) -> None:
    register(monkeypatch, Keeper())
    run, runs = ConvertedFile.run, []
    monkeypatch.setattr(ConvertedFile, "run", lambda self, feed: runs.append(feed) or run(self, feed))
    (tmp_path / "m.onnx").write_bytes(rows_of_six().SerializeToString())
    command = ["convert", str(tmp_path / "m.onnx"), str(tmp_path / "m.tflite"), "--shim=keeper", "--verify"]
    assert main(command) == INPUT and not runs
    message = capsys.readouterr().err
    assert "the model itself refuses inputs of the generated sizes ('x' [2, 3])" in message and "--dim" in message
    assert main([*command, "--dim", "n=8"]) == 0 and runs
