"""Primitives of uint64 by int64 arithmetic, on runtimes with BITCAST: casts, division and shifts."""

import numpy as np

from onnx_compat_tflite.emitter import bitwise, casting, comparison, division, elementwise, extremes, int64_views
from onnx_compat_tflite.emitter.builder import Builder
from onnx_compat_tflite.subgraph_builder import Handle

__all__ = ["can_cast", "cast", "div", "is_viewed", "limit_shift", "mod", "shift_right"]


def can_cast(builder: Builder, x: Handle, dtype: str) -> bool:
    """Whether `cast` applies to x and a dtype: one of them is uint64, neither is float64, the runtime has BITCAST.

    False for a constant of integers or booleans, which `casting.to` casts without an operator.
    """
    is_known_integer = x.is_constant and x.array.dtype.kind != "f"
    return (
        "uint64" in (x.dtype, dtype)
        and "float64" not in (x.dtype, dtype)
        and not is_known_integer
        and int64_views.has_bitcast(builder)
    )


def cast(builder: Builder, x: Handle, dtype: str) -> Handle:
    """Cast x from or to uint64. `can_cast` must hold for x and the dtype.

    A negative float, a float of 2^64 or more, and NaN give undefined numbers.
    """
    is_float = (x.dtype if dtype == "uint64" else dtype) in ("float32", "float16")
    if x.dtype == "uint64":
        bits = int64_views.view_as(builder, x, "int64")
        return casting.to(builder, _round_to_float32(builder, bits) if is_float else bits, dtype)
    if is_float:
        return int64_views.view_as(builder, _truncate_float32(builder, casting.to(builder, x, "float32")), dtype)
    return int64_views.view_as(builder, casting.to(builder, x, "int64"), dtype)


def _round_to_float32(builder: Builder, bits: Handle) -> Handle:
    """Convert uint64 numbers, given as int64 bits, to the nearest float32.

    From 2^63 on, the number is halved, cast and doubled. If the halving drops a 1, the last bit of the half is set to
    1. The cast then rounds as for the whole number.
    """
    odd = division.mod(builder, bits, builder.like(bits, 2))
    half = _halve(builder, bits)
    is_even = comparison.equal(builder, division.mod(builder, half, builder.like(half, 2)), builder.like(half, 0))
    half = comparison.where(builder, is_even, elementwise.add(builder, half, odd), half)
    large = elementwise.mul(builder, casting.to(builder, half, "float32"), Handle.of(np.float32(2)))
    is_large = comparison.less(builder, bits, builder.like(bits, 0))
    return comparison.where(builder, is_large, large, casting.to(builder, bits, "float32"))


def _truncate_float32(builder: Builder, x: Handle) -> Handle:
    """Truncate a float32 to uint64, and return the bits of the result as int64."""
    beyond = builder.like(x, 2.0**63)
    small = comparison.less(builder, x, beyond)
    bits = casting.to(builder, comparison.where(builder, small, x, elementwise.sub(builder, x, beyond)), "int64")
    return comparison.where(builder, small, bits, elementwise.add(builder, bits, builder.like(bits, int64_views.LEAST)))


def _halve(builder: Builder, bits: Handle) -> Handle:
    """Return int64 bits shifted right by one bit, with a zero as the highest bit."""
    half = division.floordiv(builder, bits, builder.like(bits, 2))
    return int64_views.clear_sign(builder, half)


def is_viewed(builder: Builder, x: Handle) -> bool:
    """Whether x is a uint64 whose bits the runtime can read as int64 (it has BITCAST)."""
    return x.dtype == "uint64" and int64_views.has_bitcast(builder)


def div(builder: Builder, x: Handle, y: Handle) -> Handle:
    """Return the quotient of uint64 x and y, rounded down. For y = 0 it is undefined. `is_viewed` must hold for x.

    For y below 2^63, the quotient of x / 2 and y is doubled, and 1 is added if the remainder is y or more. For y from
    2^63 on, the quotient is 0 or 1.
    """
    dividend, divisor = int64_views.view_as(builder, x, "int64"), int64_views.view_as(builder, y, "int64")
    zero = builder.like(dividend, 0)
    is_one = casting.to(builder, comparison.less_equal(builder, y, x), "int64")
    quotient = division.div(builder, _halve(builder, dividend), divisor)
    quotient = elementwise.add(builder, quotient, quotient)
    remainder = elementwise.sub(builder, dividend, elementwise.mul(builder, quotient, divisor))
    is_greater = comparison.less_equal(builder, y, int64_views.view_as(builder, remainder, "uint64"))
    quotient = elementwise.add(builder, quotient, casting.to(builder, is_greater, "int64"))
    quotient = comparison.where(builder, comparison.less(builder, divisor, zero), is_one, quotient)
    return int64_views.view_as(builder, quotient, "uint64")


def mod(builder: Builder, x: Handle, y: Handle) -> Handle:
    """Return the remainder of uint64 x and y: x - (x / y) y. For y = 0 it is undefined. `is_viewed` must hold for x."""
    return elementwise.sub(builder, x, elementwise.mul(builder, division.div(builder, x, y), y))


def limit_shift(builder: Builder, y: Handle) -> Handle:
    """Return min(y, 64) for a number of bits y if `is_viewed` holds for y; return any other y unchanged.

    The limit is needed because int64 kernels would read a y of 2^63 or more as negative.
    """
    return extremes.minimum(builder, builder.like(y, 64), y) if is_viewed(builder, y) else y


def shift_right(builder: Builder, x: Handle, y: Handle) -> Handle:
    """Return x >> y of uint64; 0 where y is 64 or more. `is_viewed` must hold for x and y.

    The int64 view of x is shifted by one bit, so that its sign bit is 0, and then by y - 1 bits.
    """
    bits = int64_views.view_as(builder, x, "int64")
    shift = int64_views.view_as(builder, limit_shift(builder, y), "int64")
    is_zero = comparison.equal(builder, shift, builder.like(shift, 0))
    unit = builder.like(shift, 1)
    remaining_shift = comparison.where(builder, is_zero, builder.like(shift, 0), elementwise.sub(builder, shift, unit))
    shifted = bitwise.shift_right(builder, _halve(builder, bits), remaining_shift)
    return int64_views.view_as(builder, comparison.where(builder, is_zero, bits, shifted), "uint64")
