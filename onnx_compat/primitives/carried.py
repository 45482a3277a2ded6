"""Back to the values of a type that is carried in a wider one: `DType.round`, over primitives on the carrier.

It is said once here, for every shim: arithmetic on a carried type is done in its carrier, and `Emitter.finish` emits
this behind it. Every step is exact, so that the result is the same wherever it runs.
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
from onnx_compat.tracing.values import Tensor, lift

__all__ = ["MOVES", "narrowed", "power_of_two", "to_odd", "to_values"]

#: Primitives whose results are some of the values that they get.
MOVES = frozenset(
    "reshape transpose broadcast_to concat slice reverse tile pad take take_along gather_nd where cond while_loop scan"
    " max_pool maximum minimum reduce_max reduce_min top_k".split()
)

_EXPONENT = -0x800000  # of the bits of a float32 without sign, those of the exponent
_INFINITY = 0x7F800000
_NAN = 0x7FC00000


def narrowed(x: Any, dtype: DType) -> Tensor:
    """The carrier's values as values that the type has, still in a tensor of the carrier: an integer keeps its low bits,
    a small float rounds to the nearest, half to even. Too large is infinity, else NaN, else the largest there is.
    """
    form = dtype.format
    if form is None:
        return _wrapped(x, dtype)
    if form.special == "scale":
        return power_of_two(x)
    return _upper_half(x) if form.bits == 16 else _nearest(x, form)


@functools.lru_cache(maxsize=None)
def to_values(dtype: DType, rank: int) -> Region:
    """`narrowed` as a program of one input, to be emitted."""
    with Trace().active() as trace:
        carrier = DType.of(dtype.numpy)
        return trace.region([Spec(carrier, (None,) * rank)], lambda x: [narrowed(x, dtype)])


def to_odd(x: Tensor) -> Tensor:
    """A number as a float32 that rounds further as the number itself would: cut off, its last bit set if it was cut."""
    wide = e.cast(x, float64)
    near = e.cast(wide, float32)
    bits, back = bitcast(near, int32), e.cast(near, float64)
    cut: Any = e.where(e.less(e.abs(wide), e.abs(back)), bits - 1, bits)
    odd: Any = e.bitwise_and(cut, -2)
    return bitcast(e.where(e.equal(back, wide), bits, odd + 1), float32)


def _wrapped(x: Any, dtype: DType) -> Tensor:
    low = e.bitwise_and(x, (1 << dtype.bits) - 1)
    if dtype.kind == "u":
        return low
    sign = 1 << (dtype.bits - 1)
    return e.sub(e.bitwise_xor(low, sign), sign)


def _upper_half(x: Any) -> Tensor:
    """bfloat16: what is added carries into the upper half exactly when the lower one rounds up."""
    bits: Any = bitcast(x, int32)
    even = e.equal(e.bitwise_and(bits, 0x10000), 0)
    upper = e.bitwise_and(bits + e.where(even, lift(0x7FFF, int32), 0x8000), -0x10000)
    return e.where(e.is_nan(x), x, bitcast(upper, float32))


def _nearest(x: Any, form: Format) -> Tensor:
    """In steps: between two powers of two the values of the format are evenly spaced, and below the least power too."""
    beyond = float(form.magnitude(form.top + 1))
    size: Any = e.minimum(e.abs(x), beyond)
    power = bitcast(e.bitwise_and(bitcast(size, int32), _EXPONENT), float32)
    step = e.maximum(power, 2.0 ** (1 - form.bias)) * 2.0**-form.mantissa
    found = e.round(size / step) * step
    too_large, missing = form.round(np.array([np.inf, np.nan], np.float32), saturate=False)
    found = e.where(e.less(form.max, found), lift(too_large, float32), found)
    negative = e.less(bitcast(x, int32), 0)
    if form.special == "fnuz":  # zero has no sign
        negative = e.logical_and(negative, e.less(0, found))
    return e.where(e.is_nan(x), lift(missing, float32), e.where(negative, e.neg(found), found))


def power_of_two(x: Any, saturate: bool = False, mode: str = "nearest") -> Tensor:
    """The values of a float32 as those of a scale (float8e8m0): the nearest (half upwards), the next one "up" or "down".
    Beyond its ends NaN, or with `saturate` the end; below zero NaN.

    In integers: the least scale is not a normal float32, and a framework may take it for zero.
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
