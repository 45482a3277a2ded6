"""Constant and its variants, Range, EyeLike, Trilu, Shape, Size and Identity."""

from typing import Any, Optional, Sequence

import numpy as np

from onnx_compat import primitives as p
from onnx_compat.errors import InvalidModelError
from onnx_compat.ir.dtypes import DType, float32, int64, string
from onnx_compat.ops.arguments import product
from onnx_compat.ops.attribute_types import attribute_type
from onnx_compat.ops.registry import op
from onnx_compat.tracing.values import Tensor, as_sizes, lift

#: A number greater than the size of any axis.
_FAR = 2**31 - 1


@op("Constant", since=1)
def constant_1(*, value: Any) -> Tensor:
    """Return the tensor of the attribute `value`.

    Raises InvalidModelError for a value that is no tensor, number or text.
    """
    return _attribute_tensor(value)


@op("Constant", since=(9, 11, 12, 13, 19, 21, 23, 24, 25))
def constant(
    *,
    value: Any = None,
    sparse_value: Any = None,
    value_float: Any = None,
    value_floats: Any = None,
    value_int: Any = None,
    value_ints: Any = None,
    value_string: Any = None,
    value_strings: Any = None,
) -> Tensor:
    """Return the value of the only attribute that is given, as a tensor.

    Raises InvalidModelError if no attribute or several are given, or if no tensor can hold the type of the value.
    """
    candidates = [value_float, value_floats, value_int, value_ints, value_string, value_strings]
    values = [candidate for candidate in (value, sparse_value, *candidates) if candidate is not None]
    if len(values) != 1:
        raise InvalidModelError("a Constant has exactly one value, not %d" % len(values))
    return _attribute_tensor(values[0])


_ELEMENTS = {"FLOAT": float32, "INT": int64, "STRING": string}


def _attribute_tensor(value: Any) -> Tensor:
    """Return an attribute's value as a tensor: FLOAT(S) as float32, INT(S) as int64, STRING(S) as string.

    The type of the value decides, not the name of the attribute, as in onnxruntime. A list becomes a vector, a single
    value a scalar, and a tensor stays. Raises InvalidModelError for any other type.
    """
    kind = attribute_type(value)
    dtype = _ELEMENTS.get(kind.rstrip("S"))
    if kind != "TENSOR" and dtype is None:
        raise InvalidModelError("a Constant cannot have a value of the type %s" % kind)
    return lift(value if dtype is None else np.asarray(value, dtype.numpy), dtype)


@op("ConstantOfShape", since=(9, 20, 21, 23, 24, 25))
def constant_of_shape(input: Tensor, *, value: Optional[Tensor] = None) -> Tensor:
    """Return a tensor of the shape `input`, filled with the only element of `value`; by default with the float32 0.

    Raises NeedsKnownError if the length of `input` is not known. Raises LimitError if the elements of `input` are not
    known, and their number exceeds the limit `sequence_items`.
    """
    value = lift(0.0, float32) if value is None else p.reshape(value, ())
    return p.broadcast_to(value, as_sizes(input))


@op("ConstantFill", since=1)
def constant_fill(
    input: Optional[Tensor] = None,
    *,
    dtype: int = 1,
    extra_shape: Sequence[int] = (),
    input_as_shape: int = 0,
    shape: Sequence[int] = (),
    value: float = 0.0,
) -> Tensor:
    """Return a tensor filled with `value`, of the ONNX dtype number `dtype` (by default float32).

    The shape is one of these, with `extra_shape` appended:

    - without `input`: the attribute `shape`
    - with `input` and `input_as_shape`: the elements of `input`
    - with `input` alone: the shape of `input`

    With `input_as_shape`, raises NeedsKnownError if the length of `input` is not known. ConstantFill is an
    experimental operator of ONNX 1.0 to 1.3, which PyTorch exported.
    """
    sizes = shape if input is None else as_sizes(input) if input_as_shape else input.shape
    return p.broadcast_to(lift(value, DType.of(dtype)), [*sizes, *extra_shape])


