"""Sort integers without TopK, which sorts only floats in opset 9."""

from typing import List, Sequence, Tuple

from onnx_compat.ir import dtypes
from onnx_compat.onnx_shim.graph_builder import Value
from onnx_compat.onnx_shim.lowering.reduction import ReductionLowering

__all__ = ["SortingLowering"]

Results = Tuple[List[Value], List[Value]]


class SortingLowering(ReductionLowering):
    """A stable sort by counting, with loops over the elements: its memory grows with their number, not its square."""

    def sort_by_counting(self, keys: Value, count: Value, axis: int, largest: bool) -> Value:
        order = [axis, *(k for k in range(keys.rank) if k != axis)]
        moved = self.transpose(keys, order)
        rows = self.iota(self.scalar(self.dim(moved, 0), dtypes.int64))
        units = [1] * (keys.rank - 1)
        column = self.with_sizes(rows, [-1, *units], [rows.shape[0], *units])
        zeros = self.expand(self.scalar(0, dtypes.int64), [self.dim(moved, k) for k in range(moved.rank)])

        def count_row(offsets: Sequence[Value], entries: Sequence[Value]) -> Results:
            """Return the number of rows before each key, with this row. Of equal keys, the lower row comes first."""
            key, row = entries
            comes_first = self.less(moved, key) if largest else self.less(key, moved)
            is_tie = self.logical_and(self.equal(moved, key), self.less(row, column))
            is_before = self.logical_or(comes_first, is_tie)
            return [self.add(offsets[0], self.convert(is_before, dtypes.int64))], []

        def place_row(indices: Sequence[Value], entries: Sequence[Value]) -> Results:
            """Return the indices in order, with the index of this row at its offset."""
            offset, row = entries
            return [self.where(self.equal(column, offset), row, indices[0])], []

        (offsets,), _ = self.loop_over(count_row, [zeros], [moved, rows])
        (indices,), _ = self.loop_over(place_row, [zeros], [offsets, rows])
        return self.transpose(self.gather(indices, self.iota(count), 0), [order.index(k) for k in range(keys.rank)])
