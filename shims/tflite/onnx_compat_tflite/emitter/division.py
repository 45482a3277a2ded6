"""Quotients and remainders.

Integer division is exact, and never divides by a number for which a kernel ends the process.
"""

import numpy as np

from onnx_compat_tflite.emitter import broadcasting, casting, comparison, elementwise, uint64
from onnx_compat_tflite.emitter.builder import Builder
from onnx_compat_tflite.emitter.registry import primitive
from onnx_compat_tflite.emitter.widening import widen_for
from onnx_compat_tflite.subgraph_builder import Handle

__all__ = ["div", "floordiv", "fmod", "is_integer", "mod"]


def is_integer(x: Handle) -> bool:
    """Whether x has an integer dtype."""
    return np.dtype(x.dtype).kind in "iu"


@primitive
def div(builder: Builder, x: Handle, y: Handle) -> Handle:
    """Emit x / y: the true quotient of floats, the quotient of integers rounded towards zero.

    The quotient of an integer and 0 is undefined.
    """
    if uint64.is_viewed(builder, x):
        return uint64.div(builder, x, y)
    return _truncated_quotient(builder, x, y) if is_integer(x) else _true_quotient(builder, x, y)


@widen_for("DIV")
def _true_quotient(builder: Builder, x: Handle, y: Handle) -> Handle:
    return broadcasting.add_op(builder, "DIV", [x, y])


@widen_for("FLOOR_MOD", "MUL", "LESS")
def _truncated_quotient(builder: Builder, x: Handle, y: Handle) -> Handle:
    safe = _safe_divisor(builder, y)
    if x.dtype == "int32":
        quotient = broadcasting.add_op(builder, "DIV", [x, safe])
    else:
        quotient = _exact_quotient(builder, elementwise.sub(builder, x, _remainder(builder, x, safe)), safe)
    return _divide_by_minus_one(builder, x, y, quotient)


@primitive
def floordiv(builder: Builder, x: Handle, y: Handle) -> Handle:
    """Emit the quotient x / y, rounded down. The quotient of an integer and 0 is undefined."""
    if uint64.is_viewed(builder, x):
        return uint64.div(builder, x, y)
    return _floored_quotient(builder, x, y) if is_integer(x) else elementwise.floor(builder, div(builder, x, y))


@widen_for("FLOOR_MOD", "MUL", "LESS")
def _floored_quotient(builder: Builder, x: Handle, y: Handle) -> Handle:
    safe = _safe_divisor(builder, y)
    if x.dtype == "int32":
        quotient = broadcasting.add_op(builder, "FLOOR_DIV", [x, safe])
    else:
        remainder = _remainder(builder, x, safe)
        quotient = _exact_quotient(builder, elementwise.sub(builder, x, remainder), safe)
        is_rounded_up = _has_opposite_signs(builder, remainder, safe)
        lower = elementwise.sub(builder, quotient, builder.like(x, 1))
        quotient = comparison.where(builder, is_rounded_up, lower, quotient)
    return _divide_by_minus_one(builder, x, y, quotient)


@primitive
def mod(builder: Builder, x: Handle, y: Handle) -> Handle:
    """Emit the remainder of x / y with the sign of y. The remainder of an integer by 0 is undefined."""
    return uint64.mod(builder, x, y) if uint64.is_viewed(builder, x) else _floored_remainder(builder, x, y)


@widen_for("FLOOR_MOD")
def _floored_remainder(builder: Builder, x: Handle, y: Handle) -> Handle:
    return broadcasting.add_op(builder, "FLOOR_MOD", [x, _safe_divisor(builder, y) if is_integer(x) else y])


@primitive
def fmod(builder: Builder, x: Handle, y: Handle) -> Handle:
    """Emit the remainder of x / y with the sign of x. The remainder of an integer by 0 is undefined."""
    return mod(builder, x, y) if x.dtype == "uint64" else _truncated_remainder(builder, x, y)


@widen_for("FLOOR_MOD")
def _truncated_remainder(builder: Builder, x: Handle, y: Handle) -> Handle:
    if is_integer(x):
        return _remainder(builder, x, _safe_divisor(builder, y))
    size = broadcasting.add_op(builder, "FLOOR_MOD", [elementwise.abs(builder, x), elementwise.abs(builder, y)])
    is_negative = comparison.less(builder, x, builder.like(x, 0))
    return comparison.where(builder, is_negative, elementwise.neg(builder, size), size)


def _remainder(builder: Builder, x: Handle, y: Handle) -> Handle:
    """Return the remainder of integers with the sign of x. y must not be 0.

    The remainder is that of FLOOR_MOD, minus y where x and y have opposite signs. A remainder of 0 stays 0.
    """
    floored = broadcasting.add_op(builder, "FLOOR_MOD", [x, y])
    is_opposite = _has_opposite_signs(builder, x, y)
    is_zero = comparison.equal(builder, floored, builder.like(x, 0))
    differs = comparison.logical_and(builder, is_opposite, comparison.logical_not(builder, is_zero))
    return comparison.where(builder, differs, elementwise.sub(builder, floored, y), floored)


def _has_opposite_signs(builder: Builder, x: Handle, y: Handle) -> Handle:
    """Return a boolean tensor: whether exactly one of x and y is negative, and x is not zero. y must not be zero."""
    zero = builder.like(x, 0)
    opposite = comparison.logical_xor(builder, comparison.less(builder, x, zero), comparison.less(builder, y, zero))
    is_zero = comparison.equal(builder, x, zero)
    return comparison.logical_and(builder, opposite, comparison.logical_not(builder, is_zero))


def _safe_divisor(builder: Builder, y: Handle) -> Handle:
    """Return integers y with 1 in place of 0 and -1: kernels end the process for these two divisors."""
    if y.is_constant:
        divides = (y.array != 0) & (y.array != -1)
        return y if divides.all() else Handle.of(np.where(divides, y.array, 1).astype(y.dtype))
    replaced = comparison.equal(builder, y, builder.like(y, 0))
    if not y.dtype.startswith("uint"):
        replaced = comparison.logical_or(builder, replaced, comparison.equal(builder, y, builder.like(y, -1)))
    return comparison.where(builder, replaced, builder.like(y, 1), y)


def _divide_by_minus_one(builder: Builder, x: Handle, y: Handle, quotient: Handle) -> Handle:
    """Return `quotient` with -x where y is -1. If y is a constant without -1, return `quotient` itself."""
    if y.is_constant and not (y.array == -1).any():
        return quotient
    is_minus_one = comparison.equal(builder, y, builder.like(y, -1))
    return comparison.where(builder, is_minus_one, elementwise.neg(builder, x), quotient)


def _exact_quotient(builder: Builder, x: Handle, y: Handle) -> Handle:
    """Return x / y in int64. y must not be 0, and must divide x exactly.

    Each of three rounds of float32 division finds the next 22 bits.
    """
    total = None
    for _ in range(3):
        ratio = broadcasting.add_op(builder, "DIV", [casting.to(builder, value, "float32") for value in (x, y)])
        part = casting.to(builder, elementwise.unary(builder, "ROUND", ratio), "int64")
        total = part if total is None else elementwise.add(builder, total, part)
        x = elementwise.sub(builder, x, elementwise.mul(builder, part, y))
    assert total is not None
    return total
