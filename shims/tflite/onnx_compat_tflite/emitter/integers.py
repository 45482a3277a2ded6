"""Quotients, remainders and powers.

Integer division is exact, and never divides by a number for which a kernel ends the process.
"""

import numpy as np

from onnx_compat_tflite.emitter.base import widen_for
from onnx_compat_tflite.emitter.elementwise import Elementwise
from onnx_compat_tflite.subgraph_builder import Handle

__all__ = ["Integers"]


def _is_integer(x: Handle) -> bool:
    return np.dtype(x.dtype).kind in "iu"


class Integers(Elementwise):
    """Emit division. ONNX leaves the result of division by zero open; the least integer divided by -1 overflows."""

    def div(self, x: Handle, y: Handle) -> Handle:
        return self._truncated_quotient(x, y) if _is_integer(x) else self._true_quotient(x, y)

    @widen_for("DIV")
    def _true_quotient(self, x: Handle, y: Handle) -> Handle:
        return self.elementwise("DIV", [x, y])

    @widen_for("FLOOR_MOD", "MUL", "LESS")
    def _truncated_quotient(self, x: Handle, y: Handle) -> Handle:
        safe = self._safe_divisor(y)
        if x.dtype == "int32":
            quotient = self.elementwise("DIV", [x, safe])
        else:
            quotient = self._exact_quotient(self.sub(x, self._remainder(x, safe)), safe)
        return self._divide_by_minus_one(x, y, quotient)

    def floordiv(self, x: Handle, y: Handle) -> Handle:
        return self._floored_quotient(x, y) if _is_integer(x) else self.floor(self.div(x, y))

    @widen_for("FLOOR_MOD", "MUL", "LESS")
    def _floored_quotient(self, x: Handle, y: Handle) -> Handle:
        safe = self._safe_divisor(y)
        if x.dtype == "int32":
            quotient = self.elementwise("FLOOR_DIV", [x, safe])
        else:
            remainder = self._remainder(x, safe)
            quotient = self._exact_quotient(self.sub(x, remainder), safe)
            quotient = self.where(
                self._has_opposite_signs(remainder, safe), self.sub(quotient, self.like(x, 1)), quotient
            )
        return self._divide_by_minus_one(x, y, quotient)

    @widen_for("FLOOR_MOD")
    def mod(self, x: Handle, y: Handle) -> Handle:
        return self.elementwise("FLOOR_MOD", [x, self._safe_divisor(y) if _is_integer(x) else y])

    @widen_for("FLOOR_MOD")
    def fmod(self, x: Handle, y: Handle) -> Handle:
        if _is_integer(x):
            return self._remainder(x, self._safe_divisor(y))
        size = self.elementwise("FLOOR_MOD", [self.abs(x), self.abs(y)])
        return self.where(self.less(x, self.like(x, 0)), self.neg(size), size)

    def _remainder(self, x: Handle, y: Handle) -> Handle:
        """Return the remainder with the sign of x: the floored remainder, less y where the signs differ."""
        floored = self.elementwise("FLOOR_MOD", [x, y])
        differs = self.logical_and(
            self._has_opposite_signs(x, y), self.logical_not(self.equal(floored, self.like(x, 0)))
        )
        return self.where(differs, self.sub(floored, y), floored)

    def _has_opposite_signs(self, x: Handle, y: Handle) -> Handle:
        """Return where exactly one of x and y is negative, and x is not zero. y is never zero."""
        zero = self.like(x, 0)
        opposite = self.logical_xor(self.less(x, zero), self.less(y, zero))
        return self.logical_and(opposite, self.logical_not(self.equal(x, zero)))

    def _safe_divisor(self, y: Handle) -> Handle:
        """Return y with 1 in place of 0 and -1."""
        if y.is_constant:
            divides = (y.array != 0) & (y.array != -1)
            return y if divides.all() else Handle.of(np.where(divides, y.array, 1).astype(y.dtype))
        replaced = self.equal(y, self.like(y, 0))
        if not y.dtype.startswith("uint"):
            replaced = self.logical_or(replaced, self.equal(y, self.like(y, -1)))
        return self.where(replaced, self.like(y, 1), y)

    def _divide_by_minus_one(self, x: Handle, y: Handle, quotient: Handle) -> Handle:
        """Return the quotient, with -x where y is -1."""
        if y.is_constant and not (y.array == -1).any():
            return quotient
        return self.where(self.equal(y, self.like(y, -1)), self.neg(x), quotient)

    def _exact_quotient(self, x: Handle, y: Handle) -> Handle:
        """Return x / y in int64 for a y that divides x. Each round of float32 division finds the next 22 bits."""
        total = None
        for _ in range(3):
            ratio = self.elementwise("DIV", [self.to(x, "float32"), self.to(y, "float32")])
            part = self.to(self.unary("ROUND", ratio), "int64")
            total = part if total is None else self.add(total, part)
            x = self.sub(x, self.mul(part, y))
        assert total is not None
        return total

    @widen_for("POW")
    def _power(self, x: Handle, y: Handle) -> Handle:
        return self.elementwise("POW", [x, y])

    def pow(self, x: Handle, y: Handle) -> Handle:
        exponent = y.array.reshape(-1)[0].item() if y.is_constant and y.array.size == 1 else None
        if x.rank < y.rank or exponent is None or not 0 < exponent <= 64 or exponent != int(exponent):
            return self.integer_power(x, y) if _is_integer(x) else self._power(x, y)
        return self._power_by_squaring(x, int(exponent)) if _is_integer(x) or exponent < 4 else self._power(x, y)

    def integer_power(self, x: Handle, y: Handle) -> Handle:
        """Emit the power of integers for an exponent that is not known."""
        raise NotImplementedError

    def _power_by_squaring(self, x: Handle, exponent: int) -> Handle:
        """Emit x to the power of a small known exponent, by squaring."""
        if exponent == 1:
            return x
        half = self._power_by_squaring(x, exponent // 2)
        square = self.mul(half, half)
        return self.mul(square, x) if exponent % 2 else square
