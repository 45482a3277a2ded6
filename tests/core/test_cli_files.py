"""The command line on files: join, calibration with images, shapes and values of inputs, and values of outputs."""

import json
from pathlib import Path
from typing import Any, List

import numpy as np
import pytest
from building import INT64, STRING, model, node, value
from registered import register
from written import Writer, run_refused, write_model

from onnx_compat.cli.app import run as command_line
from onnx_compat.cli.inspect_file import _format_cell
from onnx_compat.conversion.convert import formats
from onnx_compat.conversion.join import join
from onnx_compat.errors import ConversionError, ShimError


@pytest.fixture(name="writer")
def _writer(monkeypatch: pytest.MonkeyPatch) -> Writer:
    shim = Writer()
    register(monkeypatch, shim)
    return shim


def run(capsys: pytest.CaptureFixture[str], *arguments: Any) -> str:
    """Run a command that succeeds. Return its standard output."""
    assert command_line([str(argument) for argument in arguments]) == 0
    return capsys.readouterr().out


def write(folder: Path, proto: Any, name: str = "other.onnx") -> Path:
    (folder / name).write_bytes(proto.SerializeToString())
    return folder / name


# -- join --------------------------------------------------------------------------------------------------------------
def parts(folder: Path) -> List[str]:
    for name in ("a", "b"):
        (folder / (name + ".tflite")).write_text(name)
    return ["encode=%s" % (folder / "a.tflite"), "decode=%s" % (folder / "b.tflite")]


def test_join_writes_a_signature_for_each_file(
    writer: Writer, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    target = tmp_path / "both.tflite"
    out = run(capsys, "join", target, *parts(tmp_path))
    assert out == "wrote %s (6 bytes), with the signatures encode, decode\n" % target
    assert target.read_text() == "joined"
    assert json.loads(run(capsys, "join", target, *parts(tmp_path), "--json")) == {
        "ok": True,
        "path": str(target),
        "bytes": 6,
        "signatures": ["encode", "decode"],
    }


@pytest.mark.parametrize("files", [["a.tflite"], ["=a.tflite"], ["x="], ["x=a.tflite", "x=b.tflite"]])
def test_join_needs_a_different_name_for_each_file(
    writer: Writer, tmp_path: Path, capsys: pytest.CaptureFixture[str], files: List[str]
) -> None:
    assert command_line(["join", str(tmp_path / "both.tflite"), *files]) == 2
    assert "give NAME=FILE for each file, with different names" in capsys.readouterr().err
    assert not (tmp_path / "both.tflite").exists()


@pytest.mark.parametrize("files", [{}, {"": "a.tflite"}])
def test_an_empty_list_of_files_is_refused(writer: Writer, tmp_path: Path, files: Any) -> None:
    with pytest.raises(ConversionError, match="there is nothing to join"):
        join(files, tmp_path / "both.tflite")


@pytest.mark.parametrize("name", ["missing.tflite", "a.keras"])
def test_each_part_is_a_file_of_the_format(writer: Writer, tmp_path: Path, name: str) -> None:
    (tmp_path / "a.keras").write_text("a")
    with pytest.raises(ConversionError, match="there is no file '.*%s' of the format 'tflite'" % name):
        join({"a": tmp_path / name}, tmp_path / "both.tflite")


def test_a_format_that_no_shim_writes_is_not_joined(
    writer: Writer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Writer, "formats", {})
    parts(tmp_path)
    with pytest.raises(ShimError, match="no installed shim writes the format 'tflite'"):
        join({"a": tmp_path / "a.tflite"}, tmp_path / "both.tflite")


def test_the_formats_of_a_shim_that_is_missing() -> None:
    with pytest.raises(ShimError, match="there is no shim 'nosuch'"):
        formats("nosuch")


# -- quantisation ------------------------------------------------------------------------------------------------------
@pytest.mark.parametrize("option", ["--mean", "--std"])
def test_a_mean_needs_a_folder_of_images(
    writer: Writer, tmp_path: Path, capsys: pytest.CaptureFixture[str], option: str
) -> None:
    arguments = ["convert", write_model(tmp_path), tmp_path / "m.tflite", "--quantize", "int8", option, "0.5"]
    error = run_refused(capsys, *arguments)
    assert "--mean and --std need a folder of images" in error and "name the folder with --calibrate" in error


def test_a_mean_is_a_list_of_numbers(writer: Writer, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    arguments = ["convert", str(write_model(tmp_path)), str(tmp_path / "m.tflite"), "--mean", "0.5;0.5"]
    assert command_line(arguments) == 2
    assert "'0.5;0.5' is not a list of numbers, as in 0.5,0.5,0.5" in capsys.readouterr().err


def test_the_inputs_of_a_mean_must_be_images(
    writer: Writer, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    images = tmp_path / "images"
    images.mkdir()
    (images / "a.png").write_bytes(b"")
    arguments = ["convert", write_model(tmp_path), tmp_path / "m.tflite", "--quantize", "int8", "--calibrate", images]
    assert "images can calibrate a model whose only input is an image" in run_refused(
        capsys, *arguments, "--mean", "0.5,0.5"
    )


def test_generated_calibration_data_is_noted(
    writer: Writer, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    arguments = ["convert", write_model(tmp_path), tmp_path / "m.tflite", "--quantize", "int8", "--calibrate"]
    assert "calibrated with generated inputs: the file works" in run(capsys, *arguments, "generated")


# -- run and support ---------------------------------------------------------------------------------------------------
def test_the_outputs_of_a_run_that_are_no_numbers(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    nodes = [
        node("Cast", ["x"], ["text"], to=STRING),
        node("SequenceConstruct", ["x", "x"], ["sequence"]),
        node("Slice", ["x", "zero", "zero"], ["empty"]),
        node("Optional", [], ["none"], type=value("t", [1]).type),
    ]
    outputs = [value("text", [2], STRING), value("sequence"), value("empty"), value("none"), value("x")]
    for output in outputs[1:4]:
        output.ClearField("type")
    nodes.append(node("Neg", ["x"], ["y"]))
    outputs[4] = value("y", [2])
    proto = model(nodes, [value("x", [2])], outputs, {"zero": np.array([0])}, opset=17)
    np.savez(str(tmp_path / "x.npz"), x=np.float32([1, 3]))
    out = run(capsys, "run", write(tmp_path, proto), "--inputs", tmp_path / "x.npz", "--shim", "reference", "--json")
    rows = {row["name"]: row for row in json.loads(out)["outputs"]}
    described = {name: (row["dtype"], row["shape"], row["mean"]) for name, row in rows.items()}
    assert described == {
        "text": ("string", [2], None),
        "sequence": ("sequence", [2], None),
        "empty": ("float32", [0], None),
        "none": ("none", [], None),
        "y": ("float32", [2], -2),
    }


def test_support_for_a_shape_and_a_value(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    nodes = [node("ReduceSum", ["x", "axes"], ["y"], name="sum")]
    proto = model(nodes, [value("x", None), value("axes", [1], INT64)], [value("y")])
    path = write(tmp_path, proto)
    arguments = ["support", path, "--shim", "reference", "--json"]
    (before,) = json.loads(run(capsys, *arguments))["nodes"]
    (after,) = json.loads(run(capsys, *arguments, "--shape", "x=2,3", "--value", "axes=[0]"))["nodes"]
    assert "only known when the model runs" in before["reason"]
    assert "only known when the model runs" not in after["reason"]


def test_a_table_cell_shows_a_nested_value() -> None:
    assert _format_cell({"scale": 0.5, "zero": 3}) == "scale 0.5, zero 3"
