"""Primitives that select, scatter and sort elements as ONNX operators."""

from typing import Any, Dict, List, Optional, Sequence, Tuple

import numpy as np

from onnx_compat.ir import dtypes
from onnx_compat.ir.dtypes import DType
from onnx_compat.onnx_shim.graph_builder import Value
from onnx_compat.onnx_shim.lowering.base import EXACT, WRAPPING, without_axes
from onnx_compat.onnx_shim.lowering.shape import ShapeLowering
from onnx_compat.shim.emission import Sizes

__all__ = ["IndexingLowering"]

_COMBINED = {"add": "add", "mul": "mul", "max": "maximum", "min": "minimum"}


class IndexingLowering(ShapeLowering):
    """The primitives of `onnx_compat.primitives.indexing`."""

    def take(self, x: Value, indices: Value, axis: int) -> Value:
        return self.gather(x, self.as_index(indices), axis)

    def as_index(self, indices: Value) -> Value:
        """Return indices as int64, unless they are int32 already."""
        return indices if indices.dtype is dtypes.int32 else self.convert(indices, dtypes.int64)

    def take_along(self, x: Value, indices: Value, axis: int, from_end: bool = False) -> Value:
        rest = [self.as_index(indices)]
        results = self.attempt("GatherElements", [x], rest, WRAPPING, shape=indices.shape, axis=axis)
        if results is not None:
            return results
        index = self._from_front(indices, [self.dim(x, axis)]) if from_end else indices
        return self._take_along_flat(x, index, axis)

    def _from_front(self, indices: Value, lengths: Sequence[Any]) -> Value:
        """Return indices that count from the end, if they are negative, as int64 indices from the front.

        `lengths`: the length of the only axis; or the lengths of several axes, for each entry along the last axis.
        """
        index = self.convert(indices, dtypes.int64)
        added = self.shape_vector(lengths) if len(lengths) > 1 else self.scalar(lengths[0], dtypes.int64)
        return self.where(self.less(index, self.scalar(0, dtypes.int64)), self.add(index, added), index)

    def _take_along_flat(self, x: Value, indices: Value, axis: int) -> Value:
        """Return the result of `take_along` by a Gather from the flat x, for opset 9.

        The index of an element in the flat x is computed from its index along each axis.
        """
        index = self.convert(indices, dtypes.int64)
        strides = self._strides(x)
        total = self.mul(index, strides[axis])
        for k in range(x.rank):
            if k != axis:
                positions = self.iota(self.scalar(self.dim(indices, k), dtypes.int64))
                shape = [-1 if axis_k == k else 1 for axis_k in range(x.rank)]
                column = self.reshape_elements(positions, shape, _only(shape))
                total = self.add(total, self.mul(column, strides[k]))
        return self.gather(self.flat(x), total, 0)

    def _strides(self, x: Value) -> List[Value]:
        """Return for each axis the distance of its elements among the flat elements, as an int64 scalar."""
        strides = [self.scalar(1, dtypes.int64)]
        for axis in range(x.rank - 1, 0, -1):
            strides.insert(0, self.multiply(strides[0], self.scalar(self.dim(x, axis), dtypes.int64)))
        return strides

    def multiply(self, x: Value, y: Value) -> Value:
        """Return the product of two int64 scalars; a constant if both are known."""
        if x.array is not None and y.array is not None:
            return self.scalar(int(x.array) * int(y.array), dtypes.int64)
        return self.mul(x, y)

    # -- coordinates ---------------------------------------------------------------------------------------------------
    def gather_nd(self, x: Value, indices: Value, batch_dims: int, from_end: bool = False) -> Value:
        depth = indices.shape[-1]
        assert depth is not None
        shape = (*indices.shape[:-1], *x.shape[batch_dims + depth :])
        if depth:
            rest = [self.convert(indices, dtypes.int64)]
            results = self.attempt("GatherND", [x], rest, WRAPPING, shape=shape, batch_dims=batch_dims)
            if results is not None:
                return results
        index = self._rows_from_front(x, indices, batch_dims) if from_end else indices
        return self._gather_nd_flat(x, index, batch_dims, shape)

    def _rows_from_front(self, x: Value, indices: Value, batch_dims: int) -> Value:
        """Return coordinates of x that count from the end, if they are negative, as int64 coordinates from the front."""
        depth = indices.shape[-1]
        assert depth is not None
        return self._from_front(indices, [self.dim(x, batch_dims + k) for k in range(depth)]) if depth else indices

    def _gather_nd_flat(self, x: Value, indices: Value, batch_dims: int, shape: Sequence[Any]) -> Value:
        """Return the result of `gather_nd` by a Gather of rows. `shape`: the shape of the result."""
        depth = indices.shape[-1] or 0
        total = self._flat_index(x, indices, batch_dims)
        sizes = [self.dim(x, axis) for axis in range(batch_dims + depth, x.rank)]
        rows = self._rows(x, batch_dims + depth)
        selected_rows = self.gather(rows, self.flat(total), 0)
        lead = [self.dim(indices, axis) for axis in range(indices.rank - 1)]
        return self.with_sizes(selected_rows, [*lead, *sizes], shape)

    def _flat_index(self, x: Value, indices: Value, batch_dims: int) -> Value:
        """Return for each coordinate vector of `indices` the int64 index of its row in `_rows(x, batch_dims + depth)`.

        `depth` is the length of a coordinate vector.
        """
        index = self.convert(indices, dtypes.int64)
        depth = indices.shape[-1] or 0
        sizes = [self.scalar(self.dim(x, axis), dtypes.int64) for axis in range(batch_dims + depth)]
        lead = indices.rank - 1
        total = self.with_sizes(self.expand(self.scalar(0, dtypes.int64), [1] * lead), [1] * lead, [1] * lead)
        stride = self.scalar(1, dtypes.int64)
        for axis in range(batch_dims + depth - 1, -1, -1):
            if axis >= batch_dims:
                column = self.gather(index, self.vector(axis - batch_dims), lead)
            else:
                positions = self.iota(self.scalar(self.dim(indices, axis), dtypes.int64))
                units = [-1 if k == axis else 1 for k in range(lead)]
                column = self.reshape_elements(positions, units, _only(units))
            total = self.add(total, self.mul(column, stride))
            stride = self.multiply(stride, sizes[axis])
        sides = [self.dim(indices, axis) for axis in range(lead)]
        return self.expand(total, sides) if sides else total

    def _rows(self, x: Value, count: int) -> Value:
        """Return x with its first `count` axes joined to one."""
        sizes = [self.dim(x, axis) for axis in range(count, x.rank)]
        first = self.scalar(1, dtypes.int64)
        for axis in range(count):
            first = self.multiply(first, self.scalar(self.dim(x, axis), dtypes.int64))
        number = int(first.array) if first.array is not None else None
        return self.with_sizes(x, [first if number is None else number, *sizes], [number, *x.shape[count:]])

    def scatter_nd(self, x: Value, indices: Value, updates: Value, reduction: str, from_end: bool = False) -> Value:
        if x.dtype.kind == "b" and reduction != "none":
            return self._scatter_bools(x, indices, updates, reduction, from_end)
        index = self.convert(indices, dtypes.int64)
        if indices.shape[-1] != 0:
            ladder = WRAPPING if reduction in ("none", "add", "mul") else EXACT
            results = self._scatter_by_operator(x, index, updates, reduction, ladder)
            if results is not None:
                return results
        return self._scatter_rows(x, self._rows_from_front(x, index, 0) if from_end else index, updates, reduction)

    def _scatter_bools(self, x: Value, indices: Value, updates: Value, reduction: str, from_end: bool) -> Value:
        numbers = [self.convert(value, dtypes.int32) for value in (x, updates)]
        combined = {"add": "max", "mul": "min"}.get(reduction, reduction)
        return self.nonzero_mask(self.scatter_nd(numbers[0], indices, numbers[1], combined, from_end))

    def _scatter_by_operator(
        self, x: Value, index: Value, updates: Value, reduction: str, ladder: Any
    ) -> Optional[Value]:
        for kind in self.kinds(x.dtype, ladder):
            floats = kind if kind.kind == "f" else None
            if reduction != "none" and not self.offer.is_reliable("ScatterND of " + reduction, floats):
                continue
            if kind is dtypes.float16 and reduction != "none":  # onnxruntime loads it, and fails in the run
                continue
            values = [self.convert(x, kind), index, self.convert(updates, kind)]
            results = self.attempts("ScatterND", values, [(kind, x.shape)], reduction=reduction)
            if results is not None:
                return self.convert(results[0], x.dtype)
        return None

    def _scatter_rows(self, x: Value, index: Value, updates: Value, reduction: str) -> Value:
        """Return the result of `scatter_nd` by a loop over the updates, in place of a ScatterND that the target lacks.

        Raises UnsupportedError if the length of the coordinates is not known.
        """
        depth = index.shape[-1]
        if depth is None:
            raise self.refusal("ScatterND with coordinates of an unknown length", x.dtype)
        rows = self._rows(x, depth)
        sizes = [self.dim(x, axis) for axis in range(depth, x.rank)]
        numbers = self.flat(self._flat_index(x, index, 0))
        replacements = self.with_sizes(
            updates,
            [-1, *sizes] if None not in x.shape[depth:] else [self._count(numbers), *sizes],
            [None, *x.shape[depth:]],
        )

        def scatter(state: Sequence[Value], entries: Sequence[Value]) -> Tuple[List[Value], List[Value]]:
            number, row = entries
            if reduction != "none":
                row = getattr(self, _COMBINED[reduction])(self.gather(state[0], number, 0), row)
            positions = self.iota(self.scalar(self.dim(rows, 0), dtypes.int64))
            units = [-1] + [1] * (rows.rank - 1)
            column = self.reshape_elements(positions, units, _only(units))
            return [self.where(self.equal(column, number), row, state[0])], []

        (final,), _ = self.loop_over(scatter, [rows], [numbers, replacements])
        return self.with_sizes(final, [self.dim(x, axis) for axis in range(x.rank)], x.shape)

    def _count(self, vector: Value) -> Any:
        return self.dim(vector, 0)

    def loop_over(self, body: Any, state: Sequence[Value], entries: Sequence[Value]) -> Tuple[List[Value], List[Value]]:
        """Apply a body to each slice of `entries` along their first axis. Return (final states, stacked results).

        `body(states, slices)` returns the next states and a list of results. `ControlLowering` implements this method.
        """
        raise NotImplementedError

    # -- searching and sorting -----------------------------------------------------------------------------------------
    def nonzero(self, x: Value) -> Value:
        mask = x if x.dtype.kind == "b" else self.nonzero_mask(x)
        if not x.rank:
            matches = self.call("NonZero", [self.flat(mask)], result=dtypes.int64, shape=(1, None))
            return self.gather(matches, self.vector([]), 0)
        return self.call("NonZero", [mask], result=dtypes.int64, shape=(x.rank, None))

    def top_k(self, x: Value, k: Sizes, axis: int, largest: bool) -> Tuple[Value, Value]:
        return self.first_in_order(x, self.sizes_value(k), axis, largest)

    def first_in_order(self, x: Value, count: Value, axis: int, largest: bool) -> Tuple[Value, Value]:
        """Return the largest or smallest elements along an axis in order, and their indices.

        - count: the number of elements, as an int64 vector of length 1.
        - largest: whether the largest elements come first; otherwise the smallest.

        Raises UnsupportedError if the target lacks TopK for every dtype that holds x.
        """
        rows = [k for k, size in enumerate(x.shape) if k != axis and not size]
        if not rows or self.offer.is_reliable("TopK of no rows"):
            return self._sorted_start(x, count, axis, largest)
        for k in rows:
            x = self.append_number(x, 0, k)
        first, last, axes = (self.vector(numbers) for numbers in ([0] * len(rows), [-1] * len(rows), rows))
        shape = [None if k in rows else size for k, size in enumerate(x.shape)]
        shape[axis] = _known_count(count)
        values, indices = (
            self.call("Slice", [result], [first, last, axes], WRAPPING, shape=shape)
            for result in self._sorted_start(x, count, axis, largest)
        )
        return values, indices

    def _sorted_start(self, x: Value, count: Value, axis: int, largest: bool) -> Tuple[Value, Value]:
        """Return the results of `first_in_order` by one TopK: a target may demand that the other axes are not empty.

        - count: the number of elements, as an int64 vector of length 1.
        - largest: whether the largest elements come first; otherwise the smallest.

        Raises UnsupportedError if the target lacks TopK for every dtype that holds x, and x has no integers.
        """
        keys = self._sortable(x)
        indices = self._top_indices(keys, count, axis, largest)
        if indices is None and count.array is None and x.shape[axis] is not None:  # k is an attribute in opset 9
            order = self._top_indices(keys, self.vector([x.shape[axis]]), axis, largest)
            indices = None if order is None else self.gather(order, self.iota(self.pick(count, 0)), axis)
        if indices is None and keys.dtype.kind != "f":
            indices = self.sort_by_counting(keys, self.pick(count, 0), axis, largest)
        if indices is None:
            raise self.refusal("TopK", x.dtype)
        return self.take_along(x, indices, axis), indices

    def _top_indices(self, keys: Value, count: Value, axis: int, largest: bool) -> Optional[Value]:
        """Return the indices of the largest or smallest numbers along an axis, by TopK.

        `count`: the number of indices, as an int64 vector of length 1. None: the target lacks TopK for these dtypes.
        """
        shape = list(keys.shape)
        shape[axis] = int(count.array[0]) if count.array is not None else None
        for kind in self.kinds(keys.dtype, EXACT):
            types = [(kind, shape), (dtypes.int64, shape)]
            wide = self.convert(keys, kind)
            results = self.attempts("TopK", [wide, count], types, axis=axis, largest=int(largest))
            if results is None and not largest:
                flipped = self.neg(wide) if kind.kind == "f" else self.sub(self.scalar(-1, kind), wide)
                results = self.attempts("TopK", [flipped, count], types, axis=axis)
            if results is not None:
                return results[1]
        return None

    def sort_by_counting(self, keys: Value, count: Value, axis: int, largest: bool) -> Value:
        """Return the indices of the largest or smallest integers in order along an axis, without TopK.

        - count: the number of indices, as an int64 scalar.
        - largest: whether the largest integer comes first; else the smallest.

        `SortingLowering` implements this method.
        """
        raise NotImplementedError

    def _sortable(self, x: Value) -> Value:
        """Return x itself, or int64 numbers in the same order if x is uint64, which targets do not sort."""
        return self.to_order(x) if x.dtype is dtypes.uint64 else x

    def argmax(self, x: Value, axis: int) -> Value:
        return self._arg("ArgMax", x, axis)

    def argmin(self, x: Value, axis: int) -> Value:
        return self._arg("ArgMin", x, axis)

    def _arg(self, operator: str, x: Value, axis: int) -> Value:
        shape = without_axes(x.shape, [axis])
        keys = self._sortable(x)
        if not keys.shape[axis] and not self.offer.is_reliable("empty " + operator):
            # an element that is chosen only if there is no other one: the first of equal numbers is chosen
            keys = self.append_number(keys, end_of_range(keys.dtype, operator == "ArgMin"), axis)
        results = self.attempt(operator, [keys], result=dtypes.int64, shape=shape, axis=axis, keepdims=0)
        if results is not None:
            return results
        _, indices = self.first_in_order(keys, self.vector([1]), axis, operator == "ArgMax")
        return self.call("Squeeze", [indices], [self.vector([axis])], shape=shape)

    def cumsum(self, x: Value, axis: int, exclusive: bool, reverse: bool) -> Value:
        flags: Dict[str, Any] = {"exclusive": int(exclusive), "reverse": int(reverse)}
        results = self.attempt("CumSum", [x], [self.vector(axis)], WRAPPING, shape=x.shape, **flags)
        return self._cumsum_by_scan(x, axis, exclusive, reverse) if results is None else results

    def _cumsum_by_scan(self, x: Value, axis: int, exclusive: bool, reverse: bool) -> Value:
        order = [axis, *(k for k in range(x.rank) if k != axis)]
        moved = self.transpose(self.reverse(x, [axis]) if reverse else x, order)
        zeros = self.expand(self.scalar(0, x.dtype), [self.dim(moved, k) for k in range(1, x.rank)])

        def total(state: Sequence[Value], entries: Sequence[Value]) -> Tuple[List[Value], List[Value]]:
            following = self.add(state[0], entries[0])
            return [following], [state[0] if exclusive else following]

        _, (sums,) = self.loop_over(total, [zeros], [moved])
        back = self.transpose(sums, [order.index(k) for k in range(x.rank)])
        return self.reverse(back, [axis]) if reverse else back


def _only(shape: Sequence[int]) -> Tuple[Optional[int], ...]:
    return tuple(None if size == -1 else size for size in shape)


def end_of_range(dtype: DType, is_highest: bool) -> Any:
    """Return the lowest number of a dtype, or the highest if `is_highest`: an infinity for floats."""
    if dtype.kind == "f":
        return np.inf if is_highest else -np.inf
    return dtype.max if is_highest else dtype.min


def _known_count(count: Value) -> Optional[int]:
    """Return the number in an int64 vector of length 1; None if it is not known."""
    return int(count.array[0]) if count.array is not None else None
