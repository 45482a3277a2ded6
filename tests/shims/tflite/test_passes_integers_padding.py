"""A Pad between DequantizeLinear and QuantizeLinear, with a constant that the integers of its input can or cannot hold."""

from pathlib import Path
from typing import Any, List

import numpy as np
import pytest
from onnx import TensorProto, helper, numpy_helper
from onnx_compat_tflite import flatbuffer as fb

import onnx_compat

STEP = 0.02  # of the input, whose integers go from -2.76 to 2.34
NODES = {
    "alone": [],
    "a convolution": [helper.make_node("Conv", ["p", "w"], ["f"])],
    "a pool": [helper.make_node("MaxPool", ["p"], ["f"], kernel_shape=[2, 2], strides=[2, 2])],
    "an activation": [helper.make_node("Relu", ["p"], ["f"])],
    "a transpose": [helper.make_node("Transpose", ["p"], ["f"], perm=[0, 2, 3, 1])],
}


def model(value: float, step: float, name: str, dtype: Any) -> bytes:
    zero = dtype(10 if dtype is np.int8 else 138)
    constants = {
        "s": np.float32(STEP), "z": zero, "t": np.float32(step), "pads": np.array([0, 0, 1, 1, 0, 0, 1, 1]),
        "v": np.float32(value), "w": (np.arange(1, 10).reshape(1, 1, 3, 3) % 5 - 2).astype(np.float32) / 10,
    }  # fmt: skip
    after = NODES[name]
    nodes = [
        helper.make_node("QuantizeLinear", ["x", "s", "z"], ["q"]),
        helper.make_node("DequantizeLinear", ["q", "s", "z"], ["d"]),
        helper.make_node("Pad", ["d", "pads", "v"], ["p"]),
        *after,
        helper.make_node("QuantizeLinear", ["f" if after else "p", "t", "z"], ["r"]),
        helper.make_node("DequantizeLinear", ["r", "t", "z"], ["y"]),
    ]
    read = {name for node in nodes for name in node.input}
    held = [numpy_helper.from_array(np.asarray(v), k) for k, v in constants.items() if k in read]
    x = helper.make_tensor_value_info("x", TensorProto.FLOAT, [1, 1, 6, 6])
    graph = helper.make_graph(nodes, "g", [x], [helper.make_empty_tensor_value_info("y")], held)
    model_spec = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)], ir_version=7)
    return bytes(model_spec.SerializeToString())


def builtins(content: bytes, path: Path) -> List[str]:
    file = fb.read(str(onnx_compat.convert(content, path / "m.tflite", shim="tflite")))
    return [op.builtin for op in file.subgraphs[0].operators]


@pytest.mark.parametrize("dtype", [np.int8, np.uint8])
@pytest.mark.parametrize("step", [STEP, 0.1, 0.005])
@pytest.mark.parametrize("value", [0, 1.0, 0.333, 5.0, -5.0, 100.0, -100.0])
@pytest.mark.parametrize("name", list(NODES))
def test_a_constant_is_not_clipped(name: str, value: float, step: float, dtype: Any) -> None:
    """The result differs by at most one step.

    With the constant clipped to the input's integers, it would differ by 255 steps.
    """
    x = np.random.RandomState(0).uniform(-2, 2, (1, 1, 6, 6)).astype(np.float32)
    content = model(value, step, name, dtype)
    expected = onnx_compat.run(content, {"x": x}, shim="reference")[0]
    actual = onnx_compat.prepare(content, shim="tflite", fallback=False).run({"x": x})[0]
    assert np.abs(actual - expected).max() <= 1.01 * step


@pytest.mark.parametrize("name", ["alone", "a pool", "a transpose", "an activation"])
def test_a_pad_whose_result_is_quantized_is_one_of_integers(name: str, tmp_path: Path) -> None:
    """The constant is quantised with the scale of the result, as QuantizeLinear would do."""
    for value in (1.0, 5.0, -5.0, -np.inf):
        result = builtins(model(value, STEP, name, np.int8), tmp_path)
        assert "PADV2" in result and "MUL" not in result, result


def test_a_pad_that_a_convolution_reads_is_one_of_floats(tmp_path: Path) -> None:
    assert "MUL" not in builtins(model(1.0, STEP, "a convolution", np.int8), tmp_path)
    assert "MUL" in builtins(model(5.0, STEP, "a convolution", np.int8), tmp_path)
