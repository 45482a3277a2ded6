"""Reductions along axes in numpy. Sums of float16 are computed in float32."""

from typing import Any, Sequence

import numpy as np

from onnx_compat.reference.arrays import Array
from onnx_compat.reference.elementwise import Elementwise
from onnx_compat.reference.quiet import quiet, widen

__all__ = ["Reduction"]


def _least(dtype: np.dtype) -> Any:
    return -np.inf if dtype.kind == "f" else False if dtype.kind == "b" else np.iinfo(dtype).min


def _greatest(dtype: np.dtype) -> Any:
    return np.inf if dtype.kind == "f" else True if dtype.kind == "b" else np.iinfo(dtype).max


def _reduce(ufunc: np.ufunc, x: Array, axes: Sequence[int], keepdims: bool, initial: float) -> Any:
    """Reduce x along the axes by a ufunc that starts with the value `initial`. The result has the dtype of x.

    float16 is computed in float32; an object array of sizes stays an object array. Without elements, the result is
    `initial`.
    """
    dtype = None if x.dtype == object else x.dtype
    wide = None if dtype is None else widen(x).dtype
    return np.asarray(ufunc.reduce(x, tuple(axes), wide, keepdims=keepdims, initial=initial), dtype)


class Reduction:
    """The primitives of `onnx_compat.primitives.reduction` in numpy."""

    @quiet
    def reduce_sum(self, x: Array, axes: Sequence[int], keepdims: bool) -> Any:
        return _reduce(np.add, x, axes, keepdims, 0)

    @quiet
    def reduce_prod(self, x: Array, axes: Sequence[int], keepdims: bool) -> Any:
        return _reduce(np.multiply, x, axes, keepdims, 1)

    @quiet
    def reduce_mean(self, x: Array, axes: Sequence[int], keepdims: bool) -> Any:
        count = np.prod([x.shape[axis] for axis in axes], dtype=np.int64)
        wide = {"i": np.int64, "u": np.uint64}.get(x.dtype.kind, widen(x).dtype)
        total = _reduce(np.add, x.astype(wide, copy=False), axes, keepdims, 0)
        return Elementwise.div(total, np.asarray(count, total.dtype)).astype(x.dtype, copy=False)

    def reduce_max(self, x: Array, axes: Sequence[int], keepdims: bool) -> Any:
        return _reduce(np.maximum, x, axes, keepdims, _least(x.dtype))

    def reduce_min(self, x: Array, axes: Sequence[int], keepdims: bool) -> Any:
        return _reduce(np.minimum, x, axes, keepdims, _greatest(x.dtype))

    @quiet
    def softmax(self, x: Array, axis: int) -> Any:
        e = _subtract_maximum(widen(x), axis)
        np.exp(e, e)
        e /= np.add.reduce(e, axis, keepdims=True)
        return e.astype(x.dtype, copy=False)

    @quiet
    def log_softmax(self, x: Array, axis: int) -> Any:
        z = _subtract_maximum(widen(x), axis)
        z -= np.log(np.add.reduce(np.exp(z), axis, keepdims=True))
        return z.astype(x.dtype, copy=False)


def _subtract_maximum(x: Array, axis: int) -> Any:
    """Return x minus its maximum along the axis, as a new array, so that no exponential overflows."""
    return np.asarray(x - np.maximum.reduce(x, axis, keepdims=True, initial=-np.inf))
