"""Reductions as ONNX operators."""

from typing import Any, Optional, Sequence, Tuple

import numpy as np

from onnx_compat.ir import dtypes
from onnx_compat.onnx_shim.graph_builder import Value
from onnx_compat.onnx_shim.lowering.base import EXACT, WRAPPING
from onnx_compat.onnx_shim.lowering.indexing import Indexing

__all__ = ["Reductions"]

_NEUTRAL = {"ReduceSum": 0, "ReduceProd": 1, "ReduceMean": np.nan}
#: Kind of integers -> the dtype in which they are added up for a mean.
_SUMMED = {"u": dtypes.uint64, "i": dtypes.int64}


class Reductions(Indexing):
    """The primitives of `onnx_compat.primitives.reduction`."""

    def reduce_sum(self, x: Value, axes: Sequence[int], keepdims: bool) -> Value:
        return self._reduce("ReduceSum", x, axes, keepdims, WRAPPING)

    def reduce_prod(self, x: Value, axes: Sequence[int], keepdims: bool) -> Value:
        return self._reduce("ReduceProd", x, axes, keepdims, WRAPPING)

    def reduce_max(self, x: Value, axes: Sequence[int], keepdims: bool) -> Value:
        return self._extreme_of("ReduceMax", x, axes, keepdims)

    def reduce_min(self, x: Value, axes: Sequence[int], keepdims: bool) -> Value:
        return self._extreme_of("ReduceMin", x, axes, keepdims)

    def reduce_mean(self, x: Value, axes: Sequence[int], keepdims: bool) -> Value:
        is_safe = all(x.shape[axis] is not None for axis in axes) or self.offer.reliable("empty ReduceMean")
        if x.dtype.kind == "f" and is_safe:
            return self._reduce("ReduceMean", x, axes, keepdims, EXACT)
        wide = dtypes.float32 if x.dtype is dtypes.float16 else _SUMMED.get(x.dtype.kind, x.dtype)
        total = self.reduce_sum(self.convert(x, wide), axes, keepdims)
        count = self.scalar(1, dtypes.int64)
        for axis in axes:
            count = self.multiply(count, self.scalar(self.dim(x, axis), dtypes.int64))
        return self.convert(self.div(total, self.convert(count, wide)), x.dtype)

    def _extreme_of(self, operator: str, x: Value, axes: Sequence[int], keepdims: bool) -> Value:
        if x.dtype is dtypes.uint64:
            reduced = self._reduce(operator, self.ordered(x), axes, keepdims, EXACT)
            return self.convert(self.ordered(reduced), dtypes.uint64)
        return self._reduce(operator, x, axes, keepdims, EXACT)

    def _reduce(self, operator: str, x: Value, axes: Sequence[int], keepdims: bool, ladder: Any) -> Value:
        shape = _reduced_shape(x.shape, axes, keepdims)
        if any(x.shape[axis] == 0 for axis in axes):
            sizes = [self.dim(x, k) if k not in axes else 1 for k in range(x.rank) if keepdims or k not in axes]
            return self.expand(self.scalar(_neutral(operator, x.dtype), x.dtype), sizes)
        if any(x.shape[axis] is None for axis in axes) and not self.offer.reliable("empty " + operator):
            x = self._with_neutral_element(operator, x, axes)
        rest = [self.vector(list(axes))]
        return self.call(operator, [x], rest, ladder, shape=shape, keepdims=int(keepdims))

    def _with_neutral_element(self, operator: str, x: Value, axes: Sequence[int]) -> Value:
        """Return x with a neutral element at the end of each reduced axis: onnxruntime cannot reduce an empty axis."""
        neutral = self.scalar(_neutral(operator, x.dtype), x.dtype)
        for axis in axes:
            if x.shape[axis] is None:
                sizes = [self.dim(x, k) if k != axis else 1 for k in range(x.rank)]
                x = self.concat([x, self.expand(neutral, sizes)], axis)
        return x

    # -- softmax -------------------------------------------------------------------------------------------------------
    def softmax(self, x: Value, axis: int) -> Value:
        return self._along_axis("Softmax", x, axis)

    def log_softmax(self, x: Value, axis: int) -> Value:
        return self._along_axis("LogSoftmax", x, axis)

    def _along_axis(self, operator: str, x: Value, axis: int) -> Value:
        """Call Softmax or LogSoftmax: before opset 13 along the last axis, where both versions mean the same."""
        if not x.rank:
            return self.flat_result(self._along_axis(operator, self.flat(x), 0))
        if axis == x.rank - 1 or self.offer.opset >= 13:
            return self.call(operator, [x], axis=axis)
        order = [*(k for k in range(x.rank) if k != axis), axis]
        moved = self.call(operator, [self.transpose(x, order)], axis=x.rank - 1)
        return self.transpose(moved, [order.index(k) for k in range(x.rank)])

    def flat_result(self, vector: Value) -> Value:
        """Return the only element of a vector as a scalar."""
        return self.call("Reshape", [vector], [self.vector([])], WRAPPING, shape=())


def _reduced_shape(shape: Sequence[Any], axes: Sequence[int], keepdims: bool) -> Tuple[Optional[int], ...]:
    return tuple(1 if axis in axes else size for axis, size in enumerate(shape) if keepdims or axis not in axes)


def _neutral(operator: str, dtype: Any) -> Any:
    """Return the result of a reduction without elements."""
    if operator in _NEUTRAL:
        return _NEUTRAL[operator]
    is_largest = operator == "ReduceMin"
    if dtype.kind == "f":
        return np.inf if is_largest else -np.inf
    return dtype.max if is_largest else dtype.min
