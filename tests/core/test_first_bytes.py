"""Files that are given by mistake are recognised by their content: the error says what they are, and what to do."""

import io
import zipfile
from pathlib import Path
from typing import Any, Dict, Tuple

import numpy as np
import pytest
from building import relu_model
from onnx import numpy_helper

import onnx_compat
from onnx_compat.errors import InputError, InvalidModelError, ShimError
from onnx_compat.model.first_bytes import ONNX, check_suffix, kind_of_bytes, kind_of_file
from onnx_compat.verification.converted_file import open_converted


def _zip(*names: str) -> bytes:
    content = io.BytesIO()
    with zipfile.ZipFile(content, "w") as archive:
        for name in names:
            archive.writestr(name, "content")
    return content.getvalue()


#: Name of a file -> its content, a part of the reason, and a part of the hint.
FILES: Dict[str, Tuple[bytes, str, str]] = {
    "old.pt": (b"\x80\x02\x8a\x0al\xfc\x9cF\xf9 j\xa8P\x19." + b"\x80\x02" * 9, "a PyTorch file", "torch.onnx.export"),
    "new.pt": (_zip("archive/data.pkl", "archive/version"), "a PyTorch file", "torch.onnx.export"),
    "s.pkl": (b"\x80\x04\x95" + b"\0" * 40, "a Python pickle", "skl2onnx"),
    "m.zip": (_zip("deep/m.onnx"), "a zip archive with 'deep/m.onnx'", "unpack it"),
    "a.zip": (_zip("readme"), "a zip archive", "unpack it"),
    "x.npz": (_zip("x.npy"), "a .npz file", "--inputs"),
    "x.npy": (b"\x93NUMPY\x01\0" + b"\0" * 40, "a .npy file", "numpy.savez"),
    "m.gz": (b"\x1f\x8b\x08" + b"\0" * 40, "a gzip archive", "gunzip"),
    "m.tar": (b"m.onnx".ljust(257, b"\0") + b"ustar" + b"\0" * 300, "a tar archive", "tar -xf"),
    "m.tflite": (b"\x1c\0\0\0TFL3" + b"\0" * 40, "a .tflite file", "--converted"),
    "m.ort": (b"\x1c\0\0\0ORTM" + b"\0" * 40, "onnxruntime's own format", ".onnx"),
    "m.keras": (_zip("config.json", "metadata.json", "model.weights.h5"), "a .keras file", "--converted"),
    "b.zip": (_zip("manifest.json", "parts/0.onnx"), "a bundle", "--converted"),
    "graph.pb": (b"\x0a\x10\x0a\x01x\x12\x0bPlaceholder" + b"\0" * 20, "a graph of TensorFlow", "--converted"),
    "saved_model.pb": (b"\x08\x01\x12\x90\x02\x0a\x20" + b"\0" * 40, "a SavedModel", "folder"),
    "m.h5": (b"\x89HDF\r\n\x1a\n" + b"\0" * 40, "an HDF5 file", "tf2onnx"),
    "m.safetensors": (b"\x40" + b"\0" * 7 + b'{"w":' + b" " * 60, "a safetensors file", "weights"),
    "m.gguf": (b"GGUF\x03" + b"\0" * 40, "a GGUF file", ".onnx"),
    "page.onnx": (b"\n<!DOCTYPE html><html>", "a web page", "download"),
    "lfs.onnx": (b"version https://git-lfs.github.com/spec/v1", "a Git LFS pointer", "git lfs pull"),
    "text.onnx": (b"a text of some words", "a text file", ".onnx"),
    "i.png": (b"\x89PNG\r\n\x1a\n" + b"\0" * 40, "an image", "--calibrate"),
    "input_0.pb": (
        numpy_helper.from_array(np.zeros((2, 300), np.float32), "x").SerializeToString(),
        "a tensor of ONNX",
        "give the model",
    ),
}


@pytest.mark.parametrize("name", FILES)
def test_a_file_that_is_no_model(tmp_path: Path, name: str) -> None:
    content, reason, hint = FILES[name]
    path = tmp_path / name
    path.write_bytes(content)
    with pytest.raises(InvalidModelError, match="is no ONNX model: it is ") as caught:
        onnx_compat.load(path)
    assert reason in caught.value.reason + str(caught.value.hint)
    assert hint in str(caught.value.hint)
    if not content.startswith(b"PK"):
        with pytest.raises(InvalidModelError, match="the bytes are no ONNX model"):
            onnx_compat.load(content)


def test_models_are_models(tmp_path: Path) -> None:
    path = tmp_path / "m.onnx"
    for producer in ("", "p", "pytorch", "\n"):
        proto = relu_model()
        proto.producer_name = producer
        for version in (1, 8, 12):
            proto.ir_version = version
            path.write_bytes(proto.SerializeToString())
            assert onnx_compat.load(path).graph.nodes
    assert kind_of_bytes(relu_model().SerializeToString()) is ONNX


def test_unknown_content_keeps_its_own_error(tmp_path: Path) -> None:
    path = tmp_path / "m.onnx"
    for content in (b"", b"\xff\xfe\xfd" * 9, relu_model().SerializeToString()[:20]):
        path.write_bytes(content)
        with pytest.raises(InvalidModelError) as caught:
            onnx_compat.load(path)
        assert "it is a" not in caught.value.reason
    assert kind_of_file(tmp_path) is None
    assert kind_of_file(tmp_path / "nothing") is None


@pytest.mark.parametrize("suffix", [".tflite", ".keras", ".zip", ".pb", ".TFLITE"])
def test_the_content_of_a_converted_file_fits_its_suffix(tmp_path: Path, suffix: str) -> None:
    kinds = {".tflite": "m.tflite", ".keras": "m.keras", ".zip": "b.zip", ".pb": "graph.pb"}
    path = tmp_path / ("file" + suffix)
    for name, (content, _, _) in FILES.items():
        path.write_bytes(content)
        if kinds[suffix.lower()] == name:
            check_suffix(path)
        else:
            with pytest.raises(InputError, match="is no %s file: it is " % suffix.lower()):
                check_suffix(path)
    path.write_bytes(relu_model().SerializeToString())
    with pytest.raises(InputError, match="it is an ONNX model"):
        check_suffix(path)


def test_a_converted_file_with_another_suffix(tmp_path: Path) -> None:
    for name, hint in (
        ("m.tflite", "rename it to end in .tflite"),
        ("text.onnx", "give the file that `convert` wrote"),
    ):
        path = tmp_path / "file.xyz"
        path.write_bytes(FILES[name][0])
        with pytest.raises(ShimError) as caught:
            open_converted(path)
        assert hint in str(caught.value.hint)


def test_a_missing_model_names_the_nearest_file(tmp_path: Path) -> None:
    (tmp_path / "model.onnx").write_bytes(b"")
    for name in ("modle.onnx", "model.onn"):
        with pytest.raises(InvalidModelError, match="does not exist") as caught:
            onnx_compat.load(tmp_path / name)
        assert "did you mean '%s'?" % (tmp_path / "model.onnx") == caught.value.hint
    with pytest.raises(InvalidModelError, match="a folder") as folder:
        onnx_compat.load(tmp_path)
    assert "model.onnx" in str(folder.value.hint)


def test_arrays_that_are_no_arrays(tmp_path: Path) -> None:
    from onnx_compat.verification import load_npz

    path: Any = tmp_path / "x.npz"
    path.write_bytes(FILES["i.png"][0])
    with pytest.raises(InputError, match="it is an image"):
        load_npz(path)
