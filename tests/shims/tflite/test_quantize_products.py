"""int4 weights that kernels multiply without dequantisation."""

import os
from pathlib import Path
from typing import Any, Optional

import numpy as np
import pytest
from networks import feeds, network
from onnx import TensorProto, helper, numpy_helper
from onnx_compat_tflite import SHIM, features
from onnx_compat_tflite import flatbuffer as fb

import onnx_compat
from onnx_compat.errors import UnsupportedError

BLOCKS = [
    block
    for block in (None, 32, 64)
    if all(features.multiplies_int4(block is not None, plain) for plain in (False, True))
]
native = pytest.mark.skipif(not BLOCKS, reason="the runtime has no such kernel, or gets it wrong")


def layer(fan_in: int, filters: int) -> Any:
    weights = np.random.RandomState(0).standard_normal((fan_in, filters)) * np.linspace(0.1, 3, fan_in)[:, None]
    held = [numpy_helper.from_array(weights.astype(np.float32), "w")]
    x, y = (
        helper.make_tensor_value_info(name, TensorProto.FLOAT, shape)
        for name, shape in (("x", ["n", 5, fan_in]), ("y", None))
    )
    graph = helper.make_graph([helper.make_node("MatMul", ["x", "w"], ["y"])], "layer", [x], [y], held)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)], ir_version=8)


def exact(graph: fb.SubGraph) -> Any:
    """Return the weights of the only FULLY_CONNECTED as real numbers: integers times scales, decoded independently."""
    (operator,) = [op for op in graph.operators if op.builtin == "FULLY_CONNECTED"]
    tensor = graph.tensors[operator.inputs[1] or 0]
    assert tensor.dtype == "int4" and tensor.quantization is not None
    packed = np.asarray(tensor.buffer)
    flat = np.stack([packed & 15, packed >> 4], -1).reshape(-1).astype(np.int32)
    integers = np.where(flat > 7, flat - 16, flat).reshape(tensor.shape)
    if tensor.quantization.details is None:
        return integers * np.asarray(tensor.quantization.scale)[:, None]
    _, details = tensor.quantization.details
    scales = np.asarray(graph.tensors[details["scales"]].buffer, np.float32)
    return integers * np.repeat(scales, details["block_size"], axis=1)


@native
@pytest.mark.parametrize("block", BLOCKS)
def test_kernels_multiply_what_the_file_holds(block: Optional[int], tmp_path: Path) -> None:
    path = tmp_path / "m.tflite"
    onnx_compat.convert(layer(128, 24), path, shim="tflite", quantize="dynamic-int4", block_size=block)
    weights = exact(fb.read(str(path)).subgraphs[0])
    x = np.random.RandomState(1).standard_normal((3, 5, 128)).astype(np.float32)
    (actual,) = SHIM.load_converted(str(path), "tflite")[0].run([x])
    wanted = x @ weights.T.astype(np.float32)
    assert np.abs(actual - wanted).max() < 0.02 * np.abs(wanted).max()


@native
@pytest.mark.parametrize("name", ["mlp", "attention", "cnn"])
@pytest.mark.parametrize("block", BLOCKS)
def test_a_quantised_network_is_accurate(name: str, block: Optional[int], tmp_path: Path) -> None:
    path = onnx_compat.convert(
        network(name), tmp_path / "m.tflite", shim="tflite", quantize="dynamic-int4", block_size=block
    )
    report = onnx_compat.verify(network(name), feeds(name, 99), shim="tflite", converted=path, oracle="reference")
    assert report.ok and report.outputs[0].accuracy.snr > 12, report


@native
@pytest.mark.skipif(len(BLOCKS) < 3, reason="the delegate gets blocks wrong")
def test_blocks_are_more_accurate_than_rows(tmp_path: Path) -> None:
    given, errors = np.asarray(numpy_helper.to_array(layer(128, 24).graph.initializer[0])).T, []
    for block in BLOCKS:
        path = tmp_path / "m.tflite"
        onnx_compat.convert(layer(128, 24), path, shim="tflite", quantize="dynamic-int4", block_size=block)
        errors.append(float(np.square(exact(fb.read(str(path)).subgraphs[0]) - given).sum()))
    rows, least, wider = errors
    assert least < wider < rows


def test_schemes_that_the_runtime_lacks_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def convert(block: Optional[int]) -> None:
        onnx_compat.convert(
            layer(96, 8), tmp_path / "m.tflite", shim="tflite", quantize="dynamic-int4", block_size=block
        )

    with pytest.raises(UnsupportedError, match="accept no blocks of 48"):
        convert(48)
    monkeypatch.setitem(features._CACHE, "int4, True, False", False)
    kernel = features.kernels().has("FULLY_CONNECTED", 13)
    with pytest.raises(UnsupportedError, match="int4 in blocks wrongly" if kernel else "takes no int4"):
        convert(32)
    assert not os.listdir(str(tmp_path))


@native
def test_a_file_is_refused_by_runtimes_that_compute_it_wrongly(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = str(onnx_compat.convert(layer(64, 8), tmp_path / "m.tflite", shim="tflite", quantize="dynamic-int4"))
    assert not SHIM.load_converted(path, "tflite")[0]._has_no_delegate  # type: ignore[attr-defined]
    monkeypatch.setitem(features._CACHE, "int4, False, False", False)
    assert SHIM.load_converted(path, "tflite")[0]._has_no_delegate  # type: ignore[attr-defined]
    monkeypatch.setitem(features._CACHE, "int4, False, True", False)
    with pytest.raises(UnsupportedError, match="multiplies weights of int4 wrongly"):
        SHIM.load_converted(path, "tflite")


@native
def test_a_row_of_an_odd_number_is_int8(tmp_path: Path) -> None:
    path = onnx_compat.convert(layer(33, 24), tmp_path / "m.tflite", shim="tflite", quantize="dynamic-int4")
    dtypes = [tensor.dtype for tensor in fb.read(str(path)).subgraphs[0].tensors]
    assert "int4" not in dtypes and "int8" in dtypes
