"""Bitwise operators and shifts of integers.

Only new runtimes have a bitwise kernel, BITWISE_XOR. Otherwise numbers are split into bits by arithmetic: the bits of a
number are booleans along a new last axis.
"""

from typing import List, Optional, Tuple

import numpy as np

from onnx_compat.shim import DType
from onnx_compat_tflite.emitter import (
    broadcasting,
    casting,
    comparison,
    division,
    elementwise,
    extremes,
    gathering,
    joining,
    means,
    reshaping,
    uint64,
)
from onnx_compat_tflite.emitter.builder import Builder
from onnx_compat_tflite.emitter.registry import primitive
from onnx_compat_tflite.emitter.widening import widen_for
from onnx_compat_tflite.subgraph_builder import Handle, storage_type

__all__ = ["bitcast", "bitwise_and", "bitwise_not", "bitwise_or", "bitwise_xor", "shift_left", "shift_right"]


@primitive
def bitwise_not(builder: Builder, x: Handle) -> Handle:
    """Emit the complement of integers: -1 - x for signed, the greatest number - x for unsigned."""
    last = np.iinfo(x.dtype).max if x.dtype.startswith("uint") else -1
    return elementwise.sub(builder, builder.like(x, last), x)


@primitive
def bitcast(builder: Builder, x: Handle, dtype: DType) -> Handle:
    """View the bits of x as another dtype of the same width. Raises UnsupportedError on runtimes without BITCAST."""
    builder.demand("BITCAST", "float32", "float32")
    return builder.add_op("BITCAST", [x], storage_type(dtype.numpy), x.dims)


@primitive
def bitwise_and(builder: Builder, x: Handle, y: Handle) -> Handle:
    """Emit the bitwise AND of x and y.

    - If the dtype is signed and an operand is a constant of one element with one run of set bits (`_run_of_bits`), the
      result is computed by remainders (`_mask_bit_range`).
    - Otherwise it is computed by LOGICAL_AND of the single bits.
    """
    for value, mask in ((x, y), (y, x)):
        bit_range = _run_of_bits(mask)
        if bit_range is not None and not value.dtype.startswith("u"):
            return _mask_bit_range(builder, value, *bit_range)
    return _combine_bits(builder, x, y, "LOGICAL_AND")


@widen_for("FLOOR_MOD", "SUB")
def _mask_bit_range(builder: Builder, x: Handle, low: int, high: Optional[int]) -> Handle:
    """Keep the bits `low` to `high` - 1 of a signed x, and clear all other bits.

    - With `high`, the result is x mod 2^high - x mod 2^low.
    - Without `high` (None), all bits from `low` on are kept: the result is x - x mod 2^low.
    """
    upper = x if high is None else broadcasting.add_op(builder, "FLOOR_MOD", [x, builder.like(x, 2**high)])
    if not low:
        return upper
    return elementwise.sub(builder, upper, broadcasting.add_op(builder, "FLOOR_MOD", [x, builder.like(x, 2**low)]))


@primitive
def bitwise_or(builder: Builder, x: Handle, y: Handle) -> Handle:
    """Emit the bitwise OR: by LOGICAL_OR of the bits."""
    return _combine_bits(builder, x, y, "LOGICAL_OR")


@primitive
def bitwise_xor(builder: Builder, x: Handle, y: Handle) -> Handle:
    """Emit the bitwise XOR: by BITWISE_XOR if the kernel takes the dtype, else by NOT_EQUAL of the bits."""
    if builder.accepts("BITWISE_XOR", x.dtype):
        return broadcasting.add_op(builder, "BITWISE_XOR", [x, y])
    return _combine_bits(builder, x, y, "NOT_EQUAL")


def _combine_bits(builder: Builder, x: Handle, y: Handle, logical: str) -> Handle:
    """Combine x and y bit by bit by the op `logical`, such as LOGICAL_AND, and return integers of x's dtype.

    The shapes of x and y broadcast.
    """
    count = 8 * np.dtype(x.dtype).itemsize
    wide = "int32" if count < 32 else "int64"
    operands = [_to_bits(builder, casting.to(builder, operand, wide), count) for operand in (x, y)]
    bits = broadcasting.add_op(builder, logical, operands, "bool")
    weights = Handle.of(np.array(_powers(count)).astype(wide))
    weighted = elementwise.mul(builder, casting.to(builder, bits, wide), weights)
    total = means.reduce_axes(builder, "SUM", weighted, [bits.rank - 1], False)
    return casting.to(builder, total, x.dtype)


