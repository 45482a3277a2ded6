"""Scatter with a reduction.

The kernel SCATTER_ND adds updates of the same row into zeros. Any other reduction first merges the updates of a row:
they are sorted stably by their row index, and combined in doubling steps. The first of each run then holds the result,
and the others get an index beyond the last row.
"""

from typing import Any, Optional, Sequence, Tuple, Union

import numpy as np

from onnx_compat_tflite.emitter import (
    broadcasting,
    comparison,
    counting,
    elementwise,
    extremes,
    gathering,
    int64_views,
    joining,
    loops,
    narrowing,
    reshaping,
    runtime_sizes,
    slicing,
    sorting,
)
from onnx_compat_tflite.emitter.builder import Builder
from onnx_compat_tflite.emitter.int32_range import int32_array
from onnx_compat_tflite.emitter.registry import primitive
from onnx_compat_tflite.emitter.widening import widen_for
from onnx_compat_tflite.subgraph_builder import Handle

__all__ = ["scatter_nd"]

_COMBINING = ("mul", "max", "min")  # reductions that combine two updates of a row


@primitive
def scatter_nd(builder: Builder, x: Handle, indices: Handle, updates: Handle, reduction: str) -> Handle:
    """Emit ScatterND: return x with the slices at the coordinates `indices` replaced by, or combined with, `updates`.

    A row along the last axis of `indices` holds the coordinates of a slice. `reduction` is "none" (replace), "add",
    "mul", "max" or "min". With "none", the last update of a slice remains.

    Raises UnsupportedError if a constant coordinate does not fit int32, or if no wider dtype of a kernel holds x.
    """
    if x.dtype == "uint64" and reduction in ("max", "min") and int64_views.has_bitcast(builder):
        ranks, update_ranks = (int64_views.to_rank(builder, values) for values in (x, updates))
        return int64_views.from_rank(builder, _scatter(builder, ranks, update_ranks, indices, reduction), "uint64")
    return _scatter(builder, x, updates, indices, reduction)


@widen_for("SCATTER_ND", "SELECT_V2", "ADD")
def _scatter(builder: Builder, x: Handle, updates: Handle, indices: Handle, reduction: str) -> Handle:
    depth = int(indices.dims[-1])
    row_indices = _row_indices(builder, indices, x, depth)
    rows, values = _as_rows(builder, x, depth), _as_rows(builder, updates, indices.rank - 1)
    if reduction == "add":
        sums = _sum_rows(builder, values, row_indices, rows, runtime_sizes.size_product(builder, x, depth))
        return _restore_shape(builder, broadcasting.add_op(builder, "ADD", [rows, sums]), x)
    distinct = row_indices.is_constant and np.unique(row_indices.array).size == row_indices.array.size
    if distinct and reduction == "none" and isinstance(rows.dims[0], int) and row_indices.array.size:
        return _restore_shape(builder, _put_rows(builder, rows, values, row_indices.array), x)
    if not distinct:
        count = runtime_sizes.size_product(builder, x, depth)
        values, row_indices = _merge_duplicates(builder, values, row_indices, reduction, count)
    count = runtime_sizes.size_product(builder, x, depth)
    return _restore_shape(builder, _replace_rows(builder, rows, values, row_indices, reduction, count), x)


def _row_indices(builder: Builder, indices: Handle, x: Handle, depth: int) -> Handle:
    """Return an int32 vector: for each row of `indices`, the number of the row of x at these coordinates.

    A row of `indices` lies along the last axis and has `depth` coordinates. The rows of x are those of `_as_rows`: for
    x.dims [4, 5, 6] and depth 2, the coordinates [1, 2] give 7.

    At run time, an index that does not fit int32 is clamped. Raises UnsupportedError for a constant coordinate that
    does not fit int32.
    """
    if indices.is_constant:
        columns = np.moveaxis(indices.array.reshape(-1, depth), -1, 0) if depth else []
        count = int(np.prod(indices.dims[:-1]))
        row_indices = gathering.flatten_coordinates(builder, [Handle.of(int32_array(c)) for c in columns], x)
        return Handle.of(np.zeros(count, np.int32)) if depth == 0 else row_indices
    if depth == 0:
        return Handle.of(np.zeros(int(np.prod(indices.dims[:-1])), np.int32))
    rows = gathering.narrow_indices(builder, indices)
    flat = builder.add_op("RESHAPE", [rows, builder.ints(-1, depth)], rows.dtype, (_product(indices.dims[:-1]), depth))
    columns = [_slice_column(builder, flat, k) for k in range(depth)]
    return narrowing.narrow_clamped(builder, gathering.flatten_coordinates(builder, columns, x))


