"""A scale and a shift between layers, when no layer before or after can take them, compared with the reference."""

from typing import Any, List

import numpy as np
import programs
import pytest

from matrix.harness.generators import per_test
from onnx_compat import primitives as p
from onnx_compat.ir.window import Window

RANDOM = per_test(np.random.RandomState(0))
W = 0.1 * RANDOM.standard_normal((8, 8, 3, 3)).astype(np.float32)
SCALE, SHIFT = (RANDOM.standard_normal((8, 1, 1)).astype(np.float32) for _ in range(2))


def conv(x: Any, kernel: int = 3) -> Any:
    pads = ((kernel // 2, kernel // 2),) * 2
    filters = np.ascontiguousarray(W[..., :kernel, :kernel])
    return p.conv(x, filters, window=Window.of((kernel, kernel), pads=pads))


def normal(x: Any, scale: Any = SCALE, shift: Any = SHIFT) -> Any:
    """Return a layer, an activation, then a scale and a shift. The layer cannot take the scale through the activation."""
    return p.add(p.mul(p.relu(conv(x)), scale), shift)


def kinds(function: Any, *sizes: Any) -> List[str]:
    """Return the operators after the first layer, with "+" for a fused RELU and without TRANSPOSEs at inputs and
    outputs.
    """
    operators = programs.check_program(function, sizes or (2, 8, 6, 5), fed=[(2, 8, 6, 5)], atol=2e-4)
    bounds = {"RELU": "+", "RELU6": "6"}
    builtins = [op.builtin + bounds.get(op.options.get("fused_activation_function", ""), "") for op in operators]
    return [builtin for builtin in builtins if builtin != "TRANSPOSE"][1:]


@pytest.mark.parametrize("sizes", [(2, 8, 6, 5), (None, 8, 6, 5)])
def test_a_factor_and_a_summand_of_channels_are_one_operator(sizes: Any) -> None:
    assert kinds(lambda x: conv(normal(x)), *sizes) == ["DEPTHWISE_CONV_2D", "CONV_2D"]


def test_the_activation_of_the_sum_moves_to_the_operator() -> None:
    assert kinds(lambda x: conv(p.relu(normal(x)), 1)) == ["DEPTHWISE_CONV_2D+", "CONV_2D"]
    assert kinds(lambda x: conv(p.clip(normal(x), 0, 6), 1)) == ["DEPTHWISE_CONV_2D6", "CONV_2D"]
    assert kinds(lambda x: conv(p.relu(normal(x, SCALE, np.float32(2))), 1))[0] == "DEPTHWISE_CONV_2D+"
    assert kinds(lambda x: conv(p.relu(normal(x, np.float32(-2), SHIFT)), 1))[0] == "DEPTHWISE_CONV_2D+"


def test_scales_with_other_readers_stay() -> None:
    """A scale that an elementwise operator reads does not fold: a non-finite number must stay in its pixel."""

    def normal_too(x: Any) -> Any:
        x = p.relu(normal(x))
        return p.add(conv(x), p.tanh(x))

    assert kinds(lambda x: p.tanh(normal(x))) == ["MUL", "ADD", "TANH"]
    assert kinds(normal) == ["MUL", "ADD"]
    assert kinds(normal_too)[:2] == ["MUL", "ADD+"]


def test_constants_that_vary_along_other_axes_stay() -> None:
    def then(product: Any) -> Any:
        return lambda x: conv(p.relu(p.add(product(p.relu(conv(x))), SHIFT)))

    assert kinds(then(lambda x: p.mul(x, W[0, :6, :1, :1].reshape(6, 1))))[:2] == ["MUL", "ADD+"]
    assert kinds(then(lambda x: p.mul(x, x)))[:2] == ["MUL", "ADD+"]
    assert kinds(then(lambda x: p.relu(p.mul(x, SCALE))))[:2] == ["MUL+", "ADD+"]
