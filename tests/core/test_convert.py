"""Conversion to files: the errors, and that a failure leaves no file."""

import errno
import os
import tracemalloc
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from building import INT64, model, node, relu_model, value
from registered import register

import onnx_compat
from onnx_compat.discovery import selection
from onnx_compat.discovery.selection import Probe
from onnx_compat.errors import ConversionError, InputError, ShimError, UnsupportedError
from onnx_compat.reference.shim import ReferenceShim


class Writer(ReferenceShim):
    """A fake shim whose files hold the names of the primitives. It can fail in the middle of a file."""

    name = "writer"
    formats = {"listing": (".tflite", "list of primitives"), "folder": ("", "folder")}
    breaks = False

    def export(self, program: Any, path: str, file_format: str) -> None:
        if file_format == "folder":
            os.mkdir(path)
            path = os.path.join(path, "saved_model.pb")
        with open(path, "w") as file:
            file.write(" ".join(node.primitive for node in program.region.live()))
            if self.breaks:
                raise UnsupportedError("the disk has had enough")


@pytest.fixture(name="writer")
def _writer(monkeypatch: pytest.MonkeyPatch) -> Writer:
    shim = Writer()
    register(monkeypatch, shim)
    return shim


def test_a_file_and_a_folder_are_written_and_replaced(writer: Writer, tmp_path: Path) -> None:
    for _ in range(2):
        assert onnx_compat.convert(relu_model(), tmp_path / "m.tflite", to="listing").read_text() == "clip"
        assert (onnx_compat.convert(relu_model(), tmp_path / "m", to="folder") / "saved_model.pb").read_text() == "clip"
    assert sorted(os.listdir(tmp_path)) == ["m", "m.tflite"]


@pytest.mark.parametrize("kind", ["rank", "sequence"])
def test_a_file_has_no_input_of_unknown_type(writer: Writer, tmp_path: Path, kind: str) -> None:
    proto = relu_model()
    if kind == "rank":
        proto.graph.input[0].type.tensor_type.ClearField("shape")
    else:
        proto.graph.input.add(name="xs").type.sequence_type.elem_type.tensor_type.elem_type = INT64
    with pytest.raises(ConversionError, match=r"input 'xs?' is .* a file needs a tensor") as caught:
        onnx_compat.convert(proto, tmp_path / "m.tflite", to="listing")
    assert ("--shape x=" in str(caught.value)) == (kind == "rank")
    assert not os.listdir(tmp_path)


def test_a_file_replaces_neither_the_model_nor_a_device(writer: Writer, tmp_path: Path) -> None:
    source, link = tmp_path / "m.onnx", tmp_path / "link"
    source.write_bytes(relu_model().SerializeToString())
    link.symlink_to(source)
    for given in (source, str(source), onnx_compat.load(str(source))):
        for target in (source, link):
            with pytest.raises(InputError, match="overwrite a file that is read"):
                onnx_compat.convert(given, target, to="listing")
    os.mkfifo(str(tmp_path / "pipe"))
    (tmp_path / "out").symlink_to("/proc/self/fd/1")
    for target in (tmp_path / "pipe", tmp_path / "out"):
        with pytest.raises(InputError, match="not a file"):
            onnx_compat.convert(source, target, to="listing")
    assert source.read_bytes() == relu_model().SerializeToString()
    assert sorted(os.listdir(tmp_path)) == ["link", "m.onnx", "out", "pipe"]


def test_a_failure_keeps_the_old_file(writer: Writer, tmp_path: Path) -> None:
    target = tmp_path / "m.tflite"
    target.write_text("before")
    writer.breaks = True
    with pytest.raises(UnsupportedError, match="had enough") as caught:
        onnx_compat.convert(relu_model(), target, to="listing")
    assert caught.value.shim == "writer"
    assert target.read_text() == "before"
    assert os.listdir(tmp_path) == ["m.tflite"]


def test_the_model_of_the_user_does_not_change(writer: Writer, tmp_path: Path) -> None:
    nodes = [node("MatMul", ["x", "w"], ["y"])]
    proto = model(nodes, [value("x", ["n", 3])], [value("y")], {"w": np.ones((3, 2), np.float32)})
    before = proto.SerializeToString()
    loaded = onnx_compat.load(proto)
    for given in (proto, loaded, loaded):
        onnx_compat.convert(given, tmp_path / "m.tflite", to="listing")
    assert proto.SerializeToString() == before


def test_a_value_that_a_file_needs_is_named(writer: Writer, tmp_path: Path) -> None:
    nodes = [node("ReduceSum", ["x", "axes"], ["y"])]
    proto = model(nodes, [value("x", ["n", 3]), value("axes", [1], INT64)], [value("y")])
    with pytest.raises(ConversionError, match="fix axes") as caught:
        onnx_compat.convert(proto, tmp_path / "m.tflite", to="listing")
    assert caught.value.operator == "ReduceSum"
    assert os.listdir(tmp_path) == []


