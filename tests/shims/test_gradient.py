"""The operator Gradient of ai.onnx.preview.training, by the framework's own differentiation if it has one."""

from typing import Any

import numpy as np
import pytest
from onnx import TensorProto, helper

import onnx_compat
from onnx_compat.errors import UnsupportedError

OWN = {"tf1", "tf2", "keras"}


def gradient_of(nodes: Any) -> bytes:
    """Return a model that computes the derivative of y by x, for x of shape [3, 2]."""
    gradient_node = helper.make_node("Gradient", ["x"], ["dx"], domain="ai.onnx.preview.training", xs=["x"], y="y")
    graph = helper.make_graph(
        [*nodes, gradient_node],
        "derivative",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, [3, 2])],
        [helper.make_tensor_value_info("dx", TensorProto.FLOAT, [3, 2])],
        [helper.make_tensor("places", TensorProto.INT64, [2, 2], [2, 0, 2, 1])],
    )
    opsets = [helper.make_opsetid("", 13), helper.make_opsetid("ai.onnx.preview.training", 1)]
    model = helper.make_model(graph, opset_imports=opsets, ir_version=8)
    return bytes(model.SerializeToString())


def test_primitives_without_a_rule_of_the_core(shim_name: str) -> None:
    """The core has no derivative for GatherElements. Only a framework can differentiate it."""
    model = gradient_of(
        [helper.make_node("GatherElements", ["x", "places"], ["t"], axis=0), helper.make_node("Mul", ["t", "t"], ["y"])]
    )
    runnable = onnx_compat.prepare(model, shim=shim_name)
    x = np.arange(6, dtype=np.float32).reshape(3, 2)
    if shim_name not in OWN:
        with pytest.raises(UnsupportedError, match="derivative of the primitive 'take_along'"):
            runnable.run({"x": x})
        return
    (dx,) = list(runnable.run({"x": x}))
    np.testing.assert_allclose(dx, [[0, 2], [0, 6], [16, 0]])
    assert not runnable.fallbacks


def test_a_branch_and_a_reduction(shim_name: str) -> None:
    model = gradient_of(
        [
            helper.make_node("Relu", ["x"], ["r"]),
            helper.make_node("Softmax", ["r"], ["s"], axis=1),
            helper.make_node("Mul", ["s", "r"], ["y"]),
        ]
    )
    x = np.array([[1, 2], [-1, 3], [0.5, 0.25]], np.float32)
    runnable = onnx_compat.prepare(model, shim=shim_name)
    (dx,) = list(runnable.run({"x": x}))

    def total(x: Any) -> Any:
        r = np.maximum(x.astype(np.float64), 0)
        s = np.exp(r) / np.exp(r).sum(1, keepdims=True)
        return (s * r).sum()

    for index in np.ndindex(3, 2):
        step = np.zeros((3, 2))
        step[index] = 1e-6
        assert dx[index] == pytest.approx((total(x + step) - total(x - step)) / 2e-6, rel=1e-3, abs=1e-4)
    assert not runnable.fallbacks
