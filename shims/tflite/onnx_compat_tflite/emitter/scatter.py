"""Scatter with a reduction.

The kernel SCATTER_ND adds updates of the same row into zeros. Any other reduction first merges the updates of a row:
they are sorted stably by their row index, and combined in doubling steps. The first of each run then holds the result,
and the others get an index beyond the last row.
"""

from typing import Any, Callable, List, Optional, Sequence, Tuple, Union

import numpy as np

from onnx_compat_tflite.emitter import narrowing
from onnx_compat_tflite.emitter.base import widen_for
from onnx_compat_tflite.emitter.indexing import Indexing
from onnx_compat_tflite.subgraph_builder import Handle

__all__ = ["Scatter"]

_METHODS = {"mul": "mul", "max": "maximum", "min": "minimum"}


class Scatter(Indexing):
    """Emit ScatterND. The tensor is a matrix with a row for each element that an index can address."""

    loop: Callable[..., List[Handle]]  # defined in `control`

    def scatter_nd(self, x: Handle, indices: Handle, updates: Handle, reduction: str) -> Handle:
        return self._scatter(x, updates, indices, reduction)

    @widen_for("SCATTER_ND", "SELECT_V2", "ADD")
    def _scatter(self, x: Handle, updates: Handle, indices: Handle, reduction: str) -> Handle:
        depth = int(indices.dims[-1])
        row_indices = self._row_indices(indices, x, depth)
        rows, values = self._as_rows(x, depth), self._as_rows(updates, indices.rank - 1)
        if reduction == "add":
            sums = self._sum_rows(values, row_indices, rows, self._size_product(x, depth))
            return self._restore_shape(self.elementwise("ADD", [rows, sums]), x)
        distinct = row_indices.is_constant and np.unique(row_indices.array).size == row_indices.array.size
        if distinct and reduction == "none" and isinstance(rows.dims[0], int) and row_indices.array.size:
            return self._restore_shape(self._put_rows(rows, values, row_indices.array), x)
        if not distinct:
            values, row_indices = self._merge_duplicates(values, row_indices, reduction, self._size_product(x, depth))
        return self._restore_shape(
            self._replace_rows(rows, values, row_indices, reduction, self._size_product(x, depth)), x
        )

    # -- rows --------------------------------------------------------------------------------------------------------------
    def _row_indices(self, indices: Handle, x: Handle, depth: int) -> Handle:
        """Return the index of the row that each row of `indices` addresses."""
        if indices.is_constant:
            columns = np.moveaxis(indices.array.reshape(-1, depth), -1, 0) if depth else []
            count = int(np.prod(indices.dims[:-1]))
            row_indices = self.flatten_coordinates([Handle.of(narrowing.int32_array(c)) for c in columns], x)
            return Handle.of(np.zeros(count, np.int32)) if depth == 0 else row_indices
        if depth == 0:
            return Handle.of(np.zeros(int(np.prod(indices.dims[:-1])), np.int32))
        rows = self._narrow_indices(indices)
        flat = self.add_op("RESHAPE", [rows, self.ints(-1, depth)], rows.dtype, (_product(indices.dims[:-1]), depth))
        columns = [self._slice_column(flat, k) for k in range(depth)]
        return narrowing.narrow_clamped(self, self.flatten_coordinates(columns, x))

    def _slice_column(self, x: Handle, k: int) -> Handle:
        ends = [self.ints(0, k), self.ints(0, k + 1), self.ints(1, 1)]
        options = {"begin_mask": 1, "end_mask": 1, "shrink_axis_mask": 2}
        return self.add_op("STRIDED_SLICE", [x, *ends], x.dtype, x.dims[:1], **options)

    def _as_rows(self, x: Handle, depth: int) -> Handle:
        """Reshape x to a matrix, with the first `depth` axes merged."""
        width, count = _product(x.dims[depth:]), _product(x.dims[:depth])
        if isinstance(width, int) and isinstance(count, int):
            return self.reshape_to(x, (count, width))
        if x.is_constant:
            x = self.graph.copy(x)
        shape = self.stack([self._size_product(x, depth), self._size_product(x, depth, True)])
        return self.add_op("RESHAPE", [x, shape], x.dtype, (count, width))

    def _size_product(self, x: Handle, depth: int, after: bool = False) -> Any:
        """Return the number of elements along the first `depth` axes, or along the other axes: an int or a scalar."""
        axes = range(depth, x.rank) if after else range(depth)
        total: Any = 1
        for axis in axes:
            size = self.dim(x, axis)
            is_known = isinstance(total, int) and isinstance(size, int)
            total = total * size if is_known else self._fold_op("MUL", self.scalar(total), self.scalar(size))
        return total

    def _restore_shape(self, rows: Handle, x: Handle) -> Handle:
        """Reshape rows to the shape of x."""
        if x.is_static:
            return self.reshape_to(rows, x.dims)
        return self.add_op("RESHAPE", [rows, self.shape_tensor(x)], x.dtype, x.dims)

    def _sum_rows(self, values: Handle, row_indices: Handle, rows: Handle, count: Union[int, Handle]) -> Handle:
        """Sum the values of each row index into a matrix of zeros with the width of `rows` and `count` rows."""
        dims = (count if isinstance(count, int) else None, rows.dims[1])
        shape = self.stack([count, self.dim(rows, 1)])
        return self.add_op("SCATTER_ND", [self._append_axis(row_indices), values, shape], values.dtype, dims)

    def _replace_rows(
        self, rows: Handle, values: Handle, row_indices: Handle, reduction: str, count: Union[int, Handle]
    ) -> Handle:
        """Replace the rows at distinct indices by the values, or combine them. An index beyond the last row has no
        effect.
        """
        padded_count = (
            count + 1 if isinstance(count, int) else self._fold_op("ADD", count, Handle.of(np.asarray(1, np.int32)))
        )
        marker = Handle.of(np.ones((), np.int32))
        marks = self._append_axis(self.broadcast(marker, self.shape_tensor(row_indices), row_indices.dims))
        update_counts = self._sum_rows(marks, row_indices, marks, padded_count)
        updates = self._sum_rows(values, row_indices, rows, padded_count)
        mask = self.less(Handle.of(np.zeros((), np.int32)), self._slice_first_rows(update_counts, count))
        updates = self._slice_first_rows(updates, count)
        if reduction in _METHODS:
            updates = getattr(self, _METHODS[reduction])(rows, updates)
        return self.where(mask, updates, rows)

    def _slice_first_rows(self, x: Handle, count: Union[int, Handle]) -> Handle:
        size = self.stack([count, Handle.of(np.asarray(-1, np.int32))])
        return self._add_slice(x, self.ints(0, 0), size, (count if isinstance(count, int) else None, x.dims[1]))

    def _put_rows(self, rows: Handle, values: Handle, row_indices: np.ndarray) -> Handle:
        """Put the values at known distinct row indices: by CONCATENATION if they are adjacent, else by GATHER."""
        count = rows.dims[0]
        first, last = int(row_indices[0]), int(row_indices[-1])
        if np.array_equal(row_indices, np.arange(first, last + 1)):
            return self.concat(
                [self.slice_axis(rows, 0, 0, first), values, self.slice_axis(rows, 0, last + 1, count)], 0
            )
        order = np.arange(count, dtype=np.int32)
        order[row_indices] = count + np.arange(len(row_indices))
        return self.gather(self._concatenate(rows, [values], 0), Handle.of(order), 0)

    # -- rows of equal index -------------------------------------------------------------------------------------------
    def _merge_duplicates(
        self, values: Handle, row_indices: Handle, reduction: str, count: Union[int, Handle]
    ) -> Tuple[Handle, Handle]:
        """Sort the rows by index and merge equal indices: the first row holds the result, the others get the index
        `count`.
        """
        total = self.scalar(self.dim(row_indices, 0))
        reversed_indices = self.reverse(row_indices, [0])
        ordered, order = self.sort_last(reversed_indices, total)
        original = self.sub(self.sub(total, Handle.of(np.asarray(1, np.int32))), order)
        rows = self.gather(values, original, 0)
        if reduction in _METHODS:
            rows = self._combine_runs(rows, ordered, reduction)
        before_first = Handle.of(np.asarray([-1], np.int32))
        shifted = self._concatenate(before_first, [self._drop_last(ordered, 1)], 0)
        shifted.dims = ordered.dims
        repeated = self.equal(ordered, shifted)
        return rows, self.where(repeated, self.scalar(count), ordered)

    def _combine_runs(self, rows: Handle, ordered: Handle, reduction: str) -> Handle:
        """Combine each row with the row 1, 2, 4, ... behind it, if both have the same index."""
        length = ordered.dims[0]
        if isinstance(length, int):
            step = 1
            while step < length:
                rows = self._combine_with_later(rows, ordered, Handle.of(np.asarray(step, np.int32)), length, reduction)
                step *= 2
            return rows

        def test(inner: Sequence[Handle], outside: Sequence[Handle]) -> Handle:
            return self.elementwise("LESS", [inner[0], outside[1]], "bool")

        def body(inner: Sequence[Handle], outside: Sequence[Handle]) -> Sequence[Handle]:
            step, count = inner[0], outside[1]
            return [self.add(step, step), self._combine_with_later(inner[1], outside[0], step, count, reduction)]

        start = Handle.of(np.ones((), np.int32))
        captures = [ordered, self.scalar(self.dim(ordered, 0))]
        return self.loop(test, body, [start, rows], captures, [(), rows.dims])[1]

    def _combine_with_later(
        self, rows: Handle, ordered: Handle, step: Handle, length: Union[int, Handle], reduction: str
    ) -> Handle:
        """Combine each row with the row `step` behind it, if both have the same index."""
        count = self.scalar(length)
        later = self.add(self.count_to(length), step)
        has_later = self.elementwise("LESS", [later, count], "bool")
        later = self.minimum(self.sub(count, Handle.of(np.ones((), np.int32))), later)
        is_same_row = self.logical_and(has_later, self.equal(self.gather(ordered, later, 0), ordered))
        combined = getattr(self, _METHODS[reduction])(rows, self.gather(rows, later, 0))
        return self.where(self._append_axis(is_same_row), combined, rows)

    def _drop_last(self, x: Handle, step: int) -> Handle:
        """Return a vector without its last elements."""
        length = x.dims[0]
        dims = (length - step,) if isinstance(length, int) else (None,)
        return self._add_strided_slice(x, self.ints(0), self.ints(-step), [1], dims)


def _product(dims: Sequence[Any]) -> Optional[Any]:
    sizes = list(dims)
    return int(np.prod(sizes)) if all(isinstance(size, int) for size in sizes) else None
