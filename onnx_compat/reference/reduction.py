"""Combining elements along axes. Sums of float16 are made in float32."""

from typing import Any, Sequence

import numpy as np

from onnx_compat.reference.elementwise import Elementwise
from onnx_compat.reference.quiet import quiet, widened

__all__ = ["Reduction"]


def _least(dtype: Any) -> Any:
    return -np.inf if dtype.kind == "f" else False if dtype.kind == "b" else np.iinfo(dtype).min


def _greatest(dtype: Any) -> Any:
    return np.inf if dtype.kind == "f" else True if dtype.kind == "b" else np.iinfo(dtype).max


def _reduced(ufunc: Any, x: Any, axes: Sequence[int], keepdims: bool, initial: Any) -> Any:
    """Symbolic sizes are combined as the objects that they are; everything else as the dtype that it has."""
    dtype = None if x.dtype == object else x.dtype
    wide = None if dtype is None else widened(x).dtype
    return np.asarray(ufunc.reduce(x, tuple(axes), wide, keepdims=keepdims, initial=initial), dtype)


class Reduction:
    """The primitives of `onnx_compat.primitives.reduction`."""

    @quiet
    def reduce_sum(self, x: Any, axes: Sequence[int], keepdims: bool) -> Any:
        return _reduced(np.add, x, axes, keepdims, 0)

    @quiet
    def reduce_prod(self, x: Any, axes: Sequence[int], keepdims: bool) -> Any:
        return _reduced(np.multiply, x, axes, keepdims, 1)

    @quiet
    def reduce_mean(self, x: Any, axes: Sequence[int], keepdims: bool) -> Any:
        count = np.prod([x.shape[axis] for axis in axes], dtype=np.int64)
        wide = {"i": np.int64, "u": np.uint64}.get(x.dtype.kind, widened(x).dtype)
        total = _reduced(np.add, x.astype(wide, copy=False), axes, keepdims, 0)
        return Elementwise.div(total, np.asarray(count, total.dtype)).astype(x.dtype, copy=False)

    def reduce_max(self, x: Any, axes: Sequence[int], keepdims: bool) -> Any:
        return _reduced(np.maximum, x, axes, keepdims, _least(x.dtype))

    def reduce_min(self, x: Any, axes: Sequence[int], keepdims: bool) -> Any:
        return _reduced(np.minimum, x, axes, keepdims, _greatest(x.dtype))

    @quiet
    def softmax(self, x: Any, axis: int) -> Any:
        e = _shifted(widened(x), axis)
        np.exp(e, e)
        e /= np.add.reduce(e, axis, keepdims=True)
        return e.astype(x.dtype, copy=False)

    @quiet
    def log_softmax(self, x: Any, axis: int) -> Any:
        z = _shifted(widened(x), axis)
        z -= np.log(np.add.reduce(np.exp(z), axis, keepdims=True))
        return z.astype(x.dtype, copy=False)


def _shifted(x: Any, axis: int) -> Any:
    """x less its largest element, so that no exponential overflows; a new array."""
    return np.asarray(x - np.maximum.reduce(x, axis, keepdims=True, initial=-np.inf))
