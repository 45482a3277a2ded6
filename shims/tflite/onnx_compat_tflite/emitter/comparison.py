"""Comparisons and logic, and the choice between elements."""

from typing import Callable

import numpy as np

from onnx_compat_tflite.emitter import broadcasting, elementwise, float64
from onnx_compat_tflite.emitter.builder import Builder
from onnx_compat_tflite.emitter.registry import primitive, register
from onnx_compat_tflite.emitter.widening import widen_for
from onnx_compat_tflite.subgraph_builder import Handle

__all__ = [
    "equal", "is_inf", "is_nan", "less", "less_equal", "logical_and", "logical_not", "logical_or", "logical_xor", "where"
]  # fmt: skip


def _compare(builtin: str) -> Callable[[Builder, Handle, Handle], Handle]:
    """Return a function of (builder, x, y) that emits the comparison or logical op `builtin`, with a boolean result.

    x and y have the same dtype. If the kernel lacks this dtype, they are converted to a wider dtype, or from a 64-bit
    dtype to int64. NaN of float64 may then compare as true. The returned function raises UnsupportedError if no such
    conversion exists.
    """

    @widen_for(builtin)
    def emit(builder: Builder, x: Handle, y: Handle) -> Handle:
        return broadcasting.add_op(builder, builtin, [x, y], "bool")

    return emit


logical_and = register("logical_and", _compare("LOGICAL_AND"))
logical_or = register("logical_or", _compare("LOGICAL_OR"))
_plain_less = _compare("LESS")
_plain_less_equal = _compare("LESS_EQUAL")
_plain_equal = _compare("EQUAL")


@primitive
def less(builder: Builder, x: Handle, y: Handle) -> Handle:
    """Emit x < y, false for NaN."""
    return float64.false_on_nan(builder, _plain_less(builder, x, y), x, y)


@primitive
def less_equal(builder: Builder, x: Handle, y: Handle) -> Handle:
    """Emit x <= y, false for NaN."""
    return float64.false_on_nan(builder, _plain_less_equal(builder, x, y), x, y)


@primitive
def equal(builder: Builder, x: Handle, y: Handle) -> Handle:
    """Emit x == y, false for NaN."""
    return float64.false_on_nan(builder, _plain_equal(builder, x, y), x, y)


@primitive
def is_nan(builder: Builder, x: Handle) -> Handle:
    """Return a boolean tensor: whether each element of x is NaN."""
    return float64.is_nan(builder, x) if float64.is_viewed(builder, x) else _differs_from_itself(builder, x)


@widen_for("NOT_EQUAL")
def _differs_from_itself(builder: Builder, x: Handle) -> Handle:
    return broadcasting.add_op(builder, "NOT_EQUAL", [x, x], "bool")


@primitive
def is_inf(builder: Builder, x: Handle) -> Handle:
    """Return a boolean tensor: whether each element of x is infinite, of either sign."""
    return float64.is_inf(builder, x) if float64.is_viewed(builder, x) else _equals_infinity(builder, x)


@widen_for("ABS", "EQUAL")
def _equals_infinity(builder: Builder, x: Handle) -> Handle:
    magnitude = elementwise.unary(builder, "ABS", x)
    return broadcasting.add_op(builder, "EQUAL", [magnitude, builder.like(x, np.inf)], "bool")


@primitive
@widen_for("LOGICAL_NOT")
def logical_not(builder: Builder, x: Handle) -> Handle:
    """Emit LOGICAL_NOT."""
    return elementwise.unary(builder, "LOGICAL_NOT", x)


@primitive
def logical_xor(builder: Builder, x: Handle, y: Handle) -> Handle:
    """Emit NOT_EQUAL of the booleans x and y: whether exactly one of them is true."""
    return broadcasting.add_op(builder, "NOT_EQUAL", [x, y], "bool")


@primitive
def where(builder: Builder, condition: Handle, x: Handle, y: Handle) -> Handle:
    """Emit SELECT_V2: the result has the element of x where the boolean `condition` is true, and else the element of y.

    x and y have the same dtype. The shapes of `condition`, x and y broadcast.
    """
    return _select(builder, x, y, condition)


@widen_for("SELECT_V2")
def _select(builder: Builder, x: Handle, y: Handle, condition: Handle) -> Handle:
    return broadcasting.add_op(builder, "SELECT_V2", [condition, x, y])
