"""Sizes that are computed at run time: scalars and vectors of int32, or int64 where a size may exceed int32."""

from typing import Any, Optional, Sequence, Tuple, Union

from onnx_compat_tflite.emitter import broadcasting, casting, narrowing
from onnx_compat_tflite.emitter.builder import Builder
from onnx_compat_tflite.emitter.int32_range import int32_array, may_overflow
from onnx_compat_tflite.subgraph_builder import Handle

__all__ = ["element", "fold_op", "promote", "scalar", "size_product", "stack"]


def element(builder: Builder, handle: Handle, index: Optional[int]) -> Any:
    """Return the element `index` of an integer vector, or (None for `index`) the element of a scalar.

    The result is an int for a constant, else a scalar handle. The handle is int64 where the element may exceed int32,
    else int32. See `promote` and `stack`.
    """
    if handle.is_constant:
        return int(handle.array.reshape(-1)[index or 0])
    vector = handle if may_overflow(handle) else casting.to(builder, handle, "int32")
    if index is None:
        return vector
    ends = [builder.ints(index), builder.ints(index + 1), builder.ints(1)]
    return builder.add_op("STRIDED_SLICE", [vector, *ends], vector.dtype, (), shrink_axis_mask=1)


def promote(builder: Builder, a: Handle, b: Handle) -> Tuple[Handle, Handle]:
    """Return two sizes in one dtype: unchanged if their dtypes are equal, else as int64.

    `scalar` and `stack` narrow sizes where a kernel takes them.
    """
    if a.dtype == b.dtype:
        return a, b
    return casting.to(builder, a, "int64"), casting.to(builder, b, "int64")


def stack(builder: Builder, scalars: Sequence[Any]) -> Handle:
    """Return sizes (ints and scalar handles) as an int32 vector: a constant if all are known, else by PACK.

    If a handle is int64, the result is that of `narrowing.narrow_stack`. Otherwise raises UnsupportedError if an int
    does not fit int32.
    """
    if any(isinstance(size, Handle) and size.dtype == "int64" for size in scalars):
        return narrowing.narrow_stack(builder, scalars)
    handles = [scalar(builder, value) for value in scalars]
    if all(handle.is_constant for handle in handles):
        return builder.ints(*[int(handle.array) for handle in handles])
    return builder.add_op("PACK", handles, "int32", (len(handles),), values_count=len(handles), axis=0)


def scalar(builder: Builder, size: Union[int, Handle]) -> Handle:
    """Return a size (an int or a scalar handle) as an int32 scalar.

    An int64 handle that does not fit becomes `narrowing.INVALID` at run time. An int that does not fit raises
    UnsupportedError.
    """
    if isinstance(size, Handle):
        return narrowing.narrow_checked(builder, size) if size.dtype == "int64" else size
    return Handle.of(int32_array(size))


def fold_op(builder: Builder, builtin: str, x: Handle, y: Handle) -> Handle:
    """Append ADD or MUL (`builtin`) of two sizes or vectors of sizes, and return the result.

    If x and y are constants, the result is a constant, without an operator. If y is the constant 1 of a MUL, the result
    is x. If the dtypes differ, the operands are cast to int64.
    """
    x, y = promote(builder, x, y)
    if x.is_constant and y.is_constant:
        return Handle.of((x.array * y.array if builtin == "MUL" else x.array + y.array).astype(x.dtype))
    if builtin == "MUL" and y.is_constant and y.array.size == 1 and y.array == 1:
        return x
    return broadcasting.add_op(builder, builtin, [x, y])


def size_product(builder: Builder, x: Handle, depth: int, after: bool = False) -> Any:
    """Return the product of the first `depth` sizes of x. With `after`, return the product of the remaining sizes.

    The product is an int if it is known, else an int32 scalar. It is 1 if there are no such sizes.
    """
    axes = range(depth, x.rank) if after else range(depth)
    total: Any = 1
    for axis in axes:
        size = builder.dim(x, axis)
        is_known = isinstance(total, int) and isinstance(size, int)
        total = total * size if is_known else fold_op(builder, "MUL", scalar(builder, total), scalar(builder, size))
    return total
