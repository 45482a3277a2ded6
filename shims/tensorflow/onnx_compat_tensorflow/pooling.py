"""Emitter methods for pools, by TensorFlow's kernels, or by slices if no kernel supports the dilation or dtype."""

from typing import Callable

import numpy as np

from onnx_compat.shim import Window
from onnx_compat_tensorflow.framework_types import TfTensor
from onnx_compat_tensorflow.windows import Windows, full

__all__ = ["Pooling"]


class Pooling(Windows):
    """Emitter methods for max_pool and avg_pool of `onnx_compat.primitives.linear`."""

    def max_pool(self, x: TfTensor, window: Window) -> TfTensor:
        return self.apply_on_plane(window, self._max, x)

    def _max(self, window: Window, x: TfTensor) -> TfTensor:
        dtype = x.dtype.as_numpy_dtype
        least = -np.inf if x.dtype.is_floating else np.iinfo(dtype).min
        op = {2: "MaxPool", 3: "MaxPool3D"}.get(len(window.strides), "")
        if window.is_dilated or not op or not self.features.can_run(op, x.dtype.name):
            x, _, window = self.pad_for_kernel(x, window, False, least, same=False)
            return self._combine_windows(self.maximum, x, window)
        x, padding, window = self.pad_for_kernel(
            x, window, op == "MaxPool" and self.features.holds("explicit MaxPool"), least
        )
        return self.op(op, x, ksize=full(window.kernel), **self.options(padding, window))

    def avg_pool(self, x: TfTensor, window: Window) -> TfTensor:
        return self.apply_on_plane(window, self._mean, x)

    def _mean(self, window: Window, x: TfTensor) -> TfTensor:
        op = {2: "AvgPool", 3: "AvgPool3D"}.get(len(window.strides), "")
        if not window.is_dilated and op and self.features.can_run(op, x.dtype.name):
            return self.op(op, x, ksize=full(window.kernel), **self.options("VALID", window))
        total = self._combine_windows(lambda a, b: self.op("AddV2", a, b), x, window)
        return self.op("RealDiv", total, self.number(np.prod(window.kernel), x.dtype))

    def _combine_windows(
        self, combine: Callable[[TfTensor, TfTensor], TfTensor], x: TfTensor, window: Window
    ) -> TfTensor:
        """Reduce each window of a channels-last x by `combine` (maximum or addition). Ignore the pads of the window.

        The spatial axes are reduced one after the other. For each axis, the strided slices at the kernel positions are
        combined: a k x k pool takes 2 k slices.
        """
        for axis, (taps, stride, dilation) in enumerate(zip(window.kernel, window.strides, window.dilations), 1):
            size = self.dim(x, axis)
            reach = (taps - 1) * dilation
            total = None
            for tap in range(taps):
                start = tap * dilation
                end = size - reach + start
                tap_slice = x[(slice(None),) * axis + (slice(start, end, stride),)]
                total = tap_slice if total is None else combine(total, tap_slice)
            x = total
        return x
