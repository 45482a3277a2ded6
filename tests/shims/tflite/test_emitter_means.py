"""Sums and means over many elements: the error stays that of few elements, and few elements take one operator."""

from typing import Any, List, Sequence

import numpy as np
import pytest
from onnx import TensorProto, helper
from onnx_compat_tflite import flatbuffer as fb
from single_node import model, operators

import onnx_compat

CASES = {
    "an image": ((1, 3, 400, 401), [2, 3]),
    "a batch of any size": (("n", 2, 200, 200), [2, 3]),
    "rows": ((2, 160000, 2), [1]),
    "apart": ((200, 2, 200), [0, 2]),
    "all": ((300, 300), [0, 1]),
    "a volume": ((1, 2, 40, 40, 40), [2, 3, 4]),
    "a prime": ((1, 40009, 2), [1]),
}


def reduction(operator: str, shape: Sequence[Any], axes: List[int], keepdims: int) -> bytes:
    return model(operator, shape, {}, axes=axes, keepdims=keepdims, opset=11)


def run(content: bytes, x: Any) -> Any:
    return onnx_compat.prepare(content, shim="tflite", fallback=False).run({"x": x})[0]


@pytest.mark.parametrize("keepdims", [0, 1])
@pytest.mark.parametrize("operator", ["ReduceMean", "ReduceSum", "ReduceL2"])
@pytest.mark.parametrize("name", list(CASES))
def test_many_elements(name: str, operator: str, keepdims: int) -> None:
    shape, axes = CASES[name]
    x = np.random.RandomState(0).uniform(0, 255, [3 if size == "n" else size for size in shape]).astype(np.float32)
    actual = run(reduction(operator, shape, axes, keepdims), x)
    exact = x.astype(np.float64)
    whole = (exact**2 if operator == "ReduceL2" else exact).sum(tuple(axes), keepdims=bool(keepdims))
    expected = {
        "ReduceSum": whole,
        "ReduceL2": np.sqrt(whole),
        "ReduceMean": whole * (actual.size / x.size),
    }[operator]
    assert actual.shape == expected.shape
    # A prime number of rows cannot be cut; kernels add them up one by one.
    np.testing.assert_allclose(actual, expected, rtol=1e-5 if name == "a prime" else 1.5e-6)


@pytest.mark.parametrize("size", [300, 600])
@pytest.mark.parametrize("range_", [0, 255])
def test_a_normalization_of_a_large_plane(range_: int, size: int) -> None:
    """A sum over 800 x 800 elements in one operator has an error of 7e-4, twenty times that of onnxruntime."""
    random = np.random.RandomState(0)
    weights = (random.standard_normal((4, 3, 3, 3)) * 0.1).astype(np.float32)
    x = (random.standard_normal((1, 3, size, size)) + range_ * random.rand(1, 3, size, size)).astype(np.float32)
    nodes = [
        helper.make_node("Conv", ["x", "w"], ["c"], pads=[1] * 4),
        helper.make_node("InstanceNormalization", ["c", "s", "b"], ["y"]),
    ]
    held = {"w": weights, "s": np.ones(4, np.float32), "b": np.zeros(4, np.float32)}
    graph = helper.make_graph(
        nodes, "g",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, x.shape)],
        [helper.make_empty_tensor_value_info(name) for name in "yc"],
        [helper.make_tensor(k, TensorProto.FLOAT, v.shape, v.reshape(-1)) for k, v in held.items()],
    )  # fmt: skip
    model_spec = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)], ir_version=7)
    actual = onnx_compat.run(model_spec, {"x": x}, shim="tflite")
    plane = actual["c"].astype(np.float64)
    variance = plane.var((2, 3), keepdims=True)
    expected = (plane - plane.mean((2, 3), keepdims=True)) / np.sqrt(variance + 1e-5)
    np.testing.assert_allclose(actual["y"], expected, rtol=0, atol=1e-5)


def count_steps(content: bytes, tmp_path: Any) -> int:
    """Return the number of MEAN or SUM ops in the file. A runtime whose MEAN loses NaN gets SUM and DIV."""
    return sum(builtin in ("MEAN", "SUM") for builtin in operators(content, tmp_path))


def test_few_elements_take_one_step(tmp_path: Any) -> None:
    for shape in ((1, 3, 128, 128), (1, 64, 7, 7), ("n", 16, 112, 112)):
        assert count_steps(model("GlobalAveragePool", shape, {}), tmp_path) == 1
    assert count_steps(reduction("ReduceMean", (1, 128, 128, 3), [1, 2], 1), tmp_path) == 1
    assert count_steps(reduction("ReduceMean", (1, 256, 256, 3), [1, 2], 1), tmp_path) == 2


@pytest.mark.parametrize("perm", [None, [0, 3, 1, 2]])
def test_a_mean_of_quantized_numbers_stays_one_operator(perm: Any, tmp_path: Any) -> None:
    """The integer kernel of MEAN adds exactly."""
    nodes = [
        helper.make_node("QuantizeLinear", ["x", "s", "z"], ["q"]),
        helper.make_node("DequantizeLinear", ["q", "s", "z"], ["d"]),
        *([helper.make_node("Transpose", ["d"], ["t"], perm=perm)] if perm else []),
        helper.make_node("ReduceMean", ["t" if perm else "d"], ["m"], axes=[2, 3] if perm else [1, 2], keepdims=1),
        helper.make_node("QuantizeLinear", ["m", "s", "z"], ["r"]),
        helper.make_node("DequantizeLinear", ["r", "s", "z"], ["y"]),
    ]
    scale = helper.make_tensor("s", TensorProto.FLOAT, [], [0.01])
    zero = helper.make_tensor("z", TensorProto.INT8, [], [0])
    x = helper.make_tensor_value_info("x", TensorProto.FLOAT, [1, 200, 200, 2])
    graph = helper.make_graph(nodes, "g", [x], [helper.make_empty_tensor_value_info("y")], [scale, zero])
    model_spec = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)], ir_version=7)
    file = fb.read(str(onnx_compat.convert(model_spec, tmp_path / "m.tflite", shim="tflite")))
    means = [op for op in file.subgraphs[0].operators if op.builtin in ("MEAN", "SUM")]
    assert [file.subgraphs[0].tensors[op.outputs[0]].dtype for op in means] == ["int8"]


def loses_nan() -> bool:
    """Whether a mean along the middle axis of an image turns NaN into -infinity: XNNPACK of 2.13, 2.14 and LiteRT 1.0."""
    x = np.full((1, 1, 16, 1), np.nan, np.float32)
    return bool(np.isneginf(run(reduction("ReduceMean", x.shape, [2], 1), x).item()))


def test_nan_and_infinity_reach_the_mean() -> None:
    """The mean of a large plane is reduced axis by axis: docs/usage.md tells which runtimes lose NaN in it."""
    x = np.ones((1, 1, 200, 200), np.float32)
    for value in (np.inf, -np.inf, np.nan):
        x[0, 0, 3, 5] = value
        actual = run(model("GlobalAveragePool", x.shape, {}), x).item()
        np.testing.assert_equal(actual, -np.inf if np.isnan(value) and loses_nan() else value)
