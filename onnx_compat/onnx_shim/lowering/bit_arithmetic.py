"""Operations on bits by arithmetic, for targets without operators for them. Each function takes and returns Tensors."""

from typing import Any, Callable, Tuple

import numpy as np

from onnx_compat.ir import dtypes
from onnx_compat.ir.dtypes import DType
from onnx_compat.primitives import elementwise as e
from onnx_compat.primitives.indexing import take
from onnx_compat.primitives.reduction import reduce_sum
from onnx_compat.primitives.shape import concat, unsqueeze
from onnx_compat.tracing.values import Tensor, lift

__all__ = [
    "bits_to_float",
    "bitwise_and",
    "bitwise_or",
    "bitwise_xor",
    "float_to_bits",
    "shift_left",
    "shift_right",
]

#: Bits of the mantissa and of the exponent.
_FORMATS = {"float16": (10, 5), "float32": (23, 8), "float64": (52, 11)}


def bitwise_and(x: Tensor, y: Tensor, width: int, signed: bool) -> Any:
    """Return the bits that are set in both of two int64 tensors, of which only the low `width` bits count.

    signed: whether the highest of these bits is the sign.
    """
    return _combine(x, y, width, signed, e.minimum)


def bitwise_or(x: Tensor, y: Tensor, width: int, signed: bool) -> Any:
    """Return the bits that are set in at least one of two int64 tensors, of which only the low `width` bits count.

    signed: whether the highest of these bits is the sign.
    """
    return _combine(x, y, width, signed, e.maximum)


def bitwise_xor(x: Tensor, y: Tensor, width: int, signed: bool) -> Any:
    """Return the bits that are set in exactly one of two int64 tensors, of which only the low `width` bits count.

    signed: whether the highest of these bits is the sign.
    """
    return _combine(x, y, width, signed, lambda a, b: e.abs(a - b))


def _combine(x: Tensor, y: Tensor, width: int, signed: bool, combine: Callable[..., Any]) -> Any:
    """Combine the low `width` bits of two int64 tensors. Return the int64 numbers with the combined bits.

    - signed: whether the weight of the highest bit is negative.
    - combine: a function of two tensors of bits, each 0 or 1.
    """
    return _from_bits(combine(_to_bits(x, width), _to_bits(y, width)), width, signed)


def _powers(width: int) -> Any:
    return lift(np.asarray([1 << k for k in range(min(width, 63))], np.int64))


