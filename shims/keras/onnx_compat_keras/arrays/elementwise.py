"""Element by element."""

import math
from typing import Any, Callable

import numpy as np

from onnx_compat.shim import DType

__all__ = ["Elementwise", "within"]


def _same(name: str) -> Any:
    """A function of the namespace that already means what the primitive does."""

    def applied(self: Any, *operands: Any) -> Any:
        return getattr(self.xp, name)(*operands)

    applied.__name__ = name
    return applied


def within(value: Any, dtype: DType) -> Callable[[Callable[[float], float]], Any]:
    """A bound in carried values of the dtype: for an integer, the nearest one inside that the dtype has."""

    def bound(rounding: Callable[[float], float]) -> np.ndarray:
        if dtype.kind == "f":
            return np.asarray(value).astype(dtype.numpy)
        held = min(max(value, dtype.min), dtype.max)
        return np.asarray(int(rounding(held)), dtype.numpy)

    return bound


class Elementwise:
    """The primitives of `onnx_compat.primitives.elementwise`."""

    xp: Any
    out: Any
    array: Any
    like: Any

    neg = _same("negative")
    exp = _same("exp")
    log = _same("log")
    sqrt = _same("sqrt")
    sin = _same("sin")
    cos = _same("cos")
    tan = _same("tan")
    asin = _same("arcsin")
    acos = _same("arccos")
    atan = _same("arctan")
    sinh = _same("sinh")
    cosh = _same("cosh")
    tanh = _same("tanh")
    asinh = _same("arcsinh")
    acosh = _same("arccosh")
    atanh = _same("arctanh")
    erf = _same("erf")
    sigmoid = _same("sigmoid")
    floor = _same("floor")
    ceil = _same("ceil")
    round = _same("round")
    is_nan = _same("isnan")
    is_inf = _same("isinf")
    logical_not = _same("logical_not")
    bitwise_not = _same("bitwise_not")

    add = _same("add")
    sub = _same("subtract")
    mul = _same("multiply")
    atan2 = _same("arctan2")
    maximum = _same("maximum")
    minimum = _same("minimum")
    equal = _same("equal")
    less = _same("less")
    less_equal = _same("less_equal")
    logical_and = _same("logical_and")
    logical_or = _same("logical_or")
    logical_xor = _same("logical_xor")
    bitwise_and = _same("bitwise_and")
    bitwise_or = _same("bitwise_or")
    bitwise_xor = _same("bitwise_xor")
    where = _same("where")

    # -- integers, for which division is left open in places ---------------------------------------------------------
    def integral(self, x: Any) -> bool:
        raise NotImplementedError

    def signed(self, x: Any) -> bool:
        raise NotImplementedError

    def _divisor(self, y: Any) -> Any:
        """y where anything can be divided by it, else one: zero, and -1, by which the least integer overflows."""
        unfit = self.xp.equal(y, self.like(0, y))
        if self.signed(y):
            unfit = self.xp.logical_or(unfit, self.xp.equal(y, self.like(-1, y)))
        return self.xp.where(unfit, self.like(1, y), y)

    def _quotient(self, x: Any, y: Any, divide: Any) -> Any:
        whole = divide(x, self._divisor(y))
        if not self.signed(y):
            return whole
        return self.xp.where(self.xp.equal(y, self.like(-1, y)), self.xp.negative(x), whole)

    def div(self, x: Any, y: Any) -> Any:
        return self._quotient(x, y, self.xp.trunc_divide) if self.integral(x) else self.xp.true_divide(x, y)

    def floordiv(self, x: Any, y: Any) -> Any:
        if self.integral(x):
            return self._quotient(x, y, self.xp.floor_divide)
        return self.xp.floor(self.xp.true_divide(x, y))

    def mod(self, x: Any, y: Any) -> Any:
        return self.xp.remainder(x, self._divisor(y) if self.integral(y) else y)

    def fmod(self, x: Any, y: Any) -> Any:
        return self.xp.fmod(x, self._divisor(y) if self.integral(y) else y)

    def pow(self, x: Any, y: Any) -> Any:
        if not self.integral(x) or not self.signed(y):
            return self.xp.power(x, y)
        xp, zero, one = self.xp, self.like(0, x), self.like(1, x)
        whole = xp.power(x, xp.maximum(y, zero))
        # 1 / x^n is 1 or -1 for these two, and less than one for all others.
        unit = xp.logical_or(xp.equal(x, one), xp.equal(x, self.like(-1, x)))
        odd = xp.where(xp.equal(xp.bitwise_and(y, one), one), x, one)
        return xp.where(xp.less(y, zero), xp.where(unit, odd, zero), whole)

    def _shifted(self, shift: Any, x: Any, y: Any) -> Any:
        last = self.like(self.out.dtype.bits - 1, y)
        return self.xp.where(self.xp.less(last, y), self.like(0, x), shift(x, self.xp.minimum(y, last)))

    def shift_left(self, x: Any, y: Any) -> Any:
        return self._shifted(self.xp.left_shift, x, y)

    def shift_right(self, x: Any, y: Any) -> Any:
        return self._shifted(self.xp.right_shift, x, y)

    # -- the others ------------------------------------------------------------------------------------------------
    def abs(self, x: Any) -> Any:
        return self.xp.astype(self.xp.abs(x), x.dtype)

    def sign(self, x: Any) -> Any:
        return self.xp.sign(x)

    def clip(self, x: Any, low: Any = None, high: Any = None) -> Any:
        dtype = self.out.dtype
        if low is not None:
            x = self.maximum(x, self.array(within(low, dtype)(math.ceil), dtype))
        return x if high is None else self.minimum(x, self.array(within(high, dtype)(math.floor), dtype))
