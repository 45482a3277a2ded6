"""Elementwise primitives: numpy's ufuncs, and functions where a primitive differs from the ufunc."""

from typing import Any, Callable, Optional

import numpy as np

from onnx_compat.ir import dims
from onnx_compat.ir.dims import Extent, Undecided, is_nonnegative, is_static
from onnx_compat.ir.dtypes import DType
from onnx_compat.reference.arrays import Array
from onnx_compat.reference.erf import erf
from onnx_compat.reference.quiet import quiet, widen

__all__ = ["Elementwise"]


def _ufunc(function: Callable[..., Any]) -> Any:
    """Return a ufunc, or a function of arrays, as a static method without floating-point warnings."""
    return staticmethod(quiet(function))


def _with_sizes(numbers: Callable[[Any, Any], Any], sizes: Callable[[Any, Any], Any]) -> Any:
    """Return a static method of two operands, without numpy's floating-point warnings.

    If an operand is an object array of ints and symbolic sizes, the method calls `sizes` for each pair of elements.
    Else the method calls `numbers` for the arrays.
    """
    symbolic = np.frompyfunc(sizes, 2, 1)

    def apply_numbers_or_sizes(x: Array, y: Array) -> Any:
        return symbolic(x, y) if object in (x.dtype, y.dtype) else numbers(x, y)

    return staticmethod(quiet(apply_numbers_or_sizes))


# -- integer division ------------------------------------------------------------------------------------------------
def _divisor(x: Array, y: Array) -> Any:
    """Return y with each 0 replaced by 1. If x is signed, each -1 is replaced by 1 too.

    An integer division by the result cannot fail or overflow. `_quotient` corrects the quotients by -1; any quotient by
    0 is allowed.
    """
    unit = np.ones((), y.dtype)
    is_replaced = y == 0 if x.dtype.kind == "u" else (y == 0) | (y == -1)
    return np.where(is_replaced, unit, y)


def _quotient(x: Array, y: Array, rounded_down: bool) -> Any:
    """Return the integer quotient x / y, rounded down if `rounded_down`, else towards zero; x for a divisor of 0.

    The least signed integer divided by -1 wraps to itself.
    """
    safe = _divisor(x, y)
    quotient = np.floor_divide(x, safe)
    if x.dtype.kind == "u":
        return quotient
    if not rounded_down:
        quotient = quotient + ((x - quotient * safe != 0) & ((x < 0) != (safe < 0))).astype(x.dtype)
    return np.where(y == -1, np.negative(x), quotient)


def _div(x: Array, y: Array) -> Any:
    return _quotient(x, y, False) if x.dtype.kind in "iu" else np.true_divide(x, y)


def _floordiv(x: Array, y: Array) -> Any:
    return _quotient(x, y, True) if x.dtype.kind in "iu" else np.floor(np.true_divide(x, y))


def _mod(x: Array, y: Array) -> Any:
    return np.mod(x, _divisor(x, y) if x.dtype.kind in "iu" else y)


def _fmod(x: Array, y: Array) -> Any:
    return np.fmod(x, _divisor(x, y) if x.dtype.kind in "iu" else y)


def _div_sizes(a: Extent, b: Extent) -> Extent:
    if is_static(b) and b == 0:
        raise Undecided("division by zero")
    if is_static(a) and is_static(b):
        return abs(a) // abs(b) * (1 if (a < 0) == (b < 0) else -1)
    if is_nonnegative(a) and is_nonnegative(b):
        return dims.floordiv(a, b)
    if is_static(b) and b > 0:
        return dims.truncdiv(a, b)
    raise Undecided("truncated division of a size by one that may be negative")


def _floordiv_sizes(a: Extent, b: Extent) -> Extent:
    if is_static(b) and b == 0:
        raise Undecided("division by zero")
    return dims.floordiv(a, b)


def _mod_sizes(a: Extent, b: Extent) -> Extent:
    if is_static(b) and b == 0:
        raise Undecided("division by zero")
    return a % b


# -- powers, shifts and bounds ---------------------------------------------------------------------------------------
def _pow(x: Array, y: Array) -> Any:
    if x.dtype.kind != "i":
        return np.power(x, y)
    whole = np.power(x, np.maximum(y, 0, dtype=y.dtype), dtype=x.dtype)  # numpy 1 returns int64 for two scalars
    if np.all(y >= 0):
        return whole
    odd = np.where(y & 1, x, np.ones((), x.dtype))  # 1 / x^n is 1 or -1 for x = 1 and x = -1, else a fraction below 1
    return np.where(y >= 0, whole, np.where((x == 1) | (x == -1), odd, np.zeros((), x.dtype)))