def test_folded_weights_replace_the_weights_of_the_model_in_memory(writer: Writer, tmp_path: Path) -> None:
    constants, nodes, width, depth = {}, [], 256, 12
    constants["scale"] = np.arange(1, width + 1, dtype=np.float32).reshape(width, 1, 1)
    for k in range(depth):
        constants["w%d" % k] = np.full((width, width, 1, 1), k, np.float32)
        nodes += [
            node("Conv", ["x%d" % k, "w%d" % k], ["c%d" % k]),
            node("Mul", ["c%d" % k, "scale"], ["x%d" % (k + 1)]),
        ]
    ends = value("x0", [1, width, 4, 4]), value("x%d" % depth)
    (tmp_path / "m.onnx").write_bytes(model(nodes, ends[:1], ends[1:], constants).SerializeToString())
    size = (tmp_path / "m.onnx").stat().st_size
    tracemalloc.start()
    try:
        path = onnx_compat.convert(str(tmp_path / "m.onnx"), tmp_path / "m.tflite", to="listing")
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert path.read_text() == " ".join(["conv"] * depth)
    assert peak < 1.5 * size


@pytest.mark.parametrize(
    ("path", "to", "message"),
    [
        ("m.docx", None, "is no suffix of a format"),
        ("m.bin", "nonsense", "no installed shim writes the format 'nonsense'"),
        (
            "m.keras",
            None,
            r"pip install 'onnx-compat\[keras\]'|the shim keras is not installed, and not for Python 3\.[78] ",
        ),
    ],
)
def test_a_wrong_target_is_named(writer: Writer, tmp_path: Path, path: str, to: Any, message: str) -> None:
    with pytest.raises(ConversionError, match=message):
        onnx_compat.convert(relu_model(), tmp_path / path, to=to)


@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EFBIG])
def test_an_unwritable_path_is_named(
    writer: Writer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, number: int
) -> None:
    with pytest.raises(InputError, match="the folder of"):
        onnx_compat.convert(relu_model(), tmp_path / "missing" / "m.tflite", to="listing")

    def export(program: Any, path: str, file_format: str) -> None:
        Path(path).write_text("half")
        raise OSError(number, os.strerror(number))

    monkeypatch.setattr(writer, "export", export)
    with pytest.raises(InputError, match="cannot be written") as caught:
        onnx_compat.convert(relu_model(), tmp_path / "m.tflite", to="listing")
    assert caught.value.hint
    assert not list(tmp_path.iterdir())


def test_a_shim_that_does_not_work_gives_the_reason(
    writer: Writer, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setitem(selection._PROBED, "writer", Probe(False, "the framework is broken"))
    with pytest.raises(ShimError, match="the framework is broken"):
        onnx_compat.convert(relu_model(), tmp_path / "m.tflite", to="listing")


def test_a_bundle_keeps_the_layout_of_the_model(writer: Any, tmp_path: Path) -> None:
    image = model([node("Relu", ["x"], ["y"])], [value("x", [1, 2, 3])], [value("y", [1, 2, 3])])
    with pytest.raises(ConversionError, match="a bundle has the layout of the model"):
        onnx_compat.convert(image, tmp_path / "m.tflite.zip", "listing", allow_fallback=True, channels_last=["x"])


def test_only_tflite_files_can_be_portable(writer: Any, tmp_path: Path) -> None:
    with pytest.raises(ConversionError, match="one version of the framework"):
        onnx_compat.convert(relu_model(), tmp_path / "m.tflite", to="listing", portable=True)


def test_a_path_without_a_suffix_means_a_folder(
    writer: Writer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from onnx_compat.conversion import convert as module

    monkeypatch.setattr(module, "formats", lambda shim=None: {"tflite": ("chosen", "a file")})
    with pytest.raises(ConversionError, match="'saved_model'") as caught:
        onnx_compat.convert(b"", tmp_path / "o")
    bare = str(tmp_path / "o")
    hint = "'%s' has no suffix, so it means a SavedModel folder. For a .tflite file write '%s.tflite'" % (bare, bare)
    assert str(caught.value.hint).startswith(hint)
    with pytest.raises(ConversionError) as caught:
        onnx_compat.convert(b"", tmp_path / "o", to="saved_model")
    assert "suffix" not in str(caught.value.hint)
    with pytest.raises(ConversionError, match="no suffix of a format") as caught:
        onnx_compat.convert(b"", tmp_path / "o.tf")
    assert "--to" in str(caught.value.hint)