def _slice_column(builder: Builder, x: Handle, k: int) -> Handle:
    ends = [builder.ints(0, k), builder.ints(0, k + 1), builder.ints(1, 1)]
    options = {"begin_mask": 1, "end_mask": 1, "shrink_axis_mask": 2}
    return builder.add_op("STRIDED_SLICE", [x, *ends], x.dtype, x.dims[:1], **options)


def _as_rows(builder: Builder, x: Handle, depth: int) -> Handle:
    """Reshape x to a matrix: the first `depth` axes merged, and the other axes merged."""
    width, count = _product(x.dims[depth:]), _product(x.dims[:depth])
    if isinstance(width, int) and isinstance(count, int):
        return reshaping.reshape_to(builder, x, (count, width))
    if x.is_constant:
        x = builder.graph.copy(x)
    sizes = [runtime_sizes.size_product(builder, x, depth), runtime_sizes.size_product(builder, x, depth, True)]
    shape = runtime_sizes.stack(builder, sizes)
    return builder.add_op("RESHAPE", [x, shape], x.dtype, (count, width))


def _restore_shape(builder: Builder, rows: Handle, x: Handle) -> Handle:
    """Reshape rows to the shape of x, which may be known at run time only."""
    if x.is_static:
        return reshaping.reshape_to(builder, rows, x.dims)
    return builder.add_op("RESHAPE", [rows, builder.shape_tensor(x)], x.dtype, x.dims)


def _sum_rows(builder: Builder, values: Handle, row_indices: Handle, rows: Handle, count: Union[int, Handle]) -> Handle:
    """Return a matrix of `count` rows, as wide as `rows`: row i is the sum of all values[k] with row_indices[k] = i.

    A row without such an index holds zeros. The elements of `rows` are not read.
    """
    dims = (count if isinstance(count, int) else None, rows.dims[1])
    shape = runtime_sizes.stack(builder, [count, builder.dim(rows, 1)])
    return builder.add_op(
        "SCATTER_ND", [reshaping.append_axis(builder, row_indices), values, shape], values.dtype, dims
    )


def _replace_rows(
    builder: Builder, rows: Handle, values: Handle, row_indices: Handle, reduction: str, count: Union[int, Handle]
) -> Handle:
    """Return `rows` with row row_indices[k] replaced by values[k], or for `_COMBINING` combined with values[k].

    `count` is the number of rows. The indices are distinct, except for the index `count`: it may repeat, and the values
    at it are dropped.
    """
    if isinstance(count, int):
        padded_count: Union[int, Handle] = count + 1
    else:
        padded_count = runtime_sizes.fold_op(builder, "ADD", count, Handle.of(np.asarray(1, np.int32)))
    marker = Handle.of(np.ones((), np.int32))
    marks = broadcasting.broadcast(builder, marker, builder.shape_tensor(row_indices), row_indices.dims)
    marks = reshaping.append_axis(builder, marks)
    update_counts = _sum_rows(builder, marks, row_indices, marks, padded_count)
    updates = _sum_rows(builder, values, row_indices, rows, padded_count)
    mask = comparison.less(builder, Handle.of(np.zeros((), np.int32)), _slice_first_rows(builder, update_counts, count))
    updates = _slice_first_rows(builder, updates, count)
    if reduction in _COMBINING:
        updates = _combine(builder, reduction, rows, updates)
    return comparison.where(builder, mask, updates, rows)


def _combine(builder: Builder, reduction: str, x: Handle, y: Handle) -> Handle:
    """Return the elementwise combination of x and y by the reduction mul, max or min."""
    if reduction == "mul":
        return elementwise.mul(builder, x, y)
    return extremes.maximum(builder, x, y) if reduction == "max" else extremes.minimum(builder, x, y)


def _slice_first_rows(builder: Builder, x: Handle, count: Union[int, Handle]) -> Handle:
    """Return the first `count` rows of a matrix. `count` is an int, or an int32 scalar computed at run time."""
    size = runtime_sizes.stack(builder, [count, Handle.of(np.asarray(-1, np.int32))])
    dims = (count if isinstance(count, int) else None, x.dims[1])
    return slicing.add_slice(builder, x, builder.ints(0, 0), size, dims)


def _put_rows(builder: Builder, rows: Handle, values: Handle, row_indices: np.ndarray) -> Handle:
    """Return `rows` with row row_indices[k] replaced by values[k], for known distinct indices.

    There must be at least one index, and the number of rows must be known. Indices such as [3, 4, 5], ascending by 1,
    give a CONCATENATION. Other indices give a CONCATENATION and a GATHER.
    """
    count = rows.dims[0]
    first, last = int(row_indices[0]), int(row_indices[-1])
    if np.array_equal(row_indices, np.arange(first, last + 1)):
        before = slicing.slice_axis(builder, rows, 0, 0, first)
        after = slicing.slice_axis(builder, rows, 0, last + 1, count)
        return joining.concat(builder, [before, values, after], 0)
    order = np.arange(count, dtype=np.int32)
    order[row_indices] = count + np.arange(len(row_indices))
    return gathering.gather(builder, joining.concatenate(builder, rows, [values], 0), Handle.of(order), 0)


