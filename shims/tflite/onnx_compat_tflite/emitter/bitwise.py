"""Bitwise operators, powers and shifts of integers.

Only new runtimes have a bitwise kernel, BITWISE_XOR. Otherwise numbers are split into bits by arithmetic.
"""

from typing import List, Optional, Sequence, Tuple

import numpy as np

from onnx_compat.shim import DType
from onnx_compat_tflite.emitter.base import widen_for
from onnx_compat_tflite.emitter.broadcast import broadcast_dims
from onnx_compat_tflite.emitter.linear import Linear
from onnx_compat_tflite.subgraph_builder import Handle, storage_type

__all__ = ["Bitwise"]


class Bitwise(Linear):
    """Emit bitwise operators: the bits of a number are booleans along a new last axis."""

    def bitwise_not(self, x: Handle) -> Handle:
        last = np.iinfo(x.dtype).max if x.dtype.startswith("uint") else -1
        return self.sub(self.like(x, last), x)

    def bitcast(self, x: Handle, dtype: DType) -> Handle:
        self.demand("BITCAST", "float32", "float32")
        return self.add_op("BITCAST", [x], storage_type(dtype.numpy), x.dims)

    def bitwise_and(self, x: Handle, y: Handle) -> Handle:
        for value, mask in ((x, y), (y, x)):
            bit_range = _run_of_bits(mask)
            if bit_range is not None and not value.dtype.startswith("u"):
                return self._mask_bit_range(value, *bit_range)
        return self._combine_bits(x, y, "LOGICAL_AND")

    @widen_for("FLOOR_MOD", "SUB")
    def _mask_bit_range(self, x: Handle, low: int, high: Optional[int]) -> Handle:
        """Keep the bits from `low` to `high` (None: to the sign): the remainder by 2^high less the remainder by 2^low."""
        upper = x if high is None else self.elementwise("FLOOR_MOD", [x, self.like(x, 2**high)])
        return upper if not low else self.sub(upper, self.elementwise("FLOOR_MOD", [x, self.like(x, 2**low)]))

    def bitwise_or(self, x: Handle, y: Handle) -> Handle:
        return self._combine_bits(x, y, "LOGICAL_OR")

    def bitwise_xor(self, x: Handle, y: Handle) -> Handle:
        if self.accepts("BITWISE_XOR", x.dtype):
            return self.elementwise("BITWISE_XOR", [x, y])
        return self._combine_bits(x, y, "NOT_EQUAL")

    def _combine_bits(self, x: Handle, y: Handle, logical: str) -> Handle:
        """Apply a logical operator to each bit of x and y."""
        count = 8 * np.dtype(x.dtype).itemsize
        wide = "int32" if count < 32 else "int64"
        bits = self.elementwise(logical, [self._to_bits(self.to(h, wide), count) for h in (x, y)], "bool")
        weights = Handle.of(np.array(_powers(count)).astype(wide))
        total = self.reduce_axes("SUM", self.mul(self.to(bits, wide), weights), [bits.rank - 1], False)
        return self.to(total, x.dtype)

    def _to_bits(self, x: Handle, count: int) -> Handle:
        """Return the lowest bits as booleans: bit k of x is x mod 2^(k + 1) >= 2^k."""
        column = self._insert_axis(x, 0)
        if count < 64:
            moduli = Handle.of(np.array([2 ** (k + 1) for k in range(count)], x.dtype))
            halves = Handle.of(np.array([2**k for k in range(count)], x.dtype))
            return self.elementwise("LESS_EQUAL", [halves, self.elementwise("FLOOR_MOD", [column, moduli])], "bool")
        zero = self.like(x, 0)
        negative = self.less(column, zero)
        without_sign = self.where(negative, self.add(column, self.like(x, -(2**63))), column)
        low = self._to_bits(x, 62)
        high = self.elementwise("LESS_EQUAL", [self.like(x, 2**62), without_sign], "bool")
        return self._concatenate(low, [high, negative], low.rank - 1)

    # -- powers ------------------------------------------------------------------------------------------------------------
    @widen_for("FLOOR_MOD", "MUL", "LESS")
    def integer_power(self, x: Handle, y: Handle) -> Handle:
        """Emit x^y by squaring in a loop, until no exponent has bits left. For y < 0 the result is 0, unless x is 1 or
        -1.
        """
        zero, unit = self.like(x, 0), self.like(x, 1)
        shape = broadcast_dims([x.dims, y.dims])

        def test(inner: Sequence[Handle], _: Sequence[Handle]) -> Handle:
            has_bits = self.less(zero, inner[2])
            return self.reduce_axes("REDUCE_ANY", self.flatten(has_bits), [0], False)

        def body(inner: Sequence[Handle], _: Sequence[Handle]) -> Sequence[Handle]:
            total, base, exponent = inner
            odd = self.equal(self.mod(exponent, self.like(x, 2)), unit)
            total = self.where(odd, self.mul(total, base), total)
            return [total, self.mul(base, base), self.div(exponent, self.like(x, 2))]

        start = self.add(self.mul(x, zero), unit)
        start = self.add(start, self.mul(y, zero))
        state = [start, self.add(x, self.mul(start, zero)), self.maximum(zero, self.add(y, self.mul(start, zero)))]
        power = self.loop(test, body, state, [], [shape] * 3)[0]
        odd = self.where(self.equal(self.mod(y, self.like(y, 2)), zero), unit, x)
        least = self.like(x, -1 if np.dtype(x.dtype).kind == "i" else 0)  # clipped: x * x can wrap to 1
        is_unit = self.equal(self.mul(x, self.minimum(self.maximum(x, least), unit)), unit)
        return self.where(self.less(y, zero), self.where(is_unit, odd, zero), power)

    # -- shifts ------------------------------------------------------------------------------------------------------------
    @widen_for("FLOOR_MOD", "MUL")
    def _powers_of_two(self, y: Handle, limit: int) -> Handle:
        """Return 2^y from a table, 0 from the limit on."""
        table = Handle.of(np.array(_powers(limit) + [0], y.dtype))
        index = self.minimum(self.like(y, limit), y)
        return self.gather(table, self.to(index, "int32"), 0)

    def shift_left(self, x: Handle, y: Handle) -> Handle:
        return self._shift_bits(x, y, True)

    def shift_right(self, x: Handle, y: Handle) -> Handle:
        return self._shift_bits(x, y, False)

    def _shift_bits(self, x: Handle, y: Handle, left: bool) -> Handle:
        """Shift in int64, which holds every power of two that changes the result."""
        count = 8 * np.dtype(x.dtype).itemsize
        wide = [self.to(x, "int64"), self.to(y, "int64")]
        power = self._powers_of_two(wide[1], count if left else min(count, 63))
        if left:
            return self.to(self.mul(wide[0], power), x.dtype)
        zero = self.like(power, 0)
        is_shifted_out = self.equal(power, zero)
        return self.to(self.where(is_shifted_out, zero, self.floordiv(wide[0], power)), x.dtype)


def _powers(count: int) -> List[int]:
    """Return the powers of two as int64. The 64th is the sign."""
    return [1 << k if k < 63 else -(1 << 63) for k in range(count)]


def _run_of_bits(mask: Handle) -> Optional[Tuple[int, Optional[int]]]:
    """Return the first and the end bit of a constant scalar whose set bits are adjacent; None for another mask.

    A run up to the sign has the end None.
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
