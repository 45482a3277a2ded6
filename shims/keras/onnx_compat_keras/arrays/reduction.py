"""Emitter methods for the reductions, by functions of the namespace `xp` (JAX or torch).

Sums of float16 and bfloat16 are computed in float32.
"""

import math
from typing import Any, Sequence

import numpy as np

from onnx_compat.shim import DType
from onnx_compat_keras.framework_types import Array

__all__ = ["Reduction"]


def least(dtype: DType) -> float:
    """Return the maximum of an empty set: -infinity for a float dtype, else the least integer."""
    return -np.inf if dtype.kind == "f" else dtype.min


def greatest(dtype: DType) -> float:
    """Return the minimum of an empty set: infinity for a float dtype, else the greatest integer."""
    return np.inf if dtype.kind == "f" else dtype.max


class Reduction:
    """Emitter methods for the primitives of `onnx_compat.primitives.reduction`."""

    xp: Any
    out: Any
    array: Any
    like: Any
    widen: Any
    is_integral: Any
    int64: Any

    def _empty_result(self, x: Array, axes: Sequence[int], keepdims: bool, value: float) -> Array:
        """Return the result of a reduction of x over an empty axis: an array filled with `value`.

        Returns None if no axis in `axes` is empty.
        """
        if all(x.shape[axis] for axis in axes):
            return None
        kept = [1 if k in axes else int(n) for k, n in enumerate(x.shape) if keepdims or k not in axes]
        return self.array(np.full(kept, value, self.out.dtype.numpy), self.out.dtype)

    def reduce_sum(self, x: Array, axes: Sequence[int], keepdims: bool = False) -> Array:
        wide = self.widen(x)
        return self.xp.astype(self.xp.sum(wide, tuple(axes), dtype=wide.dtype, keepdims=keepdims), x.dtype)

    def reduce_mean(self, x: Array, axes: Sequence[int], keepdims: bool = False) -> Array:
        count = math.prod(int(x.shape[axis]) for axis in axes)
        if self.is_integral(x):
            total = self.xp.sum(self.int64(x), tuple(axes), keepdims=keepdims)
            return self.xp.astype(self.xp.trunc_divide(total, self.like(max(count, 1), total)), x.dtype)
        wide = self.widen(x)
        total = self.xp.sum(wide, tuple(axes), dtype=wide.dtype, keepdims=keepdims)
        return self.xp.astype(self.xp.true_divide(total, self.like(count, total)), x.dtype)

    def reduce_max(self, x: Array, axes: Sequence[int], keepdims: bool = False) -> Array:
        empty = self._empty_result(x, axes, keepdims, least(self.out.dtype))
        return self.xp.amax(x, tuple(axes), keepdims=keepdims) if empty is None else empty

    def reduce_min(self, x: Array, axes: Sequence[int], keepdims: bool = False) -> Array:
        empty = self._empty_result(x, axes, keepdims, greatest(self.out.dtype))
        return self.xp.amin(x, tuple(axes), keepdims=keepdims) if empty is None else empty

    def reduce_prod(self, x: Array, axes: Sequence[int], keepdims: bool = False) -> Array:
        total = self.widen(x)
        for axis in sorted(axes, reverse=True):
            total = self.xp.prod(total, axis, dtype=total.dtype, keepdims=keepdims)
        return self.xp.astype(total, x.dtype)

    def argmax(self, x: Array, axis: int) -> Array:
        return self.int64(self.xp.argmax(x, axis))

    def argmin(self, x: Array, axis: int) -> Array:
        return self.int64(self.xp.argmin(x, axis))

    def softmax(self, x: Array, axis: int) -> Array:
        return self.xp.astype(self.xp.softmax(self.widen(x), axis), x.dtype)

    def log_softmax(self, x: Array, axis: int) -> Array:
        return self.xp.astype(self.xp.log_softmax(self.widen(x), axis), x.dtype)
