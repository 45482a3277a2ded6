"""Elementwise primitives made of others, for targets and dtypes without an operator for them.

Each function takes and returns Tensors. The floats among them are accurate to the last digits of float64.
"""

import math
from typing import Any

import numpy as np

from onnx_compat.ir import dtypes
from onnx_compat.primitives import elementwise as e
from onnx_compat.primitives.control import while_loop
from onnx_compat.primitives.indexing import take
from onnx_compat.primitives.reduction import reduce_max
from onnx_compat.reference.erf import taylor_series
from onnx_compat.tracing.values import Tensor, lift

__all__ = [
    "acos",
    "acosh",
    "asin",
    "asinh",
    "atan",
    "atan2",
    "atanh",
    "ceil",
    "cos",
    "cosh",
    "erf",
    "float_remainder",
    "floor",
    "integer_power",
    "is_negative",
    "round_half_even",
    "sigmoid",
    "sinh",
    "tan",
    "tanh",
    "unsigned_quotient",
]

_HALVINGS = 3  # of the angle, until it is below 0.1
_TERMS = 9


def cos(x: Any) -> Any:
    """Return the cosine: 1 - 2 sin(x / 2)^2."""
    sine: Any = e.sin(x * 0.5)
    return 1 - sine * sine * 2


def floor(x: Any) -> Any:
    """Return the greatest integer not above x, by a cast to int64. Numbers without a fraction stay, also infinities."""
    has_fraction = e.less(e.abs(x), 2.0 ** np.finfo(x.dtype.numpy).nmant)
    whole: Any = e.cast(e.cast(e.where(has_fraction, x, lift(0.0, x.dtype)), dtypes.int64), x.dtype)
    down: Any = e.where(e.less(x, whole), whole - 1, whole)
    return e.where(e.logical_and(has_fraction, e.not_equal(whole, x)), down, x)


def ceil(x: Any) -> Any:
    """Return the least integer not below x: the negative floor of -x."""
    return e.neg(floor(e.neg(x)))


def tan(x: Tensor) -> Any:
    """Return sin(x) / cos(x)."""
    return e.sin(x) / e.cos(x)


def atan(x: Any) -> Any:
    """Return the arctangent: the Taylor series of an eighth of the angle."""
    size: Any = e.abs(x)
    is_large = size > 1
    tangent: Any = e.where(is_large, 1 / size, size)
    for _ in range(_HALVINGS):
        tangent = tangent / (e.sqrt(tangent * tangent + 1) + 1)
    square: Any = tangent * tangent
    total: Any = lift(0.0, x.dtype)
    for k in range(_TERMS, -1, -1):
        total = total * square + (-1) ** k / (2 * k + 1)
    angle: Any = total * tangent * 2**_HALVINGS
    return _with_sign(e.where(is_large, math.pi / 2 - angle, angle), x)


def asin(x: Any) -> Any:
    """Return the arcsine: the arctangent of x / sqrt(1 - x^2)."""
    return e.atan(x / e.sqrt((1 - x) * (x + 1)))


def acos(x: Any) -> Any:
    """Return the arccosine: twice the arctangent of sqrt((1 - x) / (1 + x))."""
    return e.atan(e.sqrt((1 - x) / (x + 1))) * 2


def sinh(x: Any) -> Any:
    """Return the hyperbolic sine: by exponentials of x / 2, so that it overflows late; by a series near 0."""
    up, down = e.exp(x * 0.5), e.exp(x * -0.5)  # type: Any, Any
    square: Any = x * x
    series = x * (1 + square / 6 * (1 + square / 20 * (1 + square / 42)))
    return e.where(e.less(e.abs(x), 0.1), series, up * 0.5 * up - down * 0.5 * down)


def cosh(x: Any) -> Any:
    """Return the hyperbolic cosine: by exponentials of x / 2, so that it overflows late."""
    up, down = e.exp(x * 0.5), e.exp(x * -0.5)  # type: Any, Any
    return up * 0.5 * up + down * 0.5 * down


def tanh(x: Any) -> Any:
    """Return the hyperbolic tangent: 2 sigmoid(2 x) - 1."""
    return e.sigmoid(x * 2) * 2 - 1


