"""Round results on a carrier to values of the carried type: the same as `DType.round`, but made of primitives.

Arithmetic on a carried type is done in its carrier. `Emitter.finish` emits this rounding after each primitive, for
every shim. Every step is exact, so the result is the same in every framework.
"""

import functools
from typing import Any

import numpy as np

from onnx_compat.ir import Region, Spec
from onnx_compat.ir.dtypes import DType, float32, float64, int32
from onnx_compat.ir.minifloat import Format
from onnx_compat.primitives import elementwise as e
from onnx_compat.primitives.bits import bitcast
from onnx_compat.tracing.trace import Trace
from onnx_compat.tracing.values import Tensor, TensorLike, lift

__all__ = ["MOVES", "narrow", "power_of_two", "to_odd", "to_values"]

#: Primitives whose results are elements of their arguments, so that they need no rounding.
MOVES = frozenset(
    "reshape transpose broadcast_to concat slice reverse tile pad take take_along gather_nd where cond while_loop scan"
    " max_pool maximum minimum reduce_max reduce_min top_k".split()
)

_EXPONENT = -0x800000  # the mask of the exponent in the bits of a float32 without sign
_INFINITY = 0x7F800000
_NAN = 0x7FC00000


def narrow(x: TensorLike, dtype: DType) -> Tensor:
    """Round a tensor of carrier values to values of `dtype`, a carried type. Return a tensor of the carrier's dtype.

    - An integer keeps its low bits.
    - float8e8m0 is rounded to the nearest power of two, half upwards. A negative number, and a number out of range,
      such as 0, becomes NaN.
    - Another small float is rounded to the nearest value, half to even, and keeps its sign. fnuz formats have no
      negative zero.

    Special numbers of a small float other than float8e8m0:

    - A number that is too large becomes infinity. In a format without infinity, it becomes NaN. In a format without
      both, it becomes the largest value, with its sign.
    - NaN stays NaN. In a format without NaN, it becomes negative zero.
    """
    form = dtype.format
    if form is None:
        return _wrap(x, dtype)
    if form.special == "scale":
        return power_of_two(x)
    return _round_to_bfloat16(x) if form.bits == 16 else _round_to_nearest(x, form)


@functools.lru_cache(maxsize=None)
def to_values(dtype: DType, rank: int) -> Region:
    """Return a region that rounds values to values of `dtype`, a carried type, as `narrow` does.

    The only input of the region is a tensor of the carrier's dtype and of rank `rank`. The region is cached by dtype
    and rank.
    """
    with Trace().active() as trace:
        carrier = DType.of(dtype.numpy)
        return trace.region([Spec(carrier, (None,) * rank)], lambda x: [narrow(x, dtype)])


def to_odd(x: Tensor) -> Tensor:
    """Convert numbers to float32 by rounding to odd: truncate, and set the last bit of the mantissa if bits were lost.

    A later rounding to a small float is then correct. An integer beyond 2^53 is rounded to float64 first.
    """
    wide = e.cast(x, float64)
    near = e.cast(wide, float32)
    bits, back = bitcast(near, int32), e.cast(near, float64)
    cut: Any = e.where(e.less(e.abs(wide), e.abs(back)), bits - 1, bits)
    odd: Any = e.bitwise_and(cut, -2)
    return bitcast(e.where(e.equal(back, wide), bits, odd + 1), float32)


def _wrap(x: TensorLike, dtype: DType) -> Tensor:
    """Keep the low `dtype.bits` bits of integers (two's complement), with sign extension for a signed type.

    `dtype` is an integer type that numpy lacks; the result has the dtype of x, its carrier.
    """
    low = e.bitwise_and(x, (1 << dtype.bits) - 1)
    if dtype.kind == "u":
        return low
    sign = 1 << (dtype.bits - 1)
    return e.sub(e.bitwise_xor(low, sign), sign)


def _round_to_bfloat16(x: TensorLike) -> Tensor:
    """Round float32 to values of bfloat16, half to even. The result is float32. NaN stays NaN."""
    bits: Any = bitcast(x, int32)
    even = e.equal(e.bitwise_and(bits, 0x10000), 0)
    upper = e.bitwise_and(bits + e.where(even, lift(0x7FFF, int32), 0x8000), -0x10000)
    return e.where(e.is_nan(x), x, bitcast(upper, float32))


def _round_to_nearest(x: TensorLike, form: Format) -> Tensor:
    """Round float32 to the nearest values of a small float format, half to even. The result is float32.

    Numbers that are too large and NaN become the values that `narrow` describes. Each number is rounded to a multiple
    of the spacing of the format's values between two powers of two.
    """
    overflow = float(form.magnitude(form.top + 1))
    size: Any = e.minimum(e.abs(x), overflow)
    power = bitcast(e.bitwise_and(bitcast(size, int32), _EXPONENT), float32)
    step = e.maximum(power, 2.0 ** (1 - form.bias)) * 2.0**-form.mantissa
    rounded = e.round(size / step) * step
    too_large, missing = form.round(np.array([np.inf, np.nan], np.float32), saturate=False)
    rounded = e.where(e.less(form.max, rounded), lift(too_large, float32), rounded)
    negative = e.less(bitcast(x, int32), 0)
    if form.special == "fnuz":  # zero has no sign
        negative = e.logical_and(negative, e.less(0, rounded))
    return e.where(e.is_nan(x), lift(missing, float32), e.where(negative, e.neg(rounded), rounded))


def power_of_two(x: TensorLike, saturate: bool = False, mode: str = "nearest") -> Tensor:
    """Round float32 to values of the scale float8e8m0: powers of two from 2^-127 to 2^127, and NaN.

    - mode: "nearest" (half upwards), "up" or "down".
    - saturate: a number below 2^-127, such as 0, becomes 2^-127. A number that rounds to more than 2^127 becomes 2^127.
      Without `saturate`, both become NaN.

    NaN and a negative number always become NaN. The arithmetic is on integers, because the least scale is a subnormal
    float32, which frameworks may flush to zero.
    """
    least, largest = 0x400000, _INFINITY - 0x800000
    added, last = {"nearest": (0x400000, 0x5FFFFF), "up": (0x7FFFFF, least), "down": (0, 0x7FFFFF)}[mode]
    bits: Any = bitcast(e.abs(x), int32)
    power = e.where(e.less_equal(bits, last), lift(least, int32), e.bitwise_and(bits + added, _EXPONENT))
    power = e.where(e.less(largest, power), lift(largest if saturate else _NAN, int32), power)
    unfit = e.logical_or(e.is_nan(x), e.less(x, 0))
    if not saturate:
        unfit = e.logical_or(unfit, e.less(bits, least))
    return bitcast(e.where(unfit, lift(_NAN, int32), power), float32)
