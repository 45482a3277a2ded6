"""Pools, by TensorFlow's kernels; and axis by axis with slices where those know no dilation or dtype."""

from typing import Any, Callable, Sequence

import numpy as np

from onnx_compat_tensorflow.windows import Pads, Window, Windows, full

__all__ = ["Pooling"]

Ints = Sequence[int]


class Pooling(Windows):
    """max_pool and avg_pool of `onnx_compat.primitives.linear`."""

    def max_pool(self, x: Any, kernel: Ints, strides: Ints, dilations: Ints, pads: Pads) -> Any:
        window = Window(tuple(kernel), tuple(strides), tuple(dilations), tuple(tuple(p) for p in pads))  # type: ignore[misc]
        return self.on_plane(window, self._max, x)

    def _max(self, window: Window, x: Any) -> Any:
        dtype = x.dtype.as_numpy_dtype
        least = -np.inf if x.dtype.is_floating else np.iinfo(dtype).min
        op = {2: "MaxPool", 3: "MaxPool3D"}.get(len(window.strides), "")
        if window.dilated or not op or not self.features.offers(op, x.dtype.name):
            x, _, window = self.padded(x, window, False, least, same=False)
            return self._sliding(self.maximum, x, window)
        x, padding, window = self.padded(x, window, op == "MaxPool" and self.features.holds("explicit MaxPool"), least)
        return self.op(op, x, ksize=full(window.kernel), **self.options(padding, window))

    def avg_pool(self, x: Any, kernel: Ints, strides: Ints, dilations: Ints) -> Any:
        window = Window(tuple(kernel), tuple(strides), tuple(dilations), ((0, 0),) * len(kernel))
        return self.on_plane(window, self._mean, x)

    def _mean(self, window: Window, x: Any) -> Any:
        op = {2: "AvgPool", 3: "AvgPool3D"}.get(len(window.strides), "")
        if not window.dilated and op and self.features.offers(op, x.dtype.name):
            return self.op(op, x, ksize=full(window.kernel), **self.options("VALID", window))
        total = self._sliding(lambda a, b: self.op("AddV2", a, b), x, window)
        return self.op("RealDiv", total, self.number(np.prod(window.kernel), x.dtype))

    def _sliding(self, combine: Callable[[Any, Any], Any], x: Any, window: Window) -> Any:
        """Windows are boxes: each axis of space can be combined by itself."""
        for axis, (taps, stride, dilation) in enumerate(zip(window.kernel, window.strides, window.dilations), 1):
            size = self.dim(x, axis)
            reach = (taps - 1) * dilation
            total = None
            for tap in range(taps):
                start = tap * dilation
                end = size - reach + start
                seen = x[(slice(None),) * axis + (slice(start, end, stride),)]
                total = seen if total is None else combine(total, seen)
            x = total
        return x