def asinh(x: Any) -> Any:
    """Return the inverse hyperbolic sine: by a logarithm, and by a series near 0."""
    size: Any = e.abs(x)
    is_large = size > 2.0**26
    bounded: Any = e.where(is_large, lift(1.0, x.dtype), size)
    near: Any = e.log(bounded + e.sqrt(bounded * bounded + 1))
    square: Any = bounded * bounded
    series = bounded * (1 - square / 6 * (1 - square * 9 / 20 * (1 - square * 25 / 42)))
    near = e.where(bounded < 0.01, series, near)
    return _with_sign(e.where(is_large, e.log(size) + math.log(2), near), x)


def acosh(x: Any) -> Any:
    """Return the inverse hyperbolic cosine: a logarithm, and NaN below 1."""
    is_large = x > 2.0**26
    bounded: Any = e.where(is_large, lift(2.0, x.dtype), x)
    near: Any = e.log(bounded + e.sqrt((bounded - 1) * (bounded + 1)))
    return e.where(is_large, e.log(x) + math.log(2), e.where(e.less(x, 1), lift(np.nan, x.dtype), near))


def atanh(x: Any) -> Any:
    """Return the inverse hyperbolic tangent: half the logarithm of (1 + x) / (1 - x), and a series near 0."""
    square: Any = x * x
    series = x * (1 + square / 3 * (1 + square * 3 / 5 * (1 + square * 5 / 7)))
    return e.where(e.less(e.abs(x), 0.01), series, e.log((x + 1) / (1 - x)) * 0.5)


def erf(x: Any) -> Any:
    """Return the error function, by the Taylor series of the reference around the nearest point of a grid."""
    steps, end, series = taylor_series(x.dtype.numpy)
    size: Any = e.minimum(e.where(e.is_nan(x), lift(0.0, x.dtype), e.abs(x)), float(end))
    point: Any = e.round(size * steps)
    offset: Any = size - point / steps
    index = e.cast(point, dtypes.int32)
    total: Any = take(lift(series[-1]), index, 0)
    for coefficients in series[-2::-1]:
        total = total * offset + take(lift(coefficients), index, 0)
    return e.where(e.is_nan(x), x, _with_sign(total, x))


def sigmoid(x: Any) -> Any:
    """Return 1 / (1 + e^-x)."""
    return 1 / (e.exp(e.neg(x)) + 1)


def round_half_even(x: Any) -> Any:
    """Return the nearest integer, by floor. A zero keeps the sign of x, and numbers without a fraction stay."""
    down: Any = e.floor(x)
    fraction: Any = x - down
    is_odd = e.not_equal(e.floor(down * 0.5) * 2, down)
    is_up = e.logical_or(fraction > 0.5, e.logical_and(e.equal(fraction, 0.5), is_odd))
    near: Any = e.where(is_up, down + 1, down)
    zero: Any = e.where(is_negative(x), lift(-0.0, x.dtype), 0.0)
    return e.where(e.equal(x, down), x, e.where(e.is_nan(fraction), x, e.where(e.equal(near, 0), zero, near)))


def is_negative(x: Any) -> Tensor:
    """Return whether the sign of each float is negative, also that of a zero. NaN gives False."""
    return e.logical_or(x < 0, e.logical_and(e.equal(x, 0), e.less(lift(1.0, x.dtype) / x, 0)))


def _with_sign(size: Any, x: Any) -> Tensor:
    return e.where(is_negative(x), e.neg(size), size)


def atan2(y: Any, x: Any) -> Tensor:
    """Return the angle of the point (x, y) in radians.

    The signs of zeros count. Two infinities give the angle of a diagonal.
    """
    height, width = e.abs(y), e.abs(x)  # type: Any, Any
    large, small = e.maximum(height, width), e.minimum(height, width)  # type: Any, Any
    unit, zero = lift(1.0, x.dtype), lift(0.0, x.dtype)
    ratio: Any = e.where(e.equal(large, 0), zero, e.where(e.is_inf(small), unit, small / large))
    angle: Any = e.atan(ratio)
    angle = e.where(e.less(width, height), math.pi / 2 - angle, angle)
    angle = e.where(is_negative(x), math.pi - angle, angle)
    return _with_sign(angle, y)


