"""Damaged files that `convert` has written: a typed error that names the file, for every format of the shim."""

import json
import os
import zipfile
from pathlib import Path
from typing import Any

import pytest
from onnx import TensorProto, helper

import onnx_compat
from onnx_compat.discovery.selection import find
from onnx_compat.errors import OnnxCompatError, UnexpectedError
from onnx_compat.shim.description import KERAS_PORTS


def _convert(folder: Path, shim: str, form: str) -> Path:
    ports = [helper.make_tensor_value_info(name, TensorProto.FLOAT, ["n", 3]) for name in ("x:0", "y")]
    graph = helper.make_graph([helper.make_node("Relu", ["x:0"], ["y"])], "graph", ports[:1], ports[1:])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)], ir_version=7)
    return onnx_compat.convert(model, folder / ("m" + find(shim).formats[form][0]), to=form, shim=shim)


def _check(path: Path, shim: str, *words: str) -> None:
    with pytest.raises(OnnxCompatError) as caught:
        onnx_compat.load_converted(path, shim)
    assert not isinstance(caught.value, UnexpectedError), caught.value
    for word in (path.name, *words):
        assert word in str(caught.value)


def _damages(data: Any) -> Any:
    """Yield texts of a port file that `write_ports` does not write."""
    yield "{"
    yield "[]"
    yield "\x00"
    yield json.dumps({"inputs": []})
    for side in ("inputs", "outputs"):
        for key, value in (("key", "other"), ("name", 3), ("shape", 3), ("shape", [[1]]), ("dtype", "float33")):
            yield json.dumps(dict(data, **{side: [dict(data[side][0], **{key: value})]}))
        yield json.dumps(dict(data, **{side: [3]}))


def test_ports_of_a_saved_model(shim_name: str, tmp_path: Path) -> None:
    if "saved_model" not in find(shim_name).formats:
        return
    path = _convert(tmp_path, shim_name, "saved_model")
    ports = path / "assets.extra" / "onnx_compat.json"
    for text in _damages(json.loads(ports.read_text())):
        ports.write_text(text)
        if "float33" in text:  # an UnsupportedError, which names the dtype
            with pytest.raises(OnnxCompatError, match="float33"):
                onnx_compat.load_converted(path, shim_name)
        else:
            _check(path, shim_name, "onnx_compat.json", "damaged")
    ports.unlink()
    assert onnx_compat.load_converted(path, shim_name).outputs


def test_a_keras_file(shim_name: str, tmp_path: Path) -> None:
    if "keras" not in find(shim_name).formats:
        return
    path = _convert(tmp_path, shim_name, "keras")
    content = path.read_bytes()
    for size in (10, len(content) // 2, len(content) - 30):
        path.write_bytes(content[:size])
        _check(path, shim_name)
    path.write_bytes(content)
    if KERAS_PORTS in zipfile.ZipFile(path).namelist():
        damaged = bytearray(content)
        start = content.rindex(b"x:0") if b"x:0" in content else len(content) // 2
        damaged[start : start + 2] = b"\xff\xff"
        path.write_bytes(bytes(damaged))
        _check(path, shim_name)


def test_every_format_of_the_shim_is_truncated(shim_name: str, tmp_path: Path) -> None:
    for form, (suffix, _) in find(shim_name).formats.items():
        if suffix:
            path = _convert(tmp_path, shim_name, form)
            os.truncate(str(path), path.stat().st_size // 2)
            with pytest.raises(OnnxCompatError) as caught:
                onnx_compat.load_converted(path, shim_name)
            assert path.name in str(caught.value)
            assert not isinstance(caught.value, UnexpectedError)
