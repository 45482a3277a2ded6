"""Reductions as ONNX operators."""

from typing import Any, List, Optional, Sequence, Tuple

import numpy as np

from onnx_compat.ir import dtypes
from onnx_compat.onnx_shim.graph_builder import Value
from onnx_compat.onnx_shim.lowering.base import EXACT, WRAPPING
from onnx_compat.onnx_shim.lowering.indexing import IndexingLowering, end_of_range
from onnx_compat.onnx_shim.signatures import signature_of

__all__ = ["ReductionLowering"]

_NEUTRAL = {"ReduceSum": 0, "ReduceProd": 1, "ReduceMean": np.nan}
#: Kind of integers -> the dtype in which they are added up for a mean.
_SUMMED = {"u": dtypes.uint64, "i": dtypes.int64}


class ReductionLowering(IndexingLowering):
    """The primitives of `onnx_compat.primitives.reduction`."""

    def reduce_sum(self, x: Value, axes: Sequence[int], keepdims: bool) -> Value:
        if x.dtype.kind in "iu" and not self.offer.is_reliable("ReduceSum of integers"):
            return self._sum_of_integers(x, axes, keepdims)
        return self._reduce("ReduceSum", x, axes, keepdims, WRAPPING)

    def _sum_of_integers(self, x: Value, axes: Sequence[int], keepdims: bool) -> Value:
        """Return sums of integers by a matrix product with ones, which wraps: onnxruntime's ReduceSum saturates."""
        wide = dtypes.int64 if x.dtype.bits == 64 else dtypes.int32
        rows = self._join_axes(self.convert(x, wide), axes)
        units = self.expand(self.scalar(1, wide), [self.dim(rows, rows.rank - 1), 1])
        totals = self.call("MatMul", [rows, units], shape=(*rows.shape[:-1], 1))
        return self.convert(self._split_axes(totals, x, axes, keepdims), x.dtype)

    def reduce_prod(self, x: Value, axes: Sequence[int], keepdims: bool) -> Value:
        is_exact = x.dtype.kind == "f" or self.offer.is_reliable("ReduceProd of integers")
        if not is_exact or (x.dtype is dtypes.float64 and not self.offer.has("ReduceProd", [x.dtype], [x.dtype])):
            return self._product_by_steps(x, axes, keepdims)
        return self._reduce("ReduceProd", x, axes, keepdims, WRAPPING)

    def _product_by_steps(self, x: Value, axes: Sequence[int], keepdims: bool) -> Value:
        """Return the products of a loop, one factor at a time.

        onnxruntime's ReduceProd of integers saturates, and may have no kernel for float64.
        """
        rows = self._join_axes(x, axes)
        last = rows.rank - 1
        slices = self.transpose(rows, [last, *range(last)])
        units = self.expand(self.scalar(1, x.dtype), [self.dim(rows, axis) for axis in range(last)])

        def multiply(state: Sequence[Value], entries: Sequence[Value]) -> Tuple[List[Value], List[Value]]:
            return [self.mul(state[0], entries[0])], []

        (product,), _ = self.loop_over(multiply, [units], [slices])
        return self._split_axes(product, x, axes, keepdims)

    def _join_axes(self, x: Value, axes: Sequence[int]) -> Value:
        """Return x with the reduced axes joined to a single last axis."""
        kept = [axis for axis in range(x.rank) if axis not in axes]
        moved = self.transpose(x, [*kept, *axes])
        sizes = [self.dim(x, axis) for axis in kept]
        count: Any = 1
        for axis in axes:
            count = self.multiply(self.scalar(count, dtypes.int64), self.scalar(self.dim(x, axis), dtypes.int64))
        number = int(count.array) if count.array is not None else None
        return self.with_sizes(moved, [*sizes, count], [*(x.shape[axis] for axis in kept), number])

    def _split_axes(self, reduced: Value, x: Value, axes: Sequence[int], keepdims: bool) -> Value:
        """Return `reduced`, a reduction of the last axis of `_join_axes(x, axes)`, in the shape of the result.

        The result has the shape of x without the axes, or with `keepdims` with size 1 for each of them.
        """
        kept = [axis for axis in range(x.rank) if keepdims or axis not in axes]
        sizes = [1 if axis in axes else self.dim(x, axis) for axis in kept]
        return self.with_sizes(reduced, sizes, _reduced_shape(x.shape, axes, keepdims))

    def reduce_max(self, x: Value, axes: Sequence[int], keepdims: bool) -> Value:
        return self._extreme_of("ReduceMax", x, axes, keepdims)

    def reduce_min(self, x: Value, axes: Sequence[int], keepdims: bool) -> Value:
        return self._extreme_of("ReduceMin", x, axes, keepdims)

    def _extreme_of(self, operator: str, x: Value, axes: Sequence[int], keepdims: bool) -> Value:
        if x.dtype is dtypes.uint64:
            reduced = self._extreme_of(operator, self.to_order(x), axes, keepdims)
            return self.convert(self.add(reduced, self.scalar(-(2**63), dtypes.int64)), dtypes.uint64)
        if any(x.shape[axis] is None for axis in axes) and (x.dtype.kind != "f" or not self._reduces_nothing(operator)):
            x = self._with_neutral_element(operator, x, axes)
        if x.dtype.kind in "iu" and not self.offer.is_reliable(operator + " of integers"):
            return self._extreme_of_integers(operator, x, axes, keepdims)
        extreme = self._reduce(operator, x, axes, keepdims, EXACT)
        if x.dtype.kind != "f" or self.has_behaviour(operator, x.dtype):
            return extreme
        marks = self.convert(self.is_nan(x), dtypes.float32)
        has_nan = self.less(self.scalar(0, dtypes.float32), self._reduce("ReduceSum", marks, axes, keepdims, EXACT))
        return self.where(has_nan, self.scalar(np.nan, x.dtype), extreme)

    def _extreme_of_integers(self, operator: str, x: Value, axes: Sequence[int], keepdims: bool) -> Value:
        """Return the largest or smallest integers by TopK: onnxruntime's ReduceMax compares int64 wrongly.

        `operator`: ReduceMax or ReduceMin.
        """
        rows = self._join_axes(x, axes)
        if rows.shape[-1] == 0:
            return self._reduce(operator, x, axes, keepdims, EXACT)
        first, _ = self.first_in_order(rows, self.vector([1]), rows.rank - 1, operator == "ReduceMax")
        return self._split_axes(first, x, axes, keepdims)

    def reduce_mean(self, x: Value, axes: Sequence[int], keepdims: bool) -> Value:
        is_safe = all(x.shape[axis] is not None for axis in axes) or self._reduces_nothing("ReduceMean")
        if x.dtype.kind == "f" and is_safe:
            return self._reduce("ReduceMean", x, axes, keepdims, EXACT)
        wide = dtypes.float32 if x.dtype is dtypes.float16 else _SUMMED.get(x.dtype.kind, x.dtype)
        total = self.reduce_sum(self.convert(x, wide), axes, keepdims)
        count = self.scalar(1, dtypes.int64)
        for axis in axes:
            count = self.multiply(count, self.scalar(self.dim(x, axis), dtypes.int64))
        return self.convert(self.div(total, self.convert(count, wide)), x.dtype)

    def _reduces_nothing(self, operator: str) -> bool:
        """Whether the target reduces an axis of length 0 as the specification says."""
        return self.offer.is_reliable("empty " + operator)

    def _reduce(self, operator: str, x: Value, axes: Sequence[int], keepdims: bool, ladder: Any) -> Value:
        shape = _reduced_shape(x.shape, axes, keepdims)
        if any(x.shape[axis] == 0 for axis in axes):
            sizes = [self.dim(x, k) if k not in axes else 1 for k in range(x.rank) if keepdims or k not in axes]
            return self.expand(self.scalar(_neutral(operator, x.dtype), x.dtype), sizes)
        if any(x.shape[axis] is None for axis in axes) and not self._reduces_nothing(operator):
            x = self._with_neutral_element(operator, x, axes)
        newest = signature_of("", operator, self.newest(""))
        if newest is not None and len(newest.inputs) == 1:  # an onnx before 1.13, whose newest form has an attribute
            return self.call(operator, [x], (), ladder, shape=shape, keepdims=int(keepdims), axes=list(axes))
        rest = [self.vector(list(axes))]
        return self.call(operator, [x], rest, ladder, shape=shape, keepdims=int(keepdims))

    def _with_neutral_element(self, operator: str, x: Value, axes: Sequence[int]) -> Value:
        """Return x with a neutral element at the end of each reduced axis whose length may be 0."""
        for axis in axes:
            if x.shape[axis] is None:
                x = self.append_number(x, _neutral(operator, x.dtype), axis)
        return x

    # -- softmax -------------------------------------------------------------------------------------------------------
    def softmax(self, x: Value, axis: int) -> Value:
        return self._along_axis("Softmax", x, axis)

    def log_softmax(self, x: Value, axis: int) -> Value:
        return self._along_axis("LogSoftmax", x, axis)

    def _along_axis(self, operator: str, x: Value, axis: int) -> Value:
        """Return Softmax or LogSoftmax of x along an axis.

        Before opset 13, the axis is transposed to the end: along the last axis, all versions mean the same.
        """
        if not x.rank:
            return self.flat_result(self._along_axis(operator, self.flat(x), 0))
        if axis == x.rank - 1 or self.offer.opset >= 13:
            results = self.attempt(operator, [x], behaviour=operator, axis=axis)
            return self.call(operator, [x], axis=axis) if results is None else results
        order = [*(k for k in range(x.rank) if k != axis), axis]
        moved = self.call(operator, [self.transpose(x, order)], axis=x.rank - 1)
        return self.transpose(moved, [order.index(k) for k in range(x.rank)])

    def flat_result(self, vector: Value) -> Value:
        """Return the only element of a vector as a scalar."""
        return self.reshape_elements(vector, [], ())


def _reduced_shape(shape: Sequence[Any], axes: Sequence[int], keepdims: bool) -> Tuple[Optional[int], ...]:
    return tuple(1 if axis in axes else size for axis, size in enumerate(shape) if keepdims or axis not in axes)


def _neutral(operator: str, dtype: Any) -> Any:
    """Return the result of a reduction without elements."""
    if operator in _NEUTRAL:
        return _NEUTRAL[operator]
    return end_of_range(dtype, operator == "ReduceMin")
