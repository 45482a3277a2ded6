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


class Reduction:
    """The primitives of `onnx_compat.primitives.reduction`."""

    @quiet
    def reduce_sum(self, x: Any, axes: Sequence[int], keepdims: bool) -> Any:
        wide = widened(x)
        total = np.add.reduce(wide, tuple(axes), wide.dtype, keepdims=keepdims, initial=0)
        return np.asarray(total, None if x.dtype == object else x.dtype)

    @quiet
    def reduce_prod(self, x: Any, axes: Sequence[int], keepdims: bool) -> Any:
        wide = widened(x)
        total = np.multiply.reduce(wide, tuple(axes), wide.dtype, keepdims=keepdims, initial=1)
        return np.asarray(total, None if x.dtype == object else x.dtype)

    @quiet
    def reduce_mean(self, x: Any, axes: Sequence[int], keepdims: bool) -> Any:
        count = np.prod([x.shape[axis] for axis in axes], dtype=np.int64)
        wide = {"i": np.int64, "u": np.uint64}.get(x.dtype.kind, widened(x).dtype)
        total = np.asarray(np.add.reduce(x, tuple(axes), wide, keepdims=keepdims))
        return Elementwise.div(total, np.asarray(count, total.dtype)).astype(x.dtype, copy=False)

    def reduce_max(self, x: Any, axes: Sequence[int], keepdims: bool) -> Any:
        return np.maximum.reduce(x, tuple(axes), keepdims=keepdims, initial=_least(x.dtype))

    def reduce_min(self, x: Any, axes: Sequence[int], keepdims: bool) -> Any:
        return np.minimum.reduce(x, tuple(axes), keepdims=keepdims, initial=_greatest(x.dtype))

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
