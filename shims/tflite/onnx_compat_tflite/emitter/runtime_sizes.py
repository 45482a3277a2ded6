"""Sizes that are computed at run time: scalars and vectors of int32, or int64 where a size may exceed int32."""

from typing import Any, Optional, Sequence, Tuple, Union

from onnx_compat_tflite.emitter import broadcasting, casting, narrowing
from onnx_compat_tflite.emitter.builder import Builder
from onnx_compat_tflite.emitter.int32_range import int32_array, may_overflow
from onnx_compat_tflite.subgraph_builder import Handle

__all__ = ["element", "fold_op", "promote", "scalar", "size_product", "stack"]


def element(builder: Builder, handle: Handle, index: Optional[int]) -> Any:
    """Return the element `index` of the integer vector `handle`; for the index None, the element of a scalar `handle`.

    The result is an int for a constant, else a scalar handle. The scalar is int64 if `handle` is int64 and may exceed
    int32 (`may_overflow`), else int32.
    """
    if handle.is_constant:
        return int(handle.array.reshape(-1)[index or 0])
    vector = handle if may_overflow(handle) else casting.to(builder, handle, "int32")
    if index is None:
        return vector
    ends = [builder.ints(index), builder.ints(index + 1), builder.ints(1)]
    return builder.add_op("STRIDED_SLICE", [vector, *ends], vector.dtype, (), shrink_axis_mask=1)


def promote(builder: Builder, a: Handle, b: Handle) -> Tuple[Handle, Handle]:
    """Return two sizes, or vectors of sizes, in one dtype: unchanged if their dtypes are equal, else cast to int64."""
    if a.dtype == b.dtype:
        return a, b
    return casting.to(builder, a, "int64"), casting.to(builder, b, "int64")


def stack(builder: Builder, scalars: Sequence[Any]) -> Handle:
    """Stack sizes (ints, and scalar handles of int32 or int64) to a vector.

    - If a handle is int64, the primitive of the builder's node decides (`narrowing.narrow_stack`). For extents, the
      vector has the dtype that the node requests. Otherwise it is int32. A size that does not fit int32 is clamped for
      slice, and becomes `INVALID` for any other primitive.
    - Otherwise, if all sizes are ints or constants, returns a constant int32 vector.
    - Otherwise returns an int32 vector by PACK.

    Raises UnsupportedError if no handle is int64, and an int does not fit int32.
    """
    if any(isinstance(size, Handle) and size.dtype == "int64" for size in scalars):
        return narrowing.narrow_stack(builder, scalars)
    handles = [scalar(builder, value) for value in scalars]
    if all(handle.is_constant for handle in handles):
        return builder.ints(*[int(handle.array) for handle in handles])
    return builder.add_op("PACK", handles, "int32", (len(handles),), values_count=len(handles), axis=0)


def scalar(builder: Builder, size: Union[int, Handle]) -> Handle:
    """Return a size (an int, or a scalar handle of int32 or int64) as an int32 scalar. An int gives a constant.

    An int64 size that does not fit becomes `narrowing.INVALID` at run time. Raises UnsupportedError for an int that
    does not fit int32.
    """
    if isinstance(size, Handle):
        return narrowing.narrow_checked(builder, size) if size.dtype == "int64" else size
    return Handle.of(int32_array(size))


def fold_op(builder: Builder, builtin: str, x: Handle, y: Handle) -> Handle:
    """Return the sum or product of two sizes or vectors of sizes, by the op `builtin`: ADD or MUL.

    If the dtypes differ, the operands are first cast to int64. No op is appended in these cases:

    - If x and y are constants, the result is a constant.
    - If `builtin` is MUL and y is a constant with the single element 1, the result is x.
    """
    x, y = promote(builder, x, y)
    if x.is_constant and y.is_constant:
        return Handle.of((x.array * y.array if builtin == "MUL" else x.array + y.array).astype(x.dtype))
    if builtin == "MUL" and y.is_constant and y.array.size == 1 and y.array == 1:
        return x
    return broadcasting.add_op(builder, builtin, [x, y])


def size_product(builder: Builder, x: Handle, depth: int, after: bool = False) -> Any:
    """Return the product of the first `depth` sizes of x. With `after`, return the product of the remaining sizes.

    The product is an int if all these sizes are known, else an int32 scalar tensor. The product of no sizes is 1.
    """
    axes = range(depth, x.rank) if after else range(depth)
    total: Any = 1
    for axis in axes:
        size = builder.dim(x, axis)
        is_known = isinstance(total, int) and isinstance(size, int)
        total = total * size if is_known else fold_op(builder, "MUL", scalar(builder, total), scalar(builder, size))
    return total