@op("EyeLike", since=(9, 22))
def eye_like(input: Tensor, *, dtype: Optional[int] = None, k: int = 0) -> Tensor:
    """Return a matrix with ones on diagonal `k` and zeros elsewhere. It has the shape of the input, a matrix.

    `k` > 0 is above the main diagonal, `k` < 0 below. `dtype` is the dtype of the result, by default that of the input.
    """
    rows, columns = input.shape
    diagonal = p.equal(p.unsqueeze(p.iota(rows), [1]) + k, p.iota(columns))
    return p.cast(diagonal, input.dtype if dtype is None else DType.of(dtype))


@op("Range", since=11)
def range_11(start: Tensor, limit: Tensor, delta: Tensor) -> Tensor:
    """Return the vector start, start + delta, … up to limit, exclusive; down to limit if delta is negative.

    The vector is empty if start is at or beyond limit. Raises InvalidModelError for a delta of 0 if all three are
    known.
    """
    return p.arange(*[p.reshape(scalar, ()) for scalar in (start, limit, delta)])


@op("Range", since=27)
def range(start: Tensor, limit: Tensor, delta: Tensor, *, stash_type: int = 1) -> Tensor:
    """Return the vector start, start + delta, … up to limit, exclusive; down to limit if delta is negative.

    Floats of fewer than 32 bits are computed in the dtype with the number `stash_type`, and cast back. For other dtypes
    `stash_type` has no effect. Raises InvalidModelError for a delta of 0 if all three are known.
    """
    if start.dtype.kind == "f" and start.dtype.bits < 32:
        stash = DType.of(stash_type)
        return p.cast(range_11(*[p.cast(scalar, stash) for scalar in (start, limit, delta)]), start.dtype)
    return range_11(start, limit, delta)


@op("Shape", since=(1, 13))
def shape_13(data: Tensor) -> Tensor:
    """Return the shape of a tensor as an int64 vector, which is empty for a scalar."""
    return p.shape_of(data)


@op("Shape", since=(15, 19, 21, 23, 24, 25))
def shape(data: Tensor, *, start: int = 0, end: Optional[int] = None) -> Tensor:
    """Return the sizes of the axes from `start` up to `end`, exclusive, as an int64 vector: data.shape[start:end].

    A negative number counts from the end, and a number out of range is clamped. Without `end`, the last axis is
    included. The vector can be empty, and can have symbolic sizes.
    """
    return lift(list(data.shape[start:end]) or np.zeros(0, np.int64), int64)


@op("Size", since=(1, 13, 19, 21, 23, 24, 25))
def size(data: Tensor) -> Tensor:
    """Return the number of elements of a tensor as an int64 scalar, which may be a symbolic size."""
    return lift(product(data.shape), int64)


@op("Trilu", since=14)
def trilu(input: Tensor, k: Optional[Tensor] = None, *, upper: int = 1) -> Tensor:
    """Return the input with zeros outside of a triangle of each matrix (the last two axes).

    - upper is nonzero: the triangle is diagonal `k` and everything above it.
    - upper is 0: the triangle is diagonal `k` and everything below it.

    Diagonal 0, the default, is the main diagonal. A positive `k` lies above it.
    """
    # The sum of a row and an extreme k would wrap. All diagonals beyond the axes are equivalent.
    offset = lift(0, int64) if k is None else p.clip(p.reshape(k, ()), -_FAR, _FAR)
    diagonal = p.unsqueeze(p.iota(input.shape[-2]), [1]) + offset
    columns = p.iota(input.shape[-1])
    kept = p.less_equal(diagonal, columns) if upper else p.less_equal(columns, diagonal)
    return p.where(kept, input, lift(0, input.dtype))


@op("Identity", since=(1, 13, 14, 16, 19, 21, 23, 24, 25))
def identity(input: Tensor) -> Any:
    """Return the input, which may also be a sequence, a map or an optional."""
    return input
