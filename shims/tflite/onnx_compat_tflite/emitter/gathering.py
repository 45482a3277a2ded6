"""Gathers: elements at indices.

Indices are computed in int32, since no tensor has more elements. An int64 index that may not fit stays int64, so that
the kernel detects an index out of range.
"""

from typing import Any, Sequence

import numpy as np

from onnx_compat_tflite.emitter import (
    broadcasting,
    casting,
    comparison,
    counting,
    extremes,
    joining,
    reshaping,
    runtime_sizes,
    slicing,
    transposing,
)
from onnx_compat_tflite.emitter.builder import Builder
from onnx_compat_tflite.emitter.int32_range import may_overflow
from onnx_compat_tflite.emitter.registry import primitive
from onnx_compat_tflite.emitter.widening import widen_for
from onnx_compat_tflite.subgraph_builder import Handle

__all__ = [
    "add_gather_nd",
    "add_where",
    "flatten_coordinates",
    "gather",
    "gather_nd",
    "narrow_indices",
    "nonzero",
    "take",
    "take_along",
]


@widen_for("GATHER")
def gather(builder: Builder, x: Handle, indices: Handle, axis: int) -> Handle:
    """Emit GATHER of the slices of x at `indices`, int32 or int64, along `axis`, which is not negative.

    In the result, the axes of `indices` replace `axis`.
    """
    dims = x.dims[:axis] + indices.dims + x.dims[axis + 1 :]
    return builder.add_op("GATHER", [x, indices], x.dtype, dims, axis=axis)


@primitive
def take(builder: Builder, x: Handle, indices: Handle, axis: int) -> Handle:
    """Gather the slices of x at `indices` along `axis`. In the result, the axes of `indices` replace `axis`.

    `indices` have any integer dtype. Neither `indices` nor `axis` is negative. Raises UnsupportedError for strings if
    `axis` is not 0.
    """
    if indices.dtype not in ("int32", "int64"):
        indices = casting.to(builder, indices, "int32")
    if x.is_constant and not x.array.size:
        x = builder.graph.copy(x)
    if x.dtype == "string":
        return _take_text(builder, x, indices, axis)
    return gather(builder, x, indices, axis)


def _take_text(builder: Builder, x: Handle, indices: Handle, axis: int) -> Handle:
    """Gather strings by GATHER_ND, their only kernel. Raises UnsupportedError if the axis is not the first."""
    if axis != 0:
        raise builder.kernel_error("GATHER", x.dtype)
    return add_gather_nd(builder, x, reshaping.append_axis(builder, indices), indices.dims + x.dims[1:])


@widen_for("GATHER_ND")
def add_gather_nd(builder: Builder, x: Handle, coordinates: Handle, dims: Sequence[Any]) -> Handle:
    """Append GATHER_ND: return the slice of x at each row of `coordinates`.

    A row is a vector along the last axis of `coordinates`: the coordinates on the first axes of x. `coordinates` are
    int32 or int64. `dims` are the sizes of the result.
    """
    return builder.add_op("GATHER_ND", [x, coordinates], x.dtype, dims)


@primitive
def take_along(builder: Builder, x: Handle, indices: Handle, axis: int) -> Handle:
    """Emit GatherElements: return the elements of x at `indices` along `axis`, in the shape of `indices`.

    Elements are gathered from the flattened x; strings are gathered by GATHER_ND. Neither `indices` nor `axis` is
    negative.
    """
    indices = narrow_indices(builder, indices)
    coordinates = [counting.grid(builder, indices, k) if k != axis else indices for k in range(x.rank)]
    if x.dtype == "string":
        same_dtype_coordinates = [casting.to(builder, c, indices.dtype) for c in coordinates]
        columns = [
            broadcasting.broadcast(builder, c, builder.shape_tensor(indices), indices.dims)
            for c in same_dtype_coordinates
        ]
        dims = (*indices.dims, x.rank)
        coordinate_rows = builder.add_op("PACK", columns, indices.dtype, dims, values_count=x.rank, axis=indices.rank)
        return add_gather_nd(builder, x, coordinate_rows, indices.dims)
    flat_indices = flatten_coordinates(builder, coordinates, x)
    return gather(builder, reshaping.flatten(builder, x), flat_indices, 0)


def narrow_indices(builder: Builder, indices: Handle) -> Handle:
    """Return integer indices as int32; int64 indices that may not fit int32 stay unchanged."""
    return indices if may_overflow(indices) else casting.to(builder, indices, "int32")


def flatten_coordinates(builder: Builder, coordinates: Sequence[Handle], x: Handle) -> Handle:
    """Return the row-major position in x of the coordinates: [i, j] for x of sizes (a, b, ...) -> i * b + j.

    `coordinates` has an int32 or int64 tensor for each of the first axes of x, in order. The position counts elements
    of these axes only: all further axes of x are not read.

    The result has the shape to which the tensors broadcast. It is int64 if one of the tensors is int64, else int32.
    Without coordinates, the result is the constant 0.
    """
    total: Any = None
    for axis, coordinate in enumerate(coordinates):
        if total is not None:
            total = runtime_sizes.fold_op(builder, "MUL", total, runtime_sizes.scalar(builder, builder.dim(x, axis)))
        total = coordinate if total is None else runtime_sizes.fold_op(builder, "ADD", total, coordinate)
    return total if total is not None else Handle.of(np.zeros((), np.int32))


