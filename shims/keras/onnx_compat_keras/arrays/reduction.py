"""Combining elements along axes. Sums of half floats are made in float32."""

import math
from typing import Any, Sequence

import numpy as np

from onnx_compat.shim import DType

__all__ = ["Reduction"]


def least(dtype: DType) -> Any:
    """What is the largest of no elements."""
    return -np.inf if dtype.kind == "f" else dtype.min


def greatest(dtype: DType) -> Any:
    """What is the smallest of no elements."""
    return np.inf if dtype.kind == "f" else dtype.max


class Reduction:
    """The primitives of `onnx_compat.primitives.reduction`."""

    xp: Any
    out: Any
    array: Any
    like: Any
    wide: Any
    integral: Any
    int64: Any

    def _of_nothing(self, x: Any, axes: Sequence[int], keepdims: bool, value: Any) -> Any:
        """The result where there is nothing along the axes; None where there is something."""
        if all(x.shape[axis] for axis in axes):
            return None
        kept = [1 if k in axes else int(n) for k, n in enumerate(x.shape) if keepdims or k not in axes]
        return self.array(np.full(kept, value, self.out.dtype.numpy), self.out.dtype)

    def reduce_sum(self, x: Any, axes: Sequence[int], keepdims: bool = False) -> Any:
        wide = self.wide(x)
        return self.xp.astype(self.xp.sum(wide, tuple(axes), dtype=wide.dtype, keepdims=keepdims), x.dtype)

    def reduce_mean(self, x: Any, axes: Sequence[int], keepdims: bool = False) -> Any:
        count = math.prod(int(x.shape[axis]) for axis in axes)
        if self.integral(x):
            total = self.xp.sum(self.int64(x), tuple(axes), keepdims=keepdims)
            return self.xp.astype(self.xp.trunc_divide(total, self.like(max(count, 1), total)), x.dtype)
        wide = self.wide(x)
        total = self.xp.sum(wide, tuple(axes), dtype=wide.dtype, keepdims=keepdims)
        return self.xp.astype(self.xp.true_divide(total, self.like(count, total)), x.dtype)

    def reduce_max(self, x: Any, axes: Sequence[int], keepdims: bool = False) -> Any:
        nothing = self._of_nothing(x, axes, keepdims, least(self.out.dtype))
        return self.xp.amax(x, tuple(axes), keepdims=keepdims) if nothing is None else nothing

    def reduce_min(self, x: Any, axes: Sequence[int], keepdims: bool = False) -> Any:
        nothing = self._of_nothing(x, axes, keepdims, greatest(self.out.dtype))
        return self.xp.amin(x, tuple(axes), keepdims=keepdims) if nothing is None else nothing

    def reduce_prod(self, x: Any, axes: Sequence[int], keepdims: bool = False) -> Any:
        total = self.wide(x)
        for axis in sorted(axes, reverse=True):
            total = self.xp.prod(total, axis, dtype=total.dtype, keepdims=keepdims)
        return self.xp.astype(total, x.dtype)

    def argmax(self, x: Any, axis: int) -> Any:
        return self.int64(self.xp.argmax(x, axis))

    def argmin(self, x: Any, axis: int) -> Any:
        return self.int64(self.xp.argmin(x, axis))

    def softmax(self, x: Any, axis: int) -> Any:
        return self.xp.astype(self.xp.softmax(self.wide(x), axis), x.dtype)

    def log_softmax(self, x: Any, axis: int) -> Any:
        return self.xp.astype(self.xp.log_softmax(self.wide(x), axis), x.dtype)
