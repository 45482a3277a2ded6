"""The operator Gradient of ai.onnx.preview.training, by the framework's own differentiation if it has one."""

from typing import Any

import numpy as np
import pytest
from onnx import TensorProto, helper

import onnx_compat


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


def run_gradient(model: bytes, x: Any, shim_name: str) -> Any:
    """Return the derivative that a model computes, and assert that the shim computes it without a fallback."""
    runnable = onnx_compat.prepare(model, shim=shim_name)
    (dx,) = list(runnable.run({"x": np.asarray(x, np.float32)}))
    assert not runnable.fallbacks
    return dx


def test_a_selection(shim_name: str) -> None:
    model = gradient_of(
        [helper.make_node("GatherElements", ["x", "places"], ["t"], axis=0), helper.make_node("Mul", ["t", "t"], ["y"])]
    )
    dx = run_gradient(model, np.arange(6).reshape(3, 2), shim_name)
    np.testing.assert_allclose(dx, [[0, 2], [0, 6], [16, 0]])


def test_a_run_time_pad_value(shim_name: str) -> None:
    """TensorFlow has no gradient of a pad by the pad value, and takes 0 for it."""
    nodes = [
        helper.make_node("Constant", [], ["corner"], value=helper.make_tensor("c", TensorProto.INT64, [2], [1, 0])),
        helper.make_node("GatherND", ["x", "corner"], ["v"]),
        helper.make_node("Constant", [], ["ends"], value=helper.make_tensor("e", TensorProto.INT64, [4], [0, 1, 2, 0])),
        helper.make_node("Pad", ["x", "ends", "v"], ["y"]),
    ]
    dx = run_gradient(gradient_of(nodes), np.arange(6).reshape(3, 2), shim_name)
    np.testing.assert_allclose(dx, [[1, 1], [10, 1], [1, 1]])


def test_a_loop_over_rows(shim_name: str) -> None:
    """The state s becomes s * row + row for each of the three rows, from s = 1."""
    states = [helper.make_tensor_value_info(name, TensorProto.FLOAT, [2]) for name in ("s", "row", "t")]
    body = helper.make_graph(
        [helper.make_node("Mul", ["s", "row"], ["p"]), helper.make_node("Add", ["p", "row"], ["t"])],
        "step",
        states[:2],
        states[2:],
    )
    initial = helper.make_tensor("initial", TensorProto.FLOAT, [2], [1, 1])
    nodes = [
        helper.make_node("Constant", [], ["initial"], value=initial),
        helper.make_node("Scan", ["initial", "x"], ["y"], body=body, num_scan_inputs=1),
    ]
    dx = run_gradient(gradient_of(nodes), [[1, 2], [3, 4], [5, 6]], shim_name)
    # y = ((x0 + x0) x1 + x1) x2 + x2
    np.testing.assert_allclose(
        dx, [[2 * 3 * 5, 2 * 4 * 6], [(2 + 1) * 5, (4 + 1) * 6], [(2 + 1) * 3 + 1, (4 + 1) * 4 + 1]]
    )


def test_a_derivative_of_a_derivative(shim_name: str) -> None:
    """y is the derivative of x * x * x, and dx the second derivative."""
    inner = helper.make_node("Gradient", ["x"], ["y"], domain="ai.onnx.preview.training", xs=["x"], y="xxx")
    nodes = [helper.make_node("Mul", ["x", "x"], ["xx"]), helper.make_node("Mul", ["xx", "x"], ["xxx"]), inner]
    dx = run_gradient(gradient_of(nodes), np.arange(6).reshape(3, 2), shim_name)
    np.testing.assert_allclose(dx, 6 * np.arange(6).reshape(3, 2))


def test_a_branch_and_a_reduction(shim_name: str) -> None:
    model = gradient_of(
        [
            helper.make_node("Relu", ["x"], ["r"]),
            helper.make_node("Softmax", ["r"], ["s"], axis=1),
            helper.make_node("Mul", ["s", "r"], ["y"]),
        ]
    )
    x = np.array([[1, 2], [-1, 3], [0.5, 0.25]], np.float32)
    dx = run_gradient(model, x, shim_name)

    def total(x: Any) -> Any:
        r = np.maximum(x.astype(np.float64), 0)
        s = np.exp(r) / np.exp(r).sum(1, keepdims=True)
        return (s * r).sum()

    for index in np.ndindex(3, 2):
        step = np.zeros((3, 2))
        step[index] = 1e-6
        assert dx[index] == pytest.approx((total(x + step) - total(x - step)) / 2e-6, rel=1e-3, abs=1e-4)