def _shift(shift: Callable[..., Any]) -> Any:
    def shift_within_width(x: Array, y: Array) -> Any:
        bits = 8 * x.dtype.itemsize
        last = np.asarray(bits - 1, y.dtype)
        return np.where(y > last, np.zeros((), x.dtype), shift(x, np.minimum(y, last)))

    return staticmethod(shift_within_width)


def _bound_in_range(value: float, x: Array, rounding: Callable[[float], float]) -> Any:
    """Return a bound of a clip as a scalar of the dtype of x.

    For an integer dtype, the bound is clamped to the range of the dtype, then rounded by `rounding` (ceil or floor).
    """
    if x.dtype.kind == "f":
        return np.asarray(value).astype(x.dtype)
    info = np.iinfo(x.dtype)
    value = min(max(value, int(info.min)), int(info.max))
    return np.asarray(int(rounding(value)), x.dtype)


def _sigmoid(x: Array) -> Any:
    wide = np.asarray(np.exp(np.negative(widen(x))))
    wide += np.ones((), wide.dtype)
    return np.reciprocal(wide).astype(x.dtype, copy=False)


class Elementwise:
    """The primitives of `onnx_compat.primitives.elementwise` in numpy."""

    neg = _ufunc(np.negative)
    abs = _ufunc(lambda x: np.abs(x).astype(x.dtype, copy=False))
    sign = _ufunc(np.sign)
    exp = _ufunc(np.exp)
    log = _ufunc(np.log)
    sqrt = _ufunc(np.sqrt)
    sin = _ufunc(np.sin)
    cos = _ufunc(np.cos)
    tan = _ufunc(np.tan)
    asin = _ufunc(np.arcsin)
    acos = _ufunc(np.arccos)
    atan = _ufunc(np.arctan)
    sinh = _ufunc(np.sinh)
    cosh = _ufunc(np.cosh)
    tanh = _ufunc(np.tanh)
    asinh = _ufunc(np.arcsinh)
    acosh = _ufunc(np.arccosh)
    atanh = _ufunc(np.arctanh)
    erf = staticmethod(quiet(erf))
    sigmoid = _ufunc(_sigmoid)
    floor = _ufunc(np.floor)
    ceil = _ufunc(np.ceil)
    round = _ufunc(np.rint)
    is_nan = _ufunc(np.isnan)
    is_inf = _ufunc(np.isinf)
    logical_not = _ufunc(np.logical_not)
    bitwise_not = _ufunc(np.invert)

    add = _ufunc(np.add)
    sub = _ufunc(np.subtract)
    mul = _ufunc(np.multiply)
    div = _with_sizes(_div, _div_sizes)
    floordiv = _with_sizes(_floordiv, _floordiv_sizes)
    mod = _with_sizes(_mod, _mod_sizes)
    fmod = _ufunc(_fmod)
    pow = _ufunc(_pow)
    atan2 = _ufunc(np.arctan2)
    maximum = _with_sizes(np.maximum, dims.maximum)
    minimum = _with_sizes(np.minimum, dims.minimum)
    equal = _ufunc(np.equal)
    less = _ufunc(np.less)
    less_equal = _ufunc(np.less_equal)
    logical_and = _ufunc(np.logical_and)
    logical_or = _ufunc(np.logical_or)
    logical_xor = _ufunc(np.logical_xor)
    bitwise_and = _ufunc(np.bitwise_and)
    bitwise_or = _ufunc(np.bitwise_or)
    bitwise_xor = _ufunc(np.bitwise_xor)
    shift_left = _shift(np.left_shift)
    shift_right = _shift(np.right_shift)

    def where(self, condition: Array, x: Array, y: Array) -> Any:
        return np.where(condition, x, y)

    @quiet
    def cast(self, x: Array, dtype: DType) -> Any:
        if x.dtype == object:  # sizes
            if dtype.name not in ("int32", "int64"):
                raise TypeError("a symbolic size is an integer")
            return x
        if dtype.kind == "b":
            return x != np.zeros((), x.dtype)
        if x.dtype.kind == "c" and dtype.kind != "c":
            x = x.real
        return dtype.round(x, saturate=False)

    @quiet
    def clip(self, x: Array, low: Optional[float] = None, high: Optional[float] = None) -> Any:
        if low is not None:
            x = np.maximum(x, _bound_in_range(low, x, np.ceil))
        return x if high is None else np.minimum(x, _bound_in_range(high, x, np.floor))