def _to_bits(builder: Builder, x: Handle, count: int) -> Handle:
    """Return the lowest `count` bits of an integer x as booleans along a new last axis, the lowest bit first.

    For an int64 x, `count` is 64 or at most 62. For an int32 x, `count` is at most 30.

    Bit k is computed as x mod 2^(k + 1) >= 2^k. Exception: the bits 62 and 63 are computed without a remainder, because
    2^63 does not fit int64.
    """
    column = reshaping.insert_axis(builder, x, 0)
    if count < 64:
        moduli = Handle.of(np.array([2 ** (k + 1) for k in range(count)], x.dtype))
        halves = Handle.of(np.array([2**k for k in range(count)], x.dtype))
        remainders = broadcasting.add_op(builder, "FLOOR_MOD", [column, moduli])
        return broadcasting.add_op(builder, "LESS_EQUAL", [halves, remainders], "bool")
    zero = builder.like(x, 0)
    negative = comparison.less(builder, column, zero)
    flipped = elementwise.add(builder, column, builder.like(x, -(2**63)))
    without_sign = comparison.where(builder, negative, flipped, column)
    low = _to_bits(builder, x, 62)
    high = broadcasting.add_op(builder, "LESS_EQUAL", [builder.like(x, 2**62), without_sign], "bool")
    return joining.concatenate(builder, low, [high, negative], low.rank - 1)


@widen_for("FLOOR_MOD", "MUL")
def _powers_of_two(builder: Builder, y: Handle, limit: int) -> Handle:
    """Return 2^y in y's dtype, from a table; 0 where y is `limit` or more. y is not negative."""
    table = Handle.of(np.array(_powers(limit) + [0], y.dtype))
    index = extremes.minimum(builder, builder.like(y, limit), y)
    return gathering.gather(builder, table, casting.to(builder, index, "int32"), 0)


@primitive
def shift_left(builder: Builder, x: Handle, y: Handle) -> Handle:
    """Shift unsigned x by y bits to the left. A shift by the width of x or more gives 0."""
    return _shift_bits(builder, x, uint64.limit_shift(builder, y), True)


@primitive
def shift_right(builder: Builder, x: Handle, y: Handle) -> Handle:
    """Shift unsigned x by y bits to the right. A shift by the width of x or more gives 0."""
    if uint64.is_viewed(builder, x):
        return uint64.shift_right(builder, x, y)
    return _shift_bits(builder, x, y, False)


def _shift_bits(builder: Builder, x: Handle, y: Handle, left: bool) -> Handle:
    """Shift x by y bits: multiply (`left`) or divide by 2^y in int64, rounding down, and cast to x's dtype.

    The result is 0 where y is the width of x or more. For a shift to the right, it is also 0 where y is 63. y must not
    be negative after the cast to int64.
    """
    count = 8 * np.dtype(x.dtype).itemsize
    wide = [casting.to(builder, x, "int64"), casting.to(builder, y, "int64")]
    power = _powers_of_two(builder, wide[1], count if left else min(count, 63))
    if left:
        return casting.to(builder, elementwise.mul(builder, wide[0], power), x.dtype)
    zero = builder.like(power, 0)
    is_shifted_out = comparison.equal(builder, power, zero)
    return casting.to(
        builder, comparison.where(builder, is_shifted_out, zero, division.floordiv(builder, wide[0], power)), x.dtype
    )


def _powers(count: int) -> List[int]:
    """Return the first `count` powers of two, 64 at most, as numbers that int64 holds: the 64th is -2^63."""
    return [1 << k if k < 63 else -(1 << 63) for k in range(count)]


def _run_of_bits(mask: Handle) -> Optional[Tuple[int, Optional[int]]]:
    """Return (index of the lowest set bit, index of the highest set bit + 1) of a constant mask: 0b0110 gives (1, 3).

    For a negative mask, whose set bits include the sign, the second number is None: -4 gives (2, None).

    Returns None instead of a pair in these cases:

    - The mask is not a constant of one element, or is 0.
    - The set bits are not adjacent.
    - 2 ** (second number) does not fit a signed integer of the mask's width.
    """
    if not mask.is_constant or mask.array.size != 1:
        return None
    number = int(mask.array.reshape(()))
    low = (number & -number).bit_length() - 1
    if number < 0:
        return (low, None) if number == -(1 << low) else None
    above = number + (1 << max(low, 0))
    is_run = number > 0 and not above & number and above < 2 ** (8 * mask.array.dtype.itemsize - 1)
    return (low, above.bit_length() - 1) if is_run else None