def _merge_duplicates(
    builder: Builder, values: Handle, row_indices: Handle, reduction: str, count: Union[int, Handle]
) -> Tuple[Handle, Handle]:
    """Sort the rows of `values` by descending row index, and merge the rows of equal index. Return (rows, new indices).

    `reduction` is "mul", "max", "min" or "none". For "none", the result is the last update of the index. "add" is not
    implemented: `_sum_rows` adds rows of equal index without a merge.

    The number of rows does not change. Of the rows of equal index, the first holds the result, and the others get the
    index `count`.
    """
    total = runtime_sizes.scalar(builder, builder.dim(row_indices, 0))
    reversed_indices = slicing.reverse(builder, row_indices, [0])
    ordered, order = sorting.sort_last(builder, reversed_indices, total)
    original = elementwise.sub(builder, elementwise.sub(builder, total, Handle.of(np.asarray(1, np.int32))), order)
    rows = gathering.gather(builder, values, original, 0)
    if reduction in _COMBINING:
        rows = _combine_runs(builder, rows, ordered, reduction)
    before_first = Handle.of(np.asarray([-1], np.int32))
    shifted = joining.concatenate(builder, before_first, [_drop_last(builder, ordered, 1)], 0)
    shifted.dims = ordered.dims
    repeated = comparison.equal(builder, ordered, shifted)
    return rows, comparison.where(builder, repeated, runtime_sizes.scalar(builder, count), ordered)


def _combine_runs(builder: Builder, rows: Handle, ordered: Handle, reduction: str) -> Handle:
    """Combine all rows of equal index into the first of these rows. Return as many rows as before.

    `ordered` has the index of each row; rows of equal index are adjacent. Each round combines each row with a later row
    of the same index: 1 position after it in the first round, then 2, 4, 8, ... The other rows of an index hold partial
    results.
    """
    length = ordered.dims[0]
    if isinstance(length, int):
        step = 1
        while step < length:
            rows = _combine_with_later(builder, rows, ordered, Handle.of(np.asarray(step, np.int32)), length, reduction)
            step *= 2
        return rows

    def test(inner: Sequence[Handle], outside: Sequence[Handle]) -> Handle:
        return broadcasting.add_op(builder, "LESS", [inner[0], outside[1]], "bool")

    def body(inner: Sequence[Handle], outside: Sequence[Handle]) -> Sequence[Handle]:
        step, count = inner[0], outside[1]
        doubled = elementwise.add(builder, step, step)
        return [doubled, _combine_with_later(builder, inner[1], outside[0], step, count, reduction)]

    start = Handle.of(np.ones((), np.int32))
    captures = [ordered, runtime_sizes.scalar(builder, builder.dim(ordered, 0))]
    return loops.loop(builder, test, body, [start, rows], captures, [(), rows.dims])[1]


def _combine_with_later(
    builder: Builder, rows: Handle, ordered: Handle, step: Handle, length: Union[int, Handle], reduction: str
) -> Handle:
    """Return the rows, each combined with the row `step` positions after it if both have the same index in `ordered`.

    `length` is the number of rows. A row without such a later row does not change.
    """
    count = runtime_sizes.scalar(builder, length)
    later = elementwise.add(builder, counting.count_to(builder, length), step)
    has_later = broadcasting.add_op(builder, "LESS", [later, count], "bool")
    later = extremes.minimum(builder, elementwise.sub(builder, count, Handle.of(np.ones((), np.int32))), later)
    is_equal_index = comparison.equal(builder, gathering.gather(builder, ordered, later, 0), ordered)
    is_same_row = comparison.logical_and(builder, has_later, is_equal_index)
    combined = _combine(builder, reduction, rows, gathering.gather(builder, rows, later, 0))
    return comparison.where(builder, reshaping.append_axis(builder, is_same_row), combined, rows)


def _drop_last(builder: Builder, x: Handle, step: int) -> Handle:
    """Return a vector without its last `step` elements."""
    length = x.dims[0]
    dims = (length - step,) if isinstance(length, int) else (None,)
    return slicing.add_strided_slice(builder, x, builder.ints(0), builder.ints(-step), [1], dims)


def _product(dims: Sequence[Any]) -> Optional[Any]:
    """Return the product of sizes as an int; None if a size is symbolic or None. The product of no sizes is 1."""
    sizes = list(dims)
    return int(np.prod(sizes)) if all(isinstance(size, int) for size in sizes) else None
