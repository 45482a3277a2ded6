"""Emitter methods for the elementwise primitives, by functions of the namespace `xp` (JAX or torch)."""

import math
from typing import Any, Callable, Optional

import numpy as np

from onnx_compat.shim import DType
from onnx_compat_keras.framework_types import Array
from onnx_compat_keras.pointwise import Pointwise, namespace_function

__all__ = ["Elementwise", "clip_bound"]


def clip_bound(value: float, dtype: DType) -> Callable[[Callable[[float], float]], Any]:
    """Return a function: rounding (`math.ceil` or `math.floor`) -> the bound `value` of `clip` as a numpy array.

    The array has rank 0 and the numpy dtype of `dtype`. Example: `clip_bound(1.5, int32)(math.ceil)` is array(2).

    For an integer dtype, the bound is clamped to the range of the dtype, and then rounded. For a float dtype, the bound
    is not rounded.
    """

    def bound(rounding: Callable[[float], float]) -> np.ndarray:
        if dtype.kind == "f":
            return np.asarray(value).astype(dtype.numpy)
        clamped = min(max(value, dtype.min), dtype.max)
        return np.asarray(int(rounding(clamped)), dtype.numpy)

    return bound


class Elementwise(Pointwise):
    """Emitter methods for the primitives of `onnx_compat.primitives.elementwise`."""

    xp: Any
    out: Any
    array: Any
    like: Any

    def call_namespace(self, name: str, *operands: Array) -> Array:
        return getattr(self.xp, name)(*operands)

    neg = namespace_function("negative")
    tanh = namespace_function("tanh")
    erf = namespace_function("erf")
    sigmoid = namespace_function("sigmoid")

    add = namespace_function("add")
    sub = namespace_function("subtract")
    mul = namespace_function("multiply")
    maximum = namespace_function("maximum")
    minimum = namespace_function("minimum")
    where = namespace_function("where")

    # -- integer division: frameworks do not define it for a divisor 0, or for the least integer / -1 -----------------
    def is_integral(self, x: Array) -> bool:
        """Whether x has an integer dtype. Returns False for bool."""
        raise NotImplementedError

    def is_signed(self, x: Array) -> bool:
        """Whether x, which must have an integer dtype, has a signed dtype."""
        raise NotImplementedError

    def _divisor(self, y: Array) -> Array:
        """Return the divisors y with 0 replaced by 1.

        For signed integers, -1 is replaced by 1 as well, because the least integer / -1 overflows.
        """
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