@primitive
def gather_nd(builder: Builder, x: Handle, indices: Handle, batch_dims: int) -> Handle:
    """Emit GatherND: return the slice of x at each row of `indices`.

    A row is a vector along the last axis of `indices`: coordinates on the axes of x after the first `batch_dims` axes.
    The first `batch_dims` axes of x and of `indices` are common batch axes. Indices are not negative.

    The length of a row must be known. If it is 0, raises UnsupportedError if a size of x or of the result is unknown.
    """
    depth = int(indices.dims[-1])
    dims = builder.out.shape
    if depth == 0:
        return _repeat_batch(builder, x, batch_dims, dims)
    if batch_dims:
        batch_columns = [
            _coordinate_column(builder, counting.grid(builder, indices, axis, indices.rank - 1), indices)
            for axis in range(batch_dims)
        ]
        last = narrow_indices(builder, indices)
        parts = [*(casting.to(builder, column, last.dtype) for column in batch_columns), last]
        indices = joining.concatenate(builder, parts[0], parts[1:], indices.rank - 1)
    elif indices.dtype not in ("int32", "int64"):
        indices = casting.to(builder, indices, "int32")
    if x.dtype == "string" or all(isinstance(size, int) and size for size in x.dims):
        return add_gather_nd(builder, x, indices, dims)
    return _gather_from_empty(builder, x, indices, batch_dims + depth)


def _gather_from_empty(builder: Builder, x: Handle, indices: Handle, depth: int) -> Handle:
    """Gather slices of x where x may have no elements: GATHER_ND refuses an x without elements.

    `indices` are int32 or int64. A row along their last axis has coordinates on the first `depth` axes of x.

    The `depth` axes of x are joined, and GATHER takes the slices along the joined axis. GATHER_ND gives their positions
    from a table, and so still refuses an index out of range. Each axis of the table has at least one element.
    """
    lead, sizes = x.dims[:depth], [builder.dim(x, axis) for axis in range(x.rank)]
    if all(isinstance(size, int) for size in lead):
        shape = [max(size, 1) for size in lead]
        table = Handle.of(np.arange(np.prod(shape), dtype=np.int32).reshape(shape))
    else:
        table_sizes = extremes.maximum(builder, runtime_sizes.stack(builder, sizes[:depth]), builder.ints(1))
        count = builder.add_op("REDUCE_PROD", [table_sizes, builder.ints(0)], "int32", (), keep_dims=False)
        table = builder.add_op("RESHAPE", [counting.count_to(builder, count), table_sizes], "int32", [None] * depth)
    rows = runtime_sizes.size_product(builder, x, depth)
    joined_dims = (rows if isinstance(rows, int) else None, *x.dims[depth:])
    joined = builder.add_op("RESHAPE", [x, runtime_sizes.stack(builder, [rows, *sizes[depth:]])], x.dtype, joined_dims)
    return gather(builder, joined, add_gather_nd(builder, table, indices, indices.dims[:-1]), 0)


def _coordinate_column(builder: Builder, grid: Handle, indices: Handle) -> Handle:
    """Return `grid` broadcast to the shape of `indices` with length 1 along the last axis.

    The result can be concatenated to `indices` along the last axis. `grid` has one axis fewer than `indices`, and must
    broadcast to the other axes of `indices`.
    """
    dims = indices.dims[:-1]
    column = (*dims, 1)
    if all(isinstance(size, int) for size in dims):
        target = builder.ints(*column)
    else:
        rows = slicing.slice_axis(builder, builder.shape_tensor(indices), 0, 0, indices.rank - 1)
        target = joining.concatenate(builder, rows, [builder.ints(1)], 0)
    return broadcasting.broadcast(builder, reshaping.append_axis(builder, grid), target, column)


def _repeat_batch(builder: Builder, x: Handle, batch_dims: int, dims: Sequence[Any]) -> Handle:
    """Gather by rows of length 0: each row selects all of x, or its whole batch element if `batch_dims` is not 0.

    `dims` are the sizes of the result: x gets new axes after the first `batch_dims` axes, and is repeated along them.
    Raises UnsupportedError if a size of x or of the result is unknown.
    """
    if not all(isinstance(size, int) for size in dims) or not x.is_static:
        raise builder.kernel_error("GATHER_ND", x.dtype, "no coordinates, unknown sizes")
    between = len(dims) - x.rank
    wide = x.dims[:batch_dims] + (1,) * between + x.dims[batch_dims:]
    return broadcasting.broadcast(
        builder, reshaping.reshape_to(builder, x, wide), builder.ints(*[int(size) for size in dims]), dims
    )


@primitive
def nonzero(builder: Builder, x: Handle) -> Handle:
    """Return the int64 coordinates of the nonzero elements: a row for each axis of x, a column for each element.

    For a scalar the shape is [0, 1], or [0, 0] if the scalar is zero.
    """
    if x.dtype != "bool":
        x = comparison.logical_not(builder, comparison.equal(builder, x, builder.like(x, 0)))
    if x.rank == 0:
        count = casting.to(builder, add_where(builder, reshaping.reshape_to(builder, x, (1,))), "int32")
        rows = slicing.slice_axis(builder, builder.shape_tensor(count), 0, 0, 1)
        target = joining.concatenate(builder, builder.ints(0), [rows], 0)
        return broadcasting.broadcast(builder, Handle.of(np.zeros((), np.int64)), target, (0, None))
    return transposing.transpose(builder, add_where(builder, x), (1, 0))


def add_where(builder: Builder, x: Handle) -> Handle:
    """Append WHERE of a boolean x: return int64 coordinates, with a row for each element that is true.

    The rank of x must be at least 1.
    """
    return builder.add_op("WHERE", [x], "int64", (None, x.rank))
