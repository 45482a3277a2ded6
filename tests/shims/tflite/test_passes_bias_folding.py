"""Biases that are added after other operators fold into the layer, with the results of the reference."""

from typing import Any, List

import numpy as np
import pytest
from onnx_compat_tflite import features
from onnx_compat_tflite.build import build
from programs import check_program, program

from matrix.harness.generators import per_test
from onnx_compat import primitives as p
from onnx_compat.ir.window import Window

RANDOM = per_test(np.random.RandomState(0))
W, V = (RANDOM.standard_normal((4, 6)).astype(np.float32) for _ in range(2))
BIAS = RANDOM.standard_normal(6).astype(np.float32)


def kinds(function: Any, *shapes: Any) -> List[str]:
    """Return the operators of a program, with "+" for a fused RELU. Assert that the results equal the reference."""
    bound = "fused_activation_function"
    operators = check_program(
        function, *shapes, fed=[[3 if size is None else size for size in shape] for shape in shapes]
    )
    return [op.builtin + {"RELU": "+"}.get(op.options.get(bound, ""), "") for op in operators]


@pytest.mark.parametrize("rows", [6, None])
@pytest.mark.parametrize("bias", [BIAS, BIAS[None, None], np.float32(2)])
def test_a_bias_after_a_reshape_folds_into_the_layer(rows: Any, bias: Any) -> None:
    def dense(x: Any) -> Any:
        return p.add(p.reshape(p.matmul(x, W), (-1, 3, 6)), bias)

    assert "ADD" not in kinds(dense, (rows, 4))
    assert kinds(lambda x: p.relu(dense(x)), (6, 4)) == ["FULLY_CONNECTED+", "RESHAPE"]


def test_a_bias_is_added_to_another_bias() -> None:
    def dense(x: Any) -> Any:
        return p.add(p.reshape(p.add(p.matmul(x, W), BIAS), (2, 3, 6)), 2 * BIAS)

    assert kinds(dense, (6, 4)) == ["FULLY_CONNECTED", "RESHAPE"]


def test_a_bias_of_a_sum_folds_into_a_summand() -> None:
    def gates(x: Any, h: Any) -> Any:
        return p.add(p.add(p.matmul(x, W), p.matmul(h, V)), BIAS)

    assert kinds(gates, (1, 4), (1, 4)) == ["FULLY_CONNECTED", "FULLY_CONNECTED", "ADD"]
    assert kinds(lambda x, h: p.relu(gates(x, h)), (1, 4), (1, 4))[-1] == "ADD+"
    operand = kinds(lambda x, y: p.add(p.add(y, p.matmul(x, W)), BIAS), (1, 4), (1, 6))
    assert operand == ["FULLY_CONNECTED", "ADD"]


def test_summands_that_are_no_bias_stay() -> None:
    def along(shape: Any, added: Any) -> Any:
        return lambda x: p.add(p.reshape(p.matmul(x, W), shape), added)

    assert "ADD" in kinds(along((12, 3), BIAS[:3]), (6, 4))  # another last axis
    assert "ADD" in kinds(along((2, 3, 6), np.arange(3, dtype=np.float32)[:, None]), (6, 4))
    assert "ADD" in kinds(along((1, 6, 6), BIAS[:, None]), (6, 4))  # as many numbers, along another axis
    assert "ADD" in kinds(along((1, 6), np.ones((5, 6), np.float32)), (1, 4))  # more numbers than the layer gives
    assert "ADD" in kinds(along((2, 3, 6), BIAS[None, None, None]), (6, 4))  # one axis more than the layer gives
    assert "ADD" in kinds(lambda x: p.add(p.reshape(p.relu(p.matmul(x, W)), (2, 3, 6)), BIAS), (6, 4))


def test_a_bias_after_a_bounded_sum_stays() -> None:
    def gates(x: Any, h: Any) -> Any:
        return p.add(p.relu(p.add(p.matmul(x, W), p.matmul(h, V))), BIAS)

    assert kinds(gates, (1, 4), (1, 4))[-2:] == ["ADD+", "ADD"]


def test_a_layer_with_a_bias_that_is_computed_keeps_it() -> None:
    filters = np.ones((6, 3, 1, 1), np.float32)

    def layer(x: Any, bias: Any) -> Any:
        return p.add(p.conv(x, filters, p.tanh(bias), window=Window.of((1, 1))), 2.0)

    assert "ADD" in kinds(layer, (1, 3, 4, 5), (6,))


@pytest.mark.parametrize("shape", [(), (None,), (2, None)])
def test_sums_of_unknown_sizes_stay(shape: Any) -> None:
    assert kinds(lambda x: p.add(p.tanh(x), 2.0), shape) == ["TANH", "ADD"]
    if shape == ():
        assert kinds(lambda x: p.add(p.tanh(x), BIAS), shape) == ["TANH", "ADD"]


def test_a_sum_of_the_same_twice_stays() -> None:
    def twice(x: Any) -> Any:
        y = p.matmul(x, W)
        return p.add(p.add(y, y), BIAS)

    assert kinds(twice, (6, 4)).count("ADD") == 2


def test_a_layer_that_is_also_read_without_the_bias_stays() -> None:
    def both(x: Any) -> Any:
        y = p.reshape(p.matmul(x, W), (2, 3, 6))
        return p.mul(p.add(y, BIAS), y)

    assert "ADD" in kinds(both, (6, 4))


def test_a_tensor_with_a_folded_bias_gets_a_new_name() -> None:
    recorded_program = program(
        lambda x, y: p.add(p.add(p.reshape(p.matmul(x, W), (2, 3, 6)), y), BIAS), (6, 4), (2, 3, 6)
    )
    graph = build(recorded_program, features.kernels()).subgraphs[0]
    layer, reshape, total = graph.operators
    assert [layer.builtin, reshape.builtin, total.builtin] == ["FULLY_CONNECTED", "RESHAPE", "ADD"]
    assert all(graph.tensors[size.outputs[0]].name.endswith("/with_bias") for size in (layer, reshape))
    assert graph.tensors[graph.outputs[0]].name == "y"
