"""Emitter methods for pools: a layer if Keras has one for the window, else the strided slices at the taps of the window.

A window of k x k taps needs 2 k slices, because the axes are reduced one after the other:

    max_pool(x, 2x1, dilation 3)  =>  maximum(x[:, 0:-3], x[:, 3:])
"""

import math
from typing import Callable

import numpy as np

from onnx_compat.shim import Window, dtypes
from onnx_compat_keras.features import pools_volumes
from onnx_compat_keras.framework_types import Handle
from onnx_compat_keras.functional.base import Known, storage, unify
from onnx_compat_keras.functional.shape import Shape
from onnx_compat_keras.functional.slicing import cut

__all__ = ["Pools"]


class Pools(Shape):
    """Emitter methods for the primitives `max_pool` and `avg_pool`."""

    def max_pool(self, x: Handle, window: Window) -> Handle:
        x, dtype = self.tensor(x), self.out.dtype
        has_layer = dtype.kind == "f" and _has_layer(window)
        if has_layer and window.is_padded and window.has_same_padding(x.shape[1:-1]):
            return self._pooling_layer("Max", x, window, "same")
        if window.is_padded:
            least = -math.inf if dtype.kind == "f" else int(np.iinfo(storage(dtype)).min)
            x = self.ops.pad(x, [(0, 0), *window.pads, (0, 0)], constant_values=least)
        if has_layer:
            return self._pooling_layer("Max", x, window, "valid")
        return self.restore_dtype(self._combine_taps(self.ops.maximum, x, window))

    def avg_pool(self, x: Handle, window: Window) -> Handle:
        x = self.tensor(x)
        if _has_layer(window) and (len(window.kernel) < 3 or pools_volumes(self.out.dtype.name)):
            return self._pooling_layer("Average", x, window, "valid")
        dtype = self.out.dtype.name
        wide = self.ops.cast(x, "float32") if dtype == "float16" else x
        total = self._combine_taps(self.ops.add, wide, window)
        carrier = dtypes.float32 if dtype == "float16" else self.out.dtype
        mean = self.real_quotient(total, Known(np.array(math.prod(window.kernel), carrier.numpy), carrier))
        return self.ops.cast(mean, dtype) if dtype == "float16" else mean

    def _pooling_layer(self, kind: str, x: Handle, window: Window, padding: str) -> Handle:
        return self.layer(
            "%sPooling%dD" % (kind, len(window.kernel)), x, pool_size=unify(window.kernel),
            strides=unify(window.strides), padding=padding, data_format="channels_last",
        )  # fmt: skip

    def _combine_taps(self, combine: Callable[[Handle, Handle], Handle], x: Handle, window: Window) -> Handle:
        """Return x, which the caller has padded, with each window reduced by `combine`: maximum or addition."""
        for axis, (taps, stride, dilation, _) in enumerate(zip(*window), 1):
            last = (taps - 1) * dilation
            total: Handle = None
            for start in range(0, last + 1, dilation):
                part = slice(start or None, start - last or None, None if stride == 1 else stride)
                tap = x if part == slice(None) else cut(self.ops, x, (*[slice(None)] * axis, part))
                total = tap if total is None else combine(total, tap)
            x = total
        return x


def _has_layer(window: Window) -> bool:
    """Whether Keras has a pooling layer for the window: one to three spatial axes, without dilations."""
    return len(window.kernel) in (1, 2, 3) and not window.is_dilated
