"""Destinations: files that are read and devices are never overwritten, and errors of the file system are reported."""

import os
import socket
import sys
import tempfile
from functools import partial
from pathlib import Path
from typing import Any, Dict

import numpy as np
import pytest
from registered import register
from written import ALIASES, WEIGHTS, Writer, check_refused, run_refused, tree, write_model, write_saved_model

import onnx_compat
from onnx_compat.conversion.destinations import files_of
from onnx_compat.errors import InputError


@pytest.fixture(name="writer")
def _writer(monkeypatch: pytest.MonkeyPatch) -> Writer:
    shim = Writer()
    register(monkeypatch, shim)
    return shim


# -- files that are read -----------------------------------------------------------------------------------------------
@pytest.mark.parametrize("alias", sorted(ALIASES))
@pytest.mark.parametrize("read", ["m.onnx", "weights.bin", "samples.npz"])
def test_no_file_that_a_conversion_reads_is_overwritten(writer: Writer, tmp_path: Path, read: str, alias: str) -> None:
    source = write_model(tmp_path, "weights.bin")
    np.savez(str(tmp_path / "samples.npz"), x=np.ones((2, 3), np.float32))
    target = tmp_path / "out.tflite"
    if (read, alias) == ("weights.bin", "itself"):
        source = write_model(tmp_path, target.name)
    else:
        ALIASES[alias](tmp_path / read, target)
    options: Dict[str, Any] = {"quantize": "int8", "calibrate": str(tmp_path / "samples.npz")}
    for source_argument in (str(source), onnx_compat.load(str(source))):
        check_refused(
            tmp_path,
            partial(onnx_compat.convert, source_argument, target, **options),
            str(target),
            "overwrite a file that is read",
        )
    assert not writer.exports


def test_no_file_that_is_read_is_overwritten_by_a_bundle(writer: Writer, tmp_path: Path) -> None:
    source, bundle = write_model(tmp_path, "weights.bin"), tmp_path / "m.tflite.zip"
    os.link(str(tmp_path / "weights.bin"), str(bundle))
    for target in (bundle, tmp_path / "m.tflite"):
        check_refused(
            tmp_path, partial(onnx_compat.convert, str(source), target, to="tflite", allow_fallback=True),
            str(bundle), "overwrite a file that is read",
        )  # fmt: skip
    assert not writer.exports


def test_the_files_of_a_model_are_those_of_its_tensors(tmp_path: Path) -> None:
    source = write_model(tmp_path, "weights.bin")
    weights = str((tmp_path / "weights.bin").resolve())
    assert onnx_compat.load(str(source)).data_files == (weights,)
    assert onnx_compat.load(source.read_bytes(), folder=tmp_path).data_files == (weights,)
    assert files_of(onnx_compat.load(str(source))) == [str(source), weights]
    assert files_of(None) == files_of(b"m.onnx") == files_of("") == files_of(np.ones(3)) == []
    saved = write_saved_model(tmp_path / "saved")
    assert str(saved / "variables" / "variables.index") in files_of(saved)


@pytest.mark.parametrize("kind", ["images", "arrays"])
def test_a_folder_of_calibration_data_keeps_its_files(writer: Writer, tmp_path: Path, kind: str) -> None:
    from onnx_compat.calibration import GENERATED, Images, paths_of

    source, data = write_model(tmp_path), tmp_path / "data"
    data.mkdir()
    np.save(str(data / "a.npy"), np.ones((1, 3), np.float32))
    os.link(str(data / "a.npy"), str(data / "b.tflite"))
    calibration_data = Images(str(data)) if kind == "images" else str(data)
    check_refused(
        tmp_path, partial(onnx_compat.convert, str(source), data / "b.tflite", quantize="int8", calibrate=calibration_data),
        "overwrite a file that is read: '%s" % data,
    )  # fmt: skip
    assert paths_of(GENERATED) == paths_of(None) == paths_of(np.ones(3)) == []
    if kind == "arrays":
        assert onnx_compat.convert(str(source), data / "c.tflite", quantize="int8", calibrate=calibration_data).exists()


def test_no_part_of_a_joined_file_is_overwritten(writer: Writer, tmp_path: Path) -> None:
    for name in ("a.tflite", "b.tflite"):
        (tmp_path / name).write_text(name)
    (tmp_path / "out.tflite").symlink_to("b.tflite")
    parts = {name: tmp_path / (name + ".tflite") for name in "ab"}
    for target in ("a.tflite", "b.tflite", "out.tflite"):
        check_refused(
            tmp_path, partial(onnx_compat.join, parts, tmp_path / target), target, "overwrite a file that is read"
        )
    assert onnx_compat.join(parts, tmp_path / "c.tflite").read_text() == "joined"


