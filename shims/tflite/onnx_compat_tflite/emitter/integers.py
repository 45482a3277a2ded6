"""Quotients, remainders and powers. Integers are divided exactly, and never by what would end the process."""


import numpy as np

from onnx_compat.errors import UnsupportedError
from onnx_compat_tflite.emitter.base import through
from onnx_compat_tflite.emitter.elementwise import Elementwise
from onnx_compat_tflite.graph import Handle

__all__ = ["Integers"]


def _integer(x: Handle) -> bool:
    return np.dtype(x.dtype).kind in "iu"


class Integers(Elementwise):
    """Division by zero is left open, but has to give some number; the least integer divided by -1 overflows."""

    def div(self, x: Handle, y: Handle) -> Handle:
        return self._truncated(x, y) if _integer(x) else self._true_quotient(x, y)

    @through("DIV")
    def _true_quotient(self, x: Handle, y: Handle) -> Handle:
        return self.elementwise("DIV", [x, y])

    @through("FLOOR_MOD", "MUL", "LESS")
    def _truncated(self, x: Handle, y: Handle) -> Handle:
        safe = self._divisor(y)
        if x.dtype == "int32":
            whole = self.elementwise("DIV", [x, safe])
        else:
            whole = self._exact_quotient(self.sub(x, self._remainder(x, safe)), safe)
        return self._by_minus_one(x, y, whole)

    def floordiv(self, x: Handle, y: Handle) -> Handle:
        return self._floored(x, y) if _integer(x) else self.floor(self.div(x, y))

    @through("FLOOR_MOD", "MUL", "LESS")
    def _floored(self, x: Handle, y: Handle) -> Handle:
        safe = self._divisor(y)
        if x.dtype == "int32":
            whole = self.elementwise("FLOOR_DIV", [x, safe])
        else:
            whole = self._exact_quotient(self.sub(x, self.elementwise("FLOOR_MOD", [x, safe])), safe)
        return self._by_minus_one(x, y, whole)

    @through("FLOOR_MOD")
    def mod(self, x: Handle, y: Handle) -> Handle:
        return self.elementwise("FLOOR_MOD", [x, self._divisor(y) if _integer(x) else y])

    @through("FLOOR_MOD")
    def fmod(self, x: Handle, y: Handle) -> Handle:
        if _integer(x):
            return self._remainder(x, self._divisor(y))
        size = self.elementwise("FLOOR_MOD", [self.abs(x), self.abs(y)])
        return self.where(self.less(x, self.like(x, 0)), self.neg(size), size)

    def _remainder(self, x: Handle, y: Handle) -> Handle:
        """With the sign of x: the floored remainder, less y where the signs differ."""
        zero = self.like(x, 0)
        floored = self.elementwise("FLOOR_MOD", [x, y])
        differ = self.logical_xor(self.less(x, zero), self.less(y, zero))
        apart = self.logical_and(differ, self.logical_not(self.equal(floored, zero)))
        return self.where(apart, self.sub(floored, y), floored)

    def _divisor(self, y: Handle) -> Handle:
        """y, or 1 in its place where it is 0 or -1."""
        if y.constant:
            return y if not np.isin(y.array, (0, -1)).any() else Handle.of(
                np.where((y.array == 0) | (y.array == -1), 1, y.array).astype(y.dtype)
            )
        unfit = self.equal(y, self.like(y, 0))
        if not y.dtype.startswith("uint"):
            unfit = self.logical_or(unfit, self.equal(y, self.like(y, -1)))
        return self.where(unfit, self.like(y, 1), y)

    def _by_minus_one(self, x: Handle, y: Handle, quotient: Handle) -> Handle:
        if y.constant and not (y.array == -1).any():
            return quotient
        return self.where(self.equal(y, self.like(y, -1)), self.neg(x), quotient)

    def _exact_quotient(self, x: Handle, y: Handle) -> Handle:
        """x / y for int64 where y divides x. Each round of float32 division finds the next 22 bits of the quotient."""
        total = None
        for _ in range(3):
            ratio = self.elementwise("DIV", [self.to(x, "float32"), self.to(y, "float32")])
            part = self.to(self.unary("ROUND", ratio), "int64")
            total = part if total is None else self.add(total, part)
            x = self.sub(x, self.mul(part, y))
        assert total is not None
        return total

    # -- powers ----------------------------------------------------------------------------------------------------------
    def pow(self, x: Handle, y: Handle) -> Handle:
        exponent = y.array.reshape(-1)[0].item() if y.constant and y.array.size == 1 else None
        if exponent in (2, 3) and x.rank >= y.rank:
            return self._repeated(x, int(exponent))
        if _integer(x) and x.dtype not in ("uint8", "int8", "uint16", "int16", "int32"):
            if exponent is None or not 0 <= exponent <= 64:
                raise UnsupportedError("no TFLite kernel takes powers of %s" % x.dtype)
            return self._repeated(x, int(exponent))
        return self._power(x, y)

    def _repeated(self, x: Handle, exponent: int) -> Handle:
        """x to a small known power, by squaring."""
        if exponent == 0:
            return self.add(self.mul(x, self.like(x, 0)), self.like(x, 1))
        half = x if exponent < 2 else self._repeated(x, exponent // 2)
        whole = x if exponent < 2 else self.mul(half, half)
        return self.mul(whole, x) if exponent > 1 and exponent % 2 else whole

    @through("POW")
    def _power(self, x: Handle, y: Handle) -> Handle:
        if not _integer(x):
            return self.elementwise("POW", [x, y])
        zero, one = self.like(x, 0), self.like(x, 1)
        whole = self.elementwise("POW", [x, self.elementwise("MAXIMUM", [zero, y])])
        if y.constant and (y.array >= 0).all():
            return whole
        # 1 / x^n is 1 or -1 for these two, and less than one for all others.
        odd = self.where(self.equal(self.mod(y, self.like(y, 2)), zero), one, x)
        unit = self.equal(self.abs(x), one)
        return self.where(self.less(y, zero), self.where(unit, odd, zero), whole)


