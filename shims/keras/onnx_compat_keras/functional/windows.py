"""Emitter methods for convolutions, by layers and operations of Keras."""

from typing import List, Optional, Tuple

import numpy as np

from onnx_compat.shim import UnsupportedError, Window
from onnx_compat_keras.framework_types import Handle
from onnx_compat_keras.functional.base import Known, kernel_weights, unify
from onnx_compat_keras.functional.computed_filters import ComputedFilters
from onnx_compat_keras.functional.slicing import cut

__all__ = ["Windows"]


class Windows(ComputedFilters):
    """Emitter methods for the convolutions of `onnx_compat.primitives.linear`.

    They raise UnsupportedError for the cases that layers and operations of Keras cannot compute.
    """

    # -- convolutions --------------------------------------------------------------------------------------------------
    def conv(self, x: Handle, w: Handle, bias: Optional[Handle] = None, *, window: Window, groups: int) -> Handle:
        space = len(window.strides)
        self._check_space(space)
        if self.sums_in_float16():
            return self.through_float32(self.conv, x, w, bias, window=window, groups=groups)
        if self._can_be_weights(w, bias):
            filters, window = _resolve_dilations(np.asarray(w.array), window)
            x, padding = self._padding_for_layer(x, window)
            return self.layer(
                "Conv%dD" % space, x, weights=kernel_weights(filters, bias), filters=filters.shape[-1],
                kernel_size=window.kernel, strides=unify(window.strides), padding=padding,
                dilation_rate=unify(window.dilations), groups=groups, use_bias=bias is not None,
                data_format="channels_last", kernel_initializer="zeros",
            )  # fmt: skip
        return self._conv_computed(x, w, bias, window, groups)

    def depthwise_conv(
        self, x: Handle, w: Handle, bias: Optional[Handle] = None, *, window: Window, groups: int
    ) -> Handle:
        space = len(window.strides)
        if self.sums_in_float16():
            return self.through_float32(self.depthwise_conv, x, w, bias, window=window, groups=groups)
        if not self._can_be_weights(w, bias):
            return self._depthwise_computed(x, w, bias, window, groups)
        filters = np.asarray(w.array)[0]
        if space > 2 or len(set(window.strides)) > 1 or x.shape[-1] is None:
            return self.conv(x, Known(filters[..., None, :], w.dtype), bias, window=window, groups=groups)
        filters, window = _resolve_dilations(filters, window)
        if len(set(window.dilations)) > 1:
            filters, window = _spread(filters, window)
        x, padding = self._padding_for_layer(x, window)
        multiplier = filters.shape[-1] // groups
        split = filters.reshape(*filters.shape[:-1], groups, multiplier)
        return self.layer(
            "DepthwiseConv%dD" % space, x, weights=kernel_weights(split, bias), kernel_size=window.kernel,
            strides=unify(window.strides), padding=padding, dilation_rate=unify(window.dilations),
            depth_multiplier=multiplier, use_bias=bias is not None, data_format="channels_last",
            depthwise_initializer="zeros",
        )  # fmt: skip

    def conv_transpose(
        self, x: Handle, w: Handle, bias: Optional[Handle] = None, *, window: Window, groups: int
    ) -> Handle:
        space, strides = len(window.strides), window.strides
        self._check_space(space)
        if self.sums_in_float16():
            return self.through_float32(self.conv_transpose, x, w, bias, window=window, groups=groups)
        if not self._can_be_weights(w, bias):
            return self._transpose_computed(x, w, bias, window, groups)
        if groups > 1:
            return self._convolve_groups(x, w, bias, window, groups)
        kernel = np.swapaxes(_spread(np.asarray(w.array), window)[0], -1, -2)
        wide = [max(size, stride) for size, stride in zip(kernel.shape, strides)]
        kernel = np.pad(kernel, [(0, more - size) for more, size in zip(wide, kernel.shape)] + [(0, 0)] * 2)
        out = self.layer(
            "Conv%dDTranspose" % space, x, weights=kernel_weights(kernel, bias), filters=kernel.shape[-2],
            kernel_size=kernel.shape[:space], strides=unify(strides), padding="valid", use_bias=bias is not None,
            data_format="channels_last", kernel_initializer="zeros",
        )  # fmt: skip
        excess = [more - span for more, span in zip(wide, window.spans)]
        if not any(excess):
            return out
        return cut(self.ops, out, (slice(None), *(slice(None, -more or None) for more in excess), slice(None)))

    def _convolve_groups(self, x: Handle, w: Known, bias: Handle, window: Window, groups: int) -> Handle:
        """Compute a grouped transposed convolution, which Keras lacks, by a layer for each group and a Concatenate.

        `w` is [spatial..., input channels, output channels of a group]. `bias`: a `Known` with the output channels of
        all groups, or None.
        """
        width, outputs = w.array.shape[-2] // groups, w.array.shape[-1]
        parts: List[Handle] = []
        for k in range(groups):
            part = cut(self.ops, x, (Ellipsis, slice(k * width, (k + 1) * width)))
            filters = Known(w.array[..., k * width : (k + 1) * width, :], w.dtype)
            shift = None if bias is None else Known(bias.array[k * outputs : (k + 1) * outputs], bias.dtype)
            parts.append(self.conv_transpose(part, filters, shift, window=window, groups=1))
        return self.layer("Concatenate", parts, axis=-1)

    def _check_space(self, space: int) -> None:
        if space not in (1, 2, 3):
            raise UnsupportedError("Keras convolves over one to three spatial axes, not %d" % space)


def _resolve_dilations(filters: np.ndarray, window: Window) -> Tuple[np.ndarray, Window]:
    """Return (filter, window) for a Keras layer, which does not accept strides together with dilations.

    The filter is [spatial..., input channels, output channels]. With strides and dilations, zeros between the taps of
    the filter replace the dilations. The returned window then has the kernel of the larger filter, and dilations of 1.
    Otherwise the filter and the window are returned unchanged.
    """
    if all(stride == 1 for stride in window.strides):
        return filters, window
    return _spread(filters, window)


def _spread(filters: np.ndarray, window: Window) -> Tuple[np.ndarray, Window]:
    """Return (filter, window) in which zeros between the taps of the filter replace the dilations.

    The filter is [spatial..., channels...]. The returned window has the kernel of the larger filter, and dilations of
    1. Without dilations, the filter and the window are returned unchanged.
    """
    if not window.is_dilated:
        return filters, window
    spans = tuple(window.spans)
    wide = np.zeros((*spans, *filters.shape[len(spans) :]), filters.dtype)
    wide[tuple(slice(None, None, dilation) for dilation in window.dilations)] = filters
    return wide, window._replace(kernel=spans, dilations=(1,) * len(spans))