def test_no_command_overwrites_a_file_that_it_reads(
    writer: Writer, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    source = write_model(tmp_path, "weights.bin")
    np.savez(str(tmp_path / "in.npz"), x=WEIGHTS)
    (tmp_path / "my_ops.py").write_text("")
    monkeypatch.syspath_prepend(str(tmp_path))
    for name in ("weights.bin", "in.npz", "my_ops.py"):
        os.link(str(tmp_path / name), str(tmp_path / (name + ".tflite")))
    before = tree(tmp_path)
    out, weights, input_file = tmp_path / "out.tflite", tmp_path / "weights.bin", tmp_path / "in.npz"
    for arguments in (
        ("run", source, "--output", weights),
        ("run", source, "--inputs", input_file, "--output", tmp_path / "in.npz.tflite"),
        ("verify", source, "--report", weights),
        ("verify", source, "--inputs", input_file, "--report", input_file),
        ("verify", source, "--report", tmp_path / "my_ops.py", "--import", "my_ops"),
        ("convert", source, out, "--report", weights),
        ("convert", source, out, "--report", input_file, "--inputs", input_file),
        ("convert", source, out, "--report", input_file, "--calibrate", input_file, "--quantize", "int8"),
        ("convert", source, out, "--report", out),
        ("convert", source, out, "--report", str(out) + ".zip", "--allow-fallback"),
        ("convert", source, tmp_path / "weights.bin.tflite"),
        ("convert", source, tmp_path / "in.npz.tflite", "--verify", "--inputs", input_file),
        ("convert", source, tmp_path / "my_ops.py.tflite", "--import", "my_ops"),
    ):
        assert "overwrite a file that is read" in run_refused(capsys, *arguments), arguments
        assert tree(tmp_path) == before
    sys.modules.pop("my_ops")


def test_a_report_is_not_written_into_a_folder_that_is_replaced_or_read(
    writer: Writer, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    source, saved = write_model(tmp_path), write_saved_model(tmp_path / "out")
    before = tree(tmp_path)
    assert "holds" in run_refused(capsys, "convert", source, saved, "--report", saved / "r.html")
    page = saved / "saved_model.pb"
    assert "a file that is read" in run_refused(capsys, "verify", source, "--converted", saved, "--report", page)
    assert "a file that is read" in run_refused(capsys, "run", saved, "--output", page)
    assert tree(tmp_path) == before


# -- paths that cannot be written ----------------------------------------------------------------------------------------
def test_a_path_that_cannot_be_written_is_refused(writer: Writer, tmp_path: Path, monkeypatch: Any) -> None:
    source = write_model(tmp_path)
    (tmp_path / "file").write_text("x")
    (tmp_path / "folder.tflite").mkdir()
    os.mkfifo(str(tmp_path / "pipe.tflite"))
    for name, to in (("dangling.tflite", "nowhere"), ("loop.tflite", "loop.tflite"), ("null.tflite", "/dev/null")):
        (tmp_path / name).symlink_to(to)
    (tmp_path / "out.tflite").symlink_to("/proc/self/fd/1")
    (tmp_path / "twice.tflite").symlink_to("out.tflite")
    monkeypatch.chdir(tmp_path)
    with socket.socket(socket.AF_UNIX) as listening:
        listening.bind("socket.tflite")
        cases = [
            ("pipe.tflite", "device or a pipe"), ("socket.tflite", "device or a pipe"),
            ("null.tflite", "device or a pipe"), ("out.tflite", "device or a pipe"),
            ("twice.tflite", "device or a pipe"), ("/dev/null", "device or a pipe"),
            ("dangling.tflite", "is a link to 'nowhere', which does not exist"), ("loop.tflite", "cannot be written"),
            ("folder.tflite", "is a folder, and a file is to be written"), ("missing/m.tflite", "does not exist"),
            ("file/m.tflite", "is no folder"), ("x" * 300 + ".tflite", "too long"),
            ("", "is not a path"), ("a\0.tflite", "is not a path"), (b"m.tflite", "is not a path"), (3, "is not a path"),
            ("\ud800.tflite", "is not a path"),
        ]  # fmt: skip
        for path, words in cases:
            check_refused(tmp_path, partial(onnx_compat.convert, str(source), path, to="tflite"), words)
    check_refused(
        tmp_path, partial(onnx_compat.convert, str(source), "file"), "is a file, and a folder is to be written"
    )
    assert not writer.exports


@pytest.mark.parametrize("number", [1, 13, 30])
def test_an_error_of_the_system_is_reported(
    writer: Writer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, number: int
) -> None:
    """The errors are simulated, because the tests may run as root, who can write everywhere."""
    source = write_model(tmp_path)

    def fail(*_: Any, **__: Any) -> Any:
        raise OSError(number, os.strerror(number))

    for module, name in ((tempfile, "mkdtemp"), (os, "replace")):
        with monkeypatch.context() as patch:
            patch.setattr(module, name, fail)
            check_refused(
                tmp_path, partial(onnx_compat.convert, str(source), tmp_path / "m.tflite"), os.strerror(number)
            )


def test_a_change_during_the_conversion_is_found(
    writer: Writer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    source, target = write_model(tmp_path), tmp_path / "out"
    export = writer.export

    def slow(program: Any, path: str, file_format: str) -> None:
        export(program, path, file_format)
        target.mkdir()
        (target / "thesis.txt").write_text("the only copy")

    monkeypatch.setattr(writer, "export", slow)
    with pytest.raises(InputError, match=r"thesis\.txt"):
        onnx_compat.convert(str(source), target)
    assert tree(target) == {"thesis.txt": b"the only copy"}
    assert sorted(os.listdir(str(tmp_path))) == ["m.onnx", "out"]
