"""Scattering. The kernel adds up what meets at one place, into zeros: the last one, a product or an extreme take more.

Rows that meet at one place are brought together by sorting them stably by their place. Then the first of each run
stands for it, after it has taken in the others by doubling steps; all the rest go to a place beyond the end.
"""

from typing import Any, Callable, List, Optional, Sequence, Tuple

import numpy as np

from onnx_compat_tflite.emitter import narrowing
from onnx_compat_tflite.emitter.base import widen_for
from onnx_compat_tflite.emitter.indexing import Indexing
from onnx_compat_tflite.subgraph_builder import Handle

__all__ = ["Scatter"]

_COMBINED = {"mul": "mul", "max": "maximum", "min": "minimum"}


class Scatter(Indexing):
    """x is seen as rows: one for each place that an index may name."""

    loop: Callable[..., List[Handle]]  # see control

    def scatter_nd(self, x: Handle, indices: Handle, updates: Handle, reduction: str) -> Handle:
        return self._scatter(x, updates, indices, reduction)

    @widen_for("SCATTER_ND", "SELECT_V2", "ADD")
    def _scatter(self, x: Handle, updates: Handle, indices: Handle, reduction: str) -> Handle:
        depth = int(indices.dims[-1])
        places = self._row_indices(indices, x, depth)
        rows, values = self._as_rows(x, depth), self._as_rows(updates, indices.rank - 1)
        if reduction == "add":
            added = self._sum_rows(values, places, rows, self._size_product(x, depth))
            return self._restore_shape(self.elementwise("ADD", [rows, added]), x)
        distinct = places.is_constant and np.unique(places.array).size == places.array.size
        if distinct and reduction == "none" and isinstance(rows.dims[0], int) and places.array.size:
            return self._restore_shape(self._put_rows(rows, values, places.array), x)
        if not distinct:
            values, places = self._merge_duplicates(values, places, reduction, self._size_product(x, depth))
        return self._restore_shape(self._replace_rows(rows, values, places, reduction, self._size_product(x, depth)), x)

    # -- rows --------------------------------------------------------------------------------------------------------------
    def _row_indices(self, indices: Handle, x: Handle, depth: int) -> Handle:
        """The row of x that each row of indices names."""
        if indices.is_constant:
            columns = np.moveaxis(indices.array.reshape(-1, depth), -1, 0) if depth else []
            count = int(np.prod(indices.dims[:-1]))
            found = self.flatten_coordinates([Handle.of(narrowing.int32_array(c)) for c in columns], x)
            return Handle.of(np.zeros(count, np.int32)) if depth == 0 else found
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
        """x as a matrix, its first `depth` axes one."""
        width, count = _product(x.dims[depth:]), _product(x.dims[:depth])
        if isinstance(width, int) and isinstance(count, int):
            return self.reshape_to(x, (count, width))
        if x.is_constant:
            x = self.graph.copy(x)
        shape = self.stack([self._size_product(x, depth), self._size_product(x, depth, True)])
        return self.add_op("RESHAPE", [x, shape], x.dtype, (count, width))

    def _size_product(self, x: Handle, depth: int, after: bool = False) -> Any:
        """How many elements the first `depth` axes have together (or the others): an int, or a scalar."""
        axes = range(depth, x.rank) if after else range(depth)
        total: Any = 1
        for axis in axes:
            size = self.dim(x, axis)
            both = isinstance(total, int) and isinstance(size, int)
            total = total * size if both else self._fold_op("MUL", self.scalar(total), self.scalar(size))
        return total

    def _restore_shape(self, rows: Handle, x: Handle) -> Handle:
        if x.is_static:
            return self.reshape_to(rows, x.dims)
        return self.add_op("RESHAPE", [rows, self.shape_tensor(x)], x.dtype, x.dims)

    def _sum_rows(self, values: Handle, places: Handle, rows: Handle, count: Any) -> Handle:
        """The sums of the values at each place of a matrix of zeros like `rows`, `count` rows high."""
        dims = (count if isinstance(count, int) else None, rows.dims[1])
        shape = self.stack([count, self.dim(rows, 1)])
        return self.add_op("SCATTER_ND", [self._append_axis(places), values, shape], values.dtype, dims)

    def _replace_rows(self, rows: Handle, values: Handle, places: Handle, reduction: str, count: Any) -> Handle:
        """With distinct places (or places beyond the end): what is there is replaced by, or combined with, the values."""
        more = count + 1 if isinstance(count, int) else self._fold_op("ADD", count, Handle.of(np.asarray(1, np.int32)))
        ones = Handle.of(np.ones((), np.int32))
        marks = self._append_axis(self.broadcast(ones, self.shape_tensor(places), places.dims))
        touched = self._sum_rows(marks, places, marks, more)
        given = self._sum_rows(values, places, rows, more)
        mask = self.less(Handle.of(np.zeros((), np.int32)), self._slice_first_rows(touched, count))
        given = self._slice_first_rows(given, count)
        if reduction in _COMBINED:
            given = getattr(self, _COMBINED[reduction])(rows, given)
        return self.where(mask, given, rows)

    def _slice_first_rows(self, x: Handle, count: Any) -> Handle:
        size = self.stack([count, Handle.of(np.asarray(-1, np.int32))])
        return self._add_slice(x, self.ints(0, 0), size, (count if isinstance(count, int) else None, x.dims[1]))

    def _put_rows(self, rows: Handle, values: Handle, places: Any) -> Handle:
        """With values at known places: neighbours between what is beside them, others taken from both together."""
        count = rows.dims[0]
        first, last = int(places[0]), int(places[-1])
        if np.array_equal(places, np.arange(first, last + 1)):
            return self.concat(
                [self.slice_axis(rows, 0, 0, first), values, self.slice_axis(rows, 0, last + 1, count)], 0
            )
        order = np.arange(count, dtype=np.int32)
        order[places] = count + np.arange(len(places))
        return self.gather(self._concatenate(rows, [values], 0), Handle.of(order), 0)

    # -- rows that meet ----------------------------------------------------------------------------------------------------
    def _merge_duplicates(self, values: Handle, places: Handle, reduction: str, count: Any) -> Tuple[Handle, Handle]:
        """The rows in the order of their places, of each run the first one as the result of all, the others sent away."""
        total = self.scalar(self.dim(places, 0))
        last = self.reverse(places, [0])
        ordered, order = self.sort_last(last, total)
        original = self.sub(self.sub(total, Handle.of(np.asarray(1, np.int32))), order)
        rows = self.gather(values, original, 0)
        if reduction in _COMBINED:
            rows = self._combine_runs(rows, ordered, reduction)
        one = Handle.of(np.asarray([-1], np.int32))
        shifted = self._concatenate(one, [self._drop_last(ordered, 1)], 0)
        shifted.dims = ordered.dims
        repeated = self.equal(ordered, shifted)
        return rows, self.where(repeated, self.scalar(count), ordered)

    def _combine_runs(self, rows: Handle, ordered: Handle, reduction: str) -> Handle:
        """Each row takes in the one that stands 1, 2, 4, … after it, where both belong to one place."""
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

        first = Handle.of(np.ones((), np.int32))
        captures = [ordered, self.scalar(self.dim(ordered, 0))]
        return self.loop(test, body, [first, rows], captures, [(), rows.dims])[1]

    def _combine_with_later(self, rows: Handle, ordered: Handle, step: Handle, length: Any, reduction: str) -> Handle:
        """Each row combined with the one `step` after it, if that has the same place."""
        count = self.scalar(length)
        there = self.add(self.count_to(length), step)
        inside = self.elementwise("LESS", [there, count], "bool")
        there = self.minimum(self.sub(count, Handle.of(np.ones((), np.int32))), there)
        meets = self.logical_and(inside, self.equal(self.gather(ordered, there, 0), ordered))
        taken = getattr(self, _COMBINED[reduction])(rows, self.gather(rows, there, 0))
        return self.where(self._append_axis(meets), taken, rows)

    def _drop_last(self, x: Handle, step: int) -> Handle:
        """A vector without its last elements."""
        length = x.dims[0]
        dims = (length - step,) if isinstance(length, int) else (None,)
        return self._add_strided_slice(x, self.ints(0), self.ints(-step), [1], dims)


def _product(dims: Any) -> Optional[Any]:
    sizes = list(dims)
    return int(np.prod(sizes)) if all(isinstance(size, int) for size in sizes) else None