def _to_bits(x: Tensor, width: int) -> Any:
    """Return the low `width` bits of int64 numbers along a new last axis, the lowest bit first."""
    column: Any = unsqueeze(x, [x.rank])
    bits = (column // _powers(width)) % 2
    return bits if width < 64 else concat([bits, e.cast(e.less(column, 0), dtypes.int64)], column.rank - 1)


def _from_bits(bits: Any, width: int, signed: bool) -> Any:
    """Return the int64 numbers whose bits are along the last axis, the lowest bit first.

    The weight of the highest bit is negative with `signed`, and for 64 bits.
    """
    weights = [1 << k for k in range(width)]
    if signed or width == 64:
        weights[-1] = -weights[-1]
    return reduce_sum(bits * lift(np.asarray(weights, np.int64)), [bits.rank - 1])


def shift_left(x: Any, y: Any) -> Any:
    """Return x * 2^y of unsigned integers; zero if y is at least the width."""
    return e.where(e.less(y, x.dtype.bits), x * _power_of_two(y, x.dtype), lift(0, x.dtype))


def shift_right(x: Any, y: Any) -> Any:
    """Return x / 2^y of unsigned integers, rounded down; zero if y is at least the width."""
    return e.where(e.less(y, x.dtype.bits), x // _power_of_two(y, x.dtype), lift(0, x.dtype))


def _power_of_two(y: Any, dtype: DType) -> Tensor:
    table = np.left_shift(np.ones((), dtype.numpy), np.arange(dtype.bits).astype(dtype.numpy))
    return take(lift(table, dtype), e.cast(e.minimum(y, dtype.bits - 1), dtypes.int32), 0)


def float_to_bits(x: Any) -> Any:
    """Return the bits of floats as int64 numbers: each is the signed integer of the float's width with the same bits.

    The payload of NaN is lost.
    """
    mantissa, exponent = _FORMATS[x.dtype.name]
    bias = (1 << (exponent - 1)) - 1
    infinity = ((1 << exponent) - 1) << mantissa
    from onnx_compat.onnx_shim.lowering.functions import is_negative

    magnitude: Any = e.where(e.is_nan(x), lift(0.0, x.dtype), e.minimum(e.abs(x), x.dtype.max))
    scaled, power = _normalize(magnitude, bias)
    is_subnormal = e.less(magnitude, 2.0 ** (1 - bias))
    fraction: Any = e.where(is_subnormal, _scaled_subnormal(magnitude, bias, mantissa), (scaled - 1) * 2.0**mantissa)
    high: Any = e.where(is_subnormal, lift(0, dtypes.int64), (power + bias) * (1 << mantissa))
    code: Any = high + e.cast(fraction, dtypes.int64)
    code = e.where(e.is_inf(x), lift(infinity, dtypes.int64), code)
    code = e.where(e.is_nan(x), lift(infinity + (1 << (mantissa - 1)), dtypes.int64), code)
    least = -(1 << (mantissa + exponent))
    return e.where(is_negative(x), code + least, code)


def _scaled_subnormal(magnitude: Any, bias: int, mantissa: int) -> Any:
    """Return magnitude * 2^(bias - 1 + mantissa), in two steps, because the factor may be too large for the dtype."""
    return magnitude * 2.0 ** (bias - 1) * 2.0**mantissa


def _normalize(magnitude: Any, bias: int) -> Tuple[Any, Any]:
    """Split positive normal floats. Return (significand, exponent), with magnitude = significand * 2^exponent.

    The significand is in [1, 2). It is found by products with powers of 2, which are exact.
    `bias`: the bias of the exponents of the dtype.
    """
    power: Any = e.where(e.equal(magnitude, magnitude), lift(0, dtypes.int64), 0)
    step = (bias + 1) // 2
    while step:
        is_large = e.less_equal(2.0**step, magnitude)
        magnitude, power = e.where(is_large, magnitude * 2.0**-step, magnitude), e.where(is_large, power + step, power)
        is_small = e.less(magnitude, 2.0 ** (1 - step))
        magnitude, power = e.where(is_small, magnitude * 2.0**step, magnitude), e.where(is_small, power - step, power)
        step //= 2
    return magnitude, power


def bits_to_float(code: Any, dtype: DType) -> Any:
    """Return the floats with given bits. `code`: the signed integers of the float's width with these bits, as int64."""
    mantissa, exponent = _FORMATS[dtype.name]
    bias = (1 << (exponent - 1)) - 1
    least = -(1 << (mantissa + exponent))
    magnitude: Any = e.where(code < 0, code - least, code)
    power: Any = magnitude // (1 << mantissa)
    fraction: Any = magnitude - power * (1 << mantissa)
    with np.errstate(over="ignore"):
        table = np.ldexp(np.ones((), np.float64), np.arange(1 << exponent) - bias)
        table[0], table[-1] = table[1], np.inf
    scales = lift(table.astype(dtype.numpy), dtype)
    numbers: Any = e.cast(fraction, dtype) * 2.0**-mantissa + e.cast(e.less(0, power), dtype)
    number: Any = numbers * take(scales, power, 0)
    is_special = e.equal(power, (1 << exponent) - 1)
    special = e.where(e.equal(fraction, 0), lift(np.inf, dtype), lift(np.nan, dtype))
    number = e.where(is_special, special, number)
    # a factor, because the Where of some runtimes loses the sign of a zero
    return number * e.where(code < 0, lift(-1.0, dtype), lift(1.0, dtype))