def integer_power(x: Any, y: Any) -> Any:
    """Return x^y of integers by repeated squaring. A power that is too large wraps.

    A negative y gives 1 / x^-y without its fraction, and 0 for x = 0.
    """
    unit, zero = lift(1, x.dtype), lift(0, x.dtype)
    if y.known and y.value.size == 1 and 0 <= int(y.value.reshape(())) <= 4:
        return _small_power(x, int(y.value.reshape(())), y)
    exponent: Any = y if y.dtype.kind == "u" else e.maximum(y, 0)
    base: Any = x + exponent * 0
    exponent = exponent + x * 0
    start = e.where(e.equal(base, base), unit, unit)

    def has_bits(_: Tensor, __: Tensor, rest: Tensor) -> Tensor:
        return reduce_max(e.less(lift(0, rest.dtype), rest))

    def square(total: Any, factor: Any, rest: Any) -> Any:
        half: Any = rest / 2
        is_odd = e.equal(rest - half * 2, 1)
        return e.where(is_odd, total * factor, total), factor * factor, half

    power = while_loop(has_bits, square, [start, base, exponent])[0]
    if y.dtype.kind == "u":
        return power
    half: Any = y / 2
    odd = e.where(e.equal(half * 2, y), unit, x)
    is_unit = e.logical_or(e.equal(x, 1), e.equal(x, -1))
    return e.where(y < 0, e.where(is_unit, odd, zero), power)


def _small_power(x: Any, exponent: int, y: Any) -> Any:
    total: Any = e.where(e.equal(y, y), lift(1, x.dtype), 1) + x * 0
    for _ in range(exponent):
        total = total * x
    return total


def unsigned_quotient(x: Any, y: Any) -> Tensor:
    """Return the quotient of uint64, for targets that divide int64 only. A divisor of 0 gives any number."""
    int64 = dtypes.int64
    signed, divisor = e.cast(x, int64), e.cast(y, int64)  # type: Any, Any
    half: Any = e.floordiv(signed, 2)
    half = e.where(signed < 0, half + lift(-(2**63), int64), half)  # the logical shift by one bit
    safe: Any = e.where(divisor > 0, divisor, 1)
    near: Any = half / safe * 2
    rest: Any = signed - near * safe
    is_more = e.less_equal(safe + lift(-(2**63), int64), rest + lift(-(2**63), int64))
    small: Any = near + e.cast(is_more, int64)
    least = lift(-(2**63), int64)
    is_reached = e.less_equal(divisor + least, signed + least)
    return e.cast(e.where(divisor < 0, e.cast(is_reached, int64), small), dtypes.uint64)


def float_remainder(x: Any, y: Any) -> Any:
    """Return the exact remainder of x / y for floats, with the sign of x, by long division.

    The rest begins as |x|. For each n, |y| * 2^n is subtracted from each rest that is not below it. The numbers n go
    from the largest exponent of the dtype down to 0. No difference is rounded.
    """
    is_any = e.equal(x, y)  # has the broadcast shape; 0 * inf would be NaN
    size: Any = e.where(is_any, e.abs(x), e.abs(x))
    divisor: Any = e.where(is_any, e.abs(y), e.abs(y))
    largest = math.frexp(float(x.dtype.max))[1] - 1
    powers = lift(np.asarray([2.0**n for n in range(largest, -1, -1)], x.dtype.numpy))

    def has_rounds(k: Tensor, _: Tensor) -> Tensor:
        return e.less(k, powers.shape[0])

    def subtract(k: Any, rest: Any) -> Any:
        multiple: Any = divisor * take(powers, k, 0)
        return k + 1, e.where(e.less_equal(multiple, rest), rest - multiple, rest)

    rest = while_loop(has_rounds, subtract, [lift(0, dtypes.int64), size])[1]
    rest = e.where(e.is_inf(divisor), size, rest)
    is_invalid = e.logical_or(e.is_inf(size), e.logical_or(e.equal(divisor, 0), e.is_nan(divisor)))
    return e.where(is_invalid, lift(np.nan, x.dtype), _with_sign(rest, x))
