"""From one element type to another."""

from onnx_compat import primitives as p
from onnx_compat.ir.dtypes import DType, float32, float64, int32
from onnx_compat.ops.registry import op
from onnx_compat.tracing.values import Tensor


@op("Cast", since=1)
def cast_1(input: Tensor, *, to: str) -> Tensor:
    """The type by its name in TensorProto: FLOAT, DOUBLE, INT64 …"""
    return convert(input, DType.of(to.lower()))


@op("Cast", since=(6, 9, 13))
def cast_13(input: Tensor, *, to: int) -> Tensor:
    return convert(input, DType.of(to))


@op("Cast", since=19)
def cast_19(input: Tensor, *, to: int, saturate: int = 1) -> Tensor:
    return convert(input, DType.of(to), bool(saturate))


@op("Cast", since=(21, 23))
def cast_23(input: Tensor, *, to: int, saturate: int = 1) -> Tensor:
    return convert(_clamp_to_four_bits(input, DType.of(to)), DType.of(to), bool(saturate))


@op("Cast", since=(24, 25, 28))
def cast(input: Tensor, *, to: int, saturate: int = 1, round_mode: str = "up") -> Tensor:
    return convert(input, DType.of(to), bool(saturate), round_mode)


@op("CastLike", since=15)
def cast_like_15(input: Tensor, target_type: Tensor) -> Tensor:
    return convert(input, target_type.dtype)


@op("CastLike", since=19)
def cast_like_19(input: Tensor, target_type: Tensor, *, saturate: int = 1) -> Tensor:
    return convert(input, target_type.dtype, bool(saturate))


@op("CastLike", since=(21, 23))
def cast_like_23(input: Tensor, target_type: Tensor, *, saturate: int = 1) -> Tensor:
    return cast_23(input, to=target_type.dtype.onnx, saturate=saturate)


@op("CastLike", since=(24, 25))
def cast_like(input: Tensor, target_type: Tensor, *, saturate: int = 1, round_mode: str = "up") -> Tensor:
    return convert(input, target_type.dtype, bool(saturate), round_mode)


def _clamp_to_four_bits(x: Tensor, dtype: DType) -> Tensor:
    """What the first versions with four bits did where nothing is said: floats are held at the ends, NaN at the upper."""
    if x.dtype.kind != "f" or dtype.bits != 4:
        return x
    return p.where(p.is_nan(x), dtype.max, p.clip(x, dtype.min, dtype.max))


def convert(x: Tensor, dtype: DType, saturate: bool = True, round_mode: str = "up") -> Tensor:
    """x in any other type. Only small floats are held at their ends, and only a scale is rounded otherwise than to the
    nearest.
    """
    if x.dtype == dtype:
        return x
    if dtype.kind == "s":
        return p.to_text(x)
    form = dtype.format
    if x.dtype.kind == "s":
        if form is None:
            return p.from_text(x, dtype)
        x = p.from_text(x, float64)
    if form is not None and form.special == "scale":
        wide = x.dtype.kind in "iu" or x.dtype.bits > 32
        return p.cast(p.power_of_two(p.to_odd(x) if wide else p.cast(x, float32), saturate, round_mode), dtype)
    if form is not None and form.saturates and form.special != "finite" and saturate and x.dtype.kind != "b":
        x = p.clip(x, dtype.min, dtype.max)  # what has neither infinity nor NaN stays finite anyway
    if x.dtype.kind == "f" and dtype.kind in "iu" and dtype.bits < 8:
        x = p.cast(x, int32)  # out of range it wraps; what a framework makes of a negative float as a byte is open
    return p.cast(x, dtype)
