"""Casts of elements to another dtype: Cast and CastLike."""

from onnx_compat import primitives as p
from onnx_compat.errors import InvalidModelError
from onnx_compat.ir.dtypes import DType, float32, float64, int32
from onnx_compat.ops.registry import op
from onnx_compat.tracing.values import Tensor


@op("Cast", since=1)
def cast_1(input: Tensor, *, to: str) -> Tensor:
    """Cast to the dtype with the name `to` in TensorProto, such as "FLOAT", "DOUBLE" or "INT64"."""
    return convert(input, DType.of(to.lower()))


@op("Cast", since=(6, 9, 13))
def cast_13(input: Tensor, *, to: int) -> Tensor:
    """Cast to the dtype with the number `to` in TensorProto."""
    return convert(input, DType.of(to))


@op("Cast", since=19)
def cast_19(input: Tensor, *, to: int, saturate: int = 1) -> Tensor:
    """Cast to the dtype with the number `to` in TensorProto.

    Numbers beyond the range of an 8-bit float are clipped if `saturate`, else they become NaN or infinity. `saturate`
    has no effect on other dtypes.
    """
    return convert(input, DType.of(to), bool(saturate))


@op("Cast", since=(21, 23))
def cast_23(input: Tensor, *, to: int, saturate: int = 1) -> Tensor:
    """Cast to the dtype with the number `to` in TensorProto.

    - From a float to a 4-bit dtype: numbers are clipped to its range, and NaN becomes its maximum.
    - To an 8-bit float: numbers out of range are clipped if `saturate`, else they become NaN or infinity.

    `saturate` has no effect on other dtypes.
    """
    return convert(_clamp_to_four_bits(input, DType.of(to)), DType.of(to), bool(saturate))


@op("Cast", since=(24, 25, 28))
def cast(input: Tensor, *, to: int, saturate: int = 1, round_mode: str = "up") -> Tensor:
    """Cast to the dtype with the number `to` in TensorProto. Two attributes change casts to 8-bit floats only.

    - saturate: nonzero clips numbers to the range of the dtype; 0 turns numbers out of range into NaN or infinity.
    - round_mode: the direction of rounding to float8e8m0, whose values are powers of two: "up", "down" or "nearest".
    """
    return convert(input, DType.of(to), bool(saturate), round_mode)


@op("CastLike", since=15)
def cast_like_15(input: Tensor, target_type: Tensor) -> Tensor:
    """Cast to the dtype of `target_type`."""
    return convert(input, target_type.dtype)


@op("CastLike", since=19)
def cast_like_19(input: Tensor, target_type: Tensor, *, saturate: int = 1) -> Tensor:
    """Cast to the dtype of `target_type`.

    `saturate` acts on casts to 8-bit floats only: nonzero clips numbers to the range of the dtype; 0 turns numbers out
    of range into NaN or infinity.
    """
    return convert(input, target_type.dtype, bool(saturate))


@op("CastLike", since=(21, 23))
def cast_like_23(input: Tensor, target_type: Tensor, *, saturate: int = 1) -> Tensor:
    """Cast to the dtype of `target_type`.

    - From a float to a 4-bit dtype: numbers are clipped to its range, and NaN becomes its maximum.
    - To an 8-bit float: numbers out of range are clipped if `saturate`, else they become NaN or infinity.

    `saturate` has no effect on other dtypes.
    """
    return cast_23(input, to=target_type.dtype.onnx, saturate=saturate)


@op("CastLike", since=(24, 25))
def cast_like(input: Tensor, target_type: Tensor, *, saturate: int = 1, round_mode: str = "up") -> Tensor:
    """Cast to the dtype of `target_type`. Two attributes change casts to 8-bit floats only.

    - saturate: nonzero clips numbers to the range of the dtype; 0 turns numbers out of range into NaN or infinity.
    - round_mode: the direction of rounding to float8e8m0, whose values are powers of two: "up", "down" or "nearest".
    """
    return convert(input, target_type.dtype, bool(saturate), round_mode)


def _clamp_to_four_bits(x: Tensor, dtype: DType) -> Tensor:
    """Clip floats to the range of a 4-bit dtype, and replace NaN by the maximum of the dtype.

    If x is no float, or if `dtype` is not 4 bits wide, return x. The specification leaves a cast of NaN and of numbers
    out of range undefined; the reference implementation of onnx gives these results.
    """
    if x.dtype.kind != "f" or dtype.bits != 4:
        return x
    return p.where(p.is_nan(x), dtype.max, p.clip(x, dtype.min, dtype.max))


def convert(x: Tensor, dtype: DType, saturate: bool = True, round_mode: str = "up") -> Tensor:
    """Cast x to any dtype, also from and to strings. Return x itself if its dtype is `dtype`.

    - saturate: for a cast to an 8-bit float. True clips numbers to its range. False turns numbers out of range into NaN
      or infinity.
    - round_mode: the direction of rounding to float8e8m0: "up", "down" or "nearest".

    A cast to a 4-bit or 6-bit float always clips. A cast from a float to an integer of less than 8 bits wraps. Raises
    InvalidModelError for another round_mode.
    """
    if round_mode not in ("up", "down", "nearest"):
        raise InvalidModelError("the round_mode of a cast is up, down or nearest, not %r" % round_mode)
    if x.dtype == dtype:
        return x
    if dtype.kind == "s":
        return p.to_text(x)
    float_format = dtype.format
    if x.dtype.kind == "s":
        if float_format is None:
            return p.from_text(x, dtype)
        x = p.from_text(x, float64)
    if float_format is not None and float_format.special == "scale":
        if round_mode == "nearest" and not saturate:
            return p.cast(x, dtype)  # rounds in this way
        needs_more_bits = x.dtype.kind in "iu" or x.dtype.bits > 32
        return p.cast(
            p.power_of_two(p.to_odd(x) if needs_more_bits else p.cast(x, float32), saturate, round_mode), dtype
        )
    if (
        float_format is not None
        and float_format.saturates
        and float_format.special != "finite"
        and saturate
        and x.dtype.kind != "b"
    ):
        x = p.clip(x, dtype.min, dtype.max)  # types without infinity and NaN saturate in the cast
    if x.dtype.kind == "f" and dtype.kind in "iu" and dtype.bits < 8:
        x = p.cast(x, int32)  # wraps; casts of negative floats to bytes differ by framework
    return p.cast(x, dtype)
