"""Emitter methods for the elementwise primitives, by functions of the namespace `xp` (JAX or torch)."""

import math
from typing import Any, Callable, Optional

import numpy as np

from onnx_compat.shim import DType
from onnx_compat_keras.framework_types import Array

__all__ = ["Elementwise", "clip_bound"]


def _namespace_function(name: str) -> Any:
    """Return an emitter method that calls the function `xp.<name>` on its operands."""

    def call_function(self: Any, *operands: Array) -> Array:
        return getattr(self.xp, name)(*operands)

    call_function.__name__ = name
    return call_function


def clip_bound(value: float, dtype: DType) -> Callable[[Callable[[float], float]], Any]:
    """Return a function that converts a bound of `clip` to a scalar array of the dtype: `clip_bound(low, dtype)(math.ceil)`.

    Its argument rounds the bound for an integer dtype, after the bound is clamped to the dtype's range. For a float dtype,
    the rounding is not used.
    """

    def bound(rounding: Callable[[float], float]) -> np.ndarray:
        if dtype.kind == "f":
            return np.asarray(value).astype(dtype.numpy)
        clamped = min(max(value, dtype.min), dtype.max)
        return np.asarray(int(rounding(clamped)), dtype.numpy)

    return bound


class Elementwise:
    """Emitter methods for the primitives of `onnx_compat.primitives.elementwise`."""

    xp: Any
    out: Any
    array: Any
    like: Any

    neg = _namespace_function("negative")
    exp = _namespace_function("exp")
    log = _namespace_function("log")
    sqrt = _namespace_function("sqrt")
    sin = _namespace_function("sin")
    cos = _namespace_function("cos")
    tan = _namespace_function("tan")
    asin = _namespace_function("arcsin")
    acos = _namespace_function("arccos")
    atan = _namespace_function("arctan")
    sinh = _namespace_function("sinh")
    cosh = _namespace_function("cosh")
    tanh = _namespace_function("tanh")
    asinh = _namespace_function("arcsinh")
    acosh = _namespace_function("arccosh")
    atanh = _namespace_function("arctanh")
    erf = _namespace_function("erf")
    sigmoid = _namespace_function("sigmoid")
    floor = _namespace_function("floor")
    ceil = _namespace_function("ceil")
    round = _namespace_function("round")
    is_nan = _namespace_function("isnan")
    is_inf = _namespace_function("isinf")
    logical_not = _namespace_function("logical_not")
    bitwise_not = _namespace_function("bitwise_not")

    add = _namespace_function("add")
    sub = _namespace_function("subtract")
    mul = _namespace_function("multiply")
    atan2 = _namespace_function("arctan2")
    maximum = _namespace_function("maximum")
    minimum = _namespace_function("minimum")
    equal = _namespace_function("equal")
    less = _namespace_function("less")
    less_equal = _namespace_function("less_equal")
    logical_and = _namespace_function("logical_and")
    logical_or = _namespace_function("logical_or")
    logical_xor = _namespace_function("logical_xor")
    bitwise_and = _namespace_function("bitwise_and")
    bitwise_or = _namespace_function("bitwise_or")
    bitwise_xor = _namespace_function("bitwise_xor")
    where = _namespace_function("where")

    # -- integer division: frameworks do not define it for a divisor 0, or for the least integer / -1 -----------------
    def is_integral(self, x: Array) -> bool:
        raise NotImplementedError

    def is_signed(self, x: Array) -> bool:
        raise NotImplementedError

    def _divisor(self, y: Array) -> Array:
        """Return the divisors with 0 replaced by 1; for signed integers, -1 too: the least integer / -1 overflows."""
        unfit = self.xp.equal(y, self.like(0, y))
        if self.is_signed(y):
            unfit = self.xp.logical_or(unfit, self.xp.equal(y, self.like(-1, y)))
        return self.xp.where(unfit, self.like(1, y), y)

    def _quotient(self, x: Array, y: Array, divide: Callable[[Array, Array], Array]) -> Array:
        whole = divide(x, self._divisor(y))
        if not self.is_signed(y):
            return whole
        return self.xp.where(self.xp.equal(y, self.like(-1, y)), self.xp.negative(x), whole)

    def div(self, x: Array, y: Array) -> Array:
        return self._quotient(x, y, self.xp.trunc_divide) if self.is_integral(x) else self.xp.true_divide(x, y)

    def floordiv(self, x: Array, y: Array) -> Array:
        if self.is_integral(x):
            return self._quotient(x, y, self.xp.floor_divide)
        return self.xp.floor(self.xp.true_divide(x, y))

    def mod(self, x: Array, y: Array) -> Array:
        return self.xp.remainder(x, self._divisor(y) if self.is_integral(y) else y)

    def fmod(self, x: Array, y: Array) -> Array:
        return self.xp.fmod(x, self._divisor(y) if self.is_integral(y) else y)

    def pow(self, x: Array, y: Array) -> Array:
        if not self.is_integral(x) or not self.is_signed(y):
            return self.xp.power(x, y)
        xp, zero, unit = self.xp, self.like(0, x), self.like(1, x)
        whole = xp.power(x, xp.maximum(y, zero))
        # 1 / x^n is an integer for x = 1 and x = -1 only; it truncates to 0 for every other x.
        has_inverse = xp.logical_or(xp.equal(x, unit), xp.equal(x, self.like(-1, x)))
        inverse = xp.where(xp.equal(xp.bitwise_and(y, unit), unit), x, unit)
        return xp.where(xp.less(y, zero), xp.where(has_inverse, inverse, zero), whole)

    def _shift(self, shift: Callable[[Array, Array], Array], x: Array, y: Array) -> Array:
        last = self.like(self.out.dtype.bits - 1, y)
        return self.xp.where(self.xp.less(last, y), self.like(0, x), shift(x, self.xp.minimum(y, last)))

    def shift_left(self, x: Array, y: Array) -> Array:
        return self._shift(self.xp.left_shift, x, y)

    def shift_right(self, x: Array, y: Array) -> Array:
        return self._shift(self.xp.right_shift, x, y)

    # -- primitives that need more than a function of the namespace ---------------------------------------------------
    def abs(self, x: Array) -> Array:
        return self.xp.astype(self.xp.abs(x), x.dtype)

    def sign(self, x: Array) -> Array:
        return self.xp.sign(x)

    def clip(self, x: Array, low: Optional[float] = None, high: Optional[float] = None) -> Array:
        dtype = self.out.dtype
        if low is not None:
            x = self.maximum(x, self.array(clip_bound(low, dtype)(math.ceil), dtype))
        return x if high is None else self.minimum(x, self.array(clip_bound(high, dtype)(math.floor), dtype))
