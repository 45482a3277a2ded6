"""Helpers for tests of files that are written: a fake shim that writes small files and folders, and assertions."""

import os
from pathlib import Path
from typing import Any, Callable, Dict

import numpy as np
import pytest
from building import model, node, value

from onnx_compat.cli.app import run as command_line
from onnx_compat.errors import InputError
from onnx_compat.reference.shim import ReferenceShim
from onnx_compat.shim.interface import Scheme

WEIGHTS = np.arange(3, dtype=np.float32)


class Writer(ReferenceShim):
    """A fake shim that writes small files, and folders with the entries of a SavedModel."""

    name = "writer"
    formats = {"tflite": (".tflite", "file"), "saved_model": ("", "folder")}
    schemes = {"tflite": (Scheme("int8", "whole numbers", 20.0, calibrated=True),)}
    exports = 0

    def export(self, program: Any, path: str, form: str) -> None:
        self.exports += 1
        if form == "saved_model":
            os.makedirs(os.path.join(path, "variables"))
            Path(path, "variables", "variables.index").write_text("new")
            path = os.path.join(path, "saved_model.pb")
        Path(path).write_text("new")

    def quantize(self, path: str, file_format: str, how: Any) -> None:
        list(how.samples)

    def join(self, files: Any, path: str, file_format: str) -> None:
        Path(path).write_text("joined")


def write_model(folder: Path, external: str = "") -> Path:
    """Write the model `m.onnx`. `external`: the name of a file for its weights."""
    proto = model([node("Add", ["x", "w"], ["y"])], [value("x", [3])], [value("y")], {"w": WEIGHTS})
    if external:
        weights = proto.graph.initializer[0]
        (folder / external).write_bytes(WEIGHTS.tobytes())
        weights.ClearField("raw_data")
        weights.data_location = 1
        entry = weights.external_data.add()
        entry.key, entry.value = "location", external
    (folder / "m.onnx").write_bytes(proto.SerializeToString())
    return folder / "m.onnx"


def write_saved_model(folder: Path, text: str = "old") -> Path:
    """Write the files of a SavedModel, each with the content `text`."""
    for name in ("saved_model.pb", "fingerprint.pb", "variables/variables.index", "assets/vocabulary.txt"):
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text)
    return folder


def tree(folder: Path) -> Dict[str, Any]:
    """Return path -> content for every entry below a folder: bytes of a file, target of a link, False for a folder."""
    return {
        str(path.relative_to(folder)): os.readlink(str(path))
        if path.is_symlink()
        else path.is_file() and path.read_bytes()
        for path in sorted(folder.rglob("*"))
    }


def check_refused(folder: Path, act: Callable[[], Any], *words: str) -> None:
    """Assert that `act` raises an InputError whose message has these words, and that the folder does not change."""
    before = tree(folder)
    with pytest.raises(InputError) as caught:
        act()
    for word in words:
        assert word in caught.value.reason, caught.value.reason
    assert caught.value.hint
    assert tree(folder) == before


ALIASES: Dict[str, Callable[[Path, Path], Any]] = {
    "itself": lambda file, alias: os.rename(str(file), str(alias)) or os.symlink(str(alias), str(file)),
    "symbolic link": lambda file, alias: os.symlink(str(file), str(alias)),
    "hard link": lambda file, alias: os.link(str(file), str(alias)),
}


def run_refused(capsys: pytest.CaptureFixture[str], *arguments: Any) -> str:
    """Run a command that fails with the exit code INPUT. Return its standard error."""
    assert command_line([str(argument) for argument in arguments]) == 6
    return capsys.readouterr().err
