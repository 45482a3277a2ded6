"""Composed activations: the kernel that each becomes, with the results of the reference."""

import math
from typing import Any

import numpy as np
import pytest
from onnx_compat_tflite import SHIM, features
from onnx_compat_tflite.build import build
from onnx_compat_tflite.kernels import Kernels
from programs import check_program, names, program

from onnx_compat import primitives as p
from onnx_compat.ops.activation import elu, gelu, leaky_relu, mish, prelu, softplus
from onnx_compat.reference import Reference
from onnx_compat.shim.emission import emit


def spelt(x: Any) -> Any:
    """Return Gelu in the form that exporters write: with Erf."""
    return p.mul(p.mul(x, 0.5), p.add(p.erf(p.div(x, math.sqrt(2))), 1.0))


def bend(x: Any) -> Any:
    inner = p.mul(p.add(x, p.mul(p.pow(x, 3.0), 0.044715)), math.sqrt(2 / math.pi))
    return p.mul(x, p.mul(p.add(1.0, p.tanh(inner)), 0.5))


@pytest.mark.parametrize(
    ("function", "approximate"),
    [(gelu, False), (spelt, False), (lambda x: gelu(x, approximate="tanh"), True), (bend, True)],
)
def test_gelu_is_a_kernel_if_the_runtime_has_it(function: Any, approximate: bool) -> None:
    result = check_program(function, (4, 50))
    if features.kernels().accepts("GELU", "float32"):
        assert [op.builtin for op in result] == ["GELU"]
        assert result[0].options["approximate"] is approximate
    everywhere = build(program(function, (4, 50)), Kernels()).subgraphs[0].operators
    assert "GELU" not in [op.builtin for op in everywhere]


def test_a_similar_function_is_no_gelu() -> None:
    assert "GELU" not in names(lambda x: p.mul(p.mul(x, 0.5), p.add(p.erf(p.div(x, 1.4)), 1.0)), (4, 50))
    assert "GELU" not in names(lambda x, y: p.mul(p.mul(y, 0.5), p.add(p.erf(p.div(x, math.sqrt(2))), 1.0)), (9,), (9,))


def test_values_with_other_readers_are_still_computed() -> None:
    def both(x: Any) -> Any:
        curve = p.erf(p.mul(x, math.sqrt(0.5)))
        return p.concat([p.mul(p.mul(x, 0.5), p.add(curve, 1.0)), curve], 0)

    names(both, (4, 50))


def test_elu_has_a_kernel() -> None:
    assert names(elu, (4, 50)) == ["ELU"]
    assert "ELU" not in names(lambda x: elu(x, alpha=0.5), (4, 50))


def test_mish_and_softplus_take_few_operators() -> None:
    if features.kernels().quirks.keeps_infinity:
        assert names(mish, (4, 50)) == ["LOGISTIC", "SUB", "MUL", "SUB", "DIV", "MUL"]
    assert len(names(mish, (4, 50))) <= 17
    assert len(names(softplus, (4, 50))) <= 15
    assert "TANH" in names(lambda x: p.mul(p.neg(x), p.tanh(softplus(x))), (4, 50))
    both = names(lambda x: p.concat([mish(x), softplus(x)], 0), (4, 50))
    assert len(both) <= 6 + 15 + 1 or not features.kernels().quirks.keeps_infinity


@pytest.mark.parametrize("function", [mish, softplus])
def test_mish_and_softplus_have_full_precision(function: Any) -> None:
    infinite = [-np.inf, np.inf] if features.kernels().quirks.keeps_infinity else []
    x = np.concatenate([np.linspace(-80, 100, 4001), [np.nan, -3e38, 3e38], infinite]).astype(np.float32)
    (actual,) = SHIM.compile(program(function, x.shape)).run([x])
    (wanted,) = emit(program(function, x.shape, emitter=Reference()).region, Reference(), [x])
    np.testing.assert_allclose(actual, wanted, rtol=1e-5)


@pytest.mark.parametrize("alpha", [0.1, 1.5, -0.5])
def test_leaky_relu_has_a_kernel(alpha: float) -> None:
    assert names(lambda x: leaky_relu(x, alpha=alpha), (4, 50)) == ["LEAKY_RELU"]


@pytest.mark.parametrize("shape", [(4, 6), (2, 3, 4, 6)])
def test_prelu_along_the_last_axis_has_a_kernel(shape: Any) -> None:
    slope = np.linspace(-1, 2, 6, dtype=np.float32)
    assert names(lambda x: prelu(x, slope), shape) == ["PRELU"]
    assert "PRELU" not in names(lambda x: prelu(x, slope[: shape[0], None]), shape[0:1] + (6,))


@pytest.mark.parametrize("subtracted", [False, True])
@pytest.mark.parametrize(
    ("slope", "kernel"), [(np.linspace(-1, 2, 6, dtype=np.float32), "PRELU"), (0.25, "LEAKY_RELU")]
)
def test_relu_and_a_scaled_relu_of_the_negative_are_prelu(slope: Any, kernel: str, subtracted: bool) -> None:
    """Keras writes a PReLU in this form: relu(x) - slope * relu(-x)."""

    def apply_slope(x: Any) -> Any:
        share = p.mul(p.relu(p.neg(x)), slope if subtracted else -slope)
        return p.sub(p.relu(x), share) if subtracted else p.add(share, p.relu(x))

    assert names(apply_slope, (4, 6)) == [kernel]
    assert kernel not in names(lambda x: p.add(p.relu(x), p.mul(p.relu(p.neg(p.tanh(x))), slope)), (4, 6))
    assert kernel not in names(lambda x: p.add(p.relu(x), p.mul(p.relu(x), slope)), (4, 6))


def test_prelu_with_unknown_sizes_is_no_error() -> None:
    result = build(program(lambda x: prelu(x, np.ones((6, 1), np.float32)), (2, 6, None)), features.kernels())
    assert "PRELU" not in [op.builtin for op in result.subgraphs[0].operators]
    result = build(program(lambda x: prelu(x, np.ones(6, np.float32)), (None, 6)), features.kernels())
    assert [op.builtin for op in result.subgraphs[0].operators] == ["PRELU"]
