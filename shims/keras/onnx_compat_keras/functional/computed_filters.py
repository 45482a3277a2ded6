"""Convolutions whose filter is a tensor of the model, by `keras.ops.conv`: layers accept filters as weights only.

A grouped convolution is a convolution of each slice of the channels. Zeros between the taps of the filter replace the dilations of
a strided convolution. A transposed convolution is a convolution of the image with zeros between its elements.
"""

from typing import Any, List, Optional, Tuple

import numpy as np

from onnx_compat.shim import UnsupportedError, Window, dtypes
from onnx_compat_keras.framework_types import Handle
from onnx_compat_keras.functional.base import Known, unify
from onnx_compat_keras.functional.products import Products
from onnx_compat_keras.functional.slicing import cut

__all__ = ["ComputedFilters"]

#: The most groups of a convolution by a computed filter: each group is a convolution of its own in the file.
_MOST_GROUPS = 256


class ComputedFilters(Products):
    """Emitter helpers for convolutions whose filter is a tensor, or a constant in the body of a branch or loop."""

    conv: Any

    def _conv_computed(self, x: Handle, w: Handle, bias: Optional[Handle], window: Window, groups: int) -> Handle:
        """Compute a convolution. `w` is [spatial..., input channels of a group, output channels].

        The kernel of `window` is not read. A `bias` of None adds nothing. Several groups raise UnsupportedError if a
        number of channels is unknown, or if there are more than 256 groups.
        """
        x, w, space = self.tensor(x), self.tensor(w), len(window.strides)
        window = window._replace(kernel=tuple(w.shape[:space]))
        if window.is_dilated and any(stride != 1 for stride in window.strides):
            w, window = self._spread_taps(w, window)
        x, padding = self._padding_for_layer(x, window)
        inputs, outputs = (self._channels_of_group(tensor, groups) for tensor in (x, w))
        parts: List[Handle] = []
        for k in range(groups):
            part = x if groups == 1 else cut(self.ops, x, (Ellipsis, slice(k * inputs, (k + 1) * inputs)))
            taps = w if groups == 1 else cut(self.ops, w, (Ellipsis, slice(k * outputs, (k + 1) * outputs)))
            out = self.ops.conv(
                part, taps, strides=unify(window.strides), padding=padding, data_format="channels_last",
                dilation_rate=unify(window.dilations),
            )  # fmt: skip
            parts.append(out)
        return self._add_bias(parts[0] if groups == 1 else self.ops.concatenate(parts, axis=-1), bias)

    def _channels_of_group(self, tensor: Handle, groups: int) -> int:
        """Return the number of channels in each group: the length of the last axis of `tensor`, divided by `groups`.

        Returns 0 for a single group, whose channels need no split. Raises UnsupportedError for more than 256 groups,
        and if there are several groups and the length is unknown.
        """
        if groups == 1:
            return 0
        if groups > _MOST_GROUPS:
            raise UnsupportedError("a Keras file holds at most %d groups with a computed filter" % _MOST_GROUPS)
        if tensor.shape[-1] is None:
            raise UnsupportedError("a grouped Keras convolution by a computed filter needs a known number of channels")
        return int(tensor.shape[-1]) // groups

    def _depthwise_computed(self, x: Handle, w: Handle, bias: Optional[Handle], window: Window, groups: int) -> Handle:
        """Compute a depthwise convolution. `w` is [1, spatial..., output channels].

        A `bias` of None adds nothing. Raises UnsupportedError if a size of `w` is unknown.

        A window that `keras.ops.depthwise_conv` does not accept is computed by `_conv_computed`. That also raises
        UnsupportedError for more than 256 groups, and for an unknown number of channels of x.
        """
        space, kernel = len(window.strides), self.tensor(w)
        if None in kernel.shape:
            raise UnsupportedError("the filter of a depthwise Keras convolution must have a known shape")
        sizes = tuple(kernel.shape[1:-1])
        dilated_strides = window.is_dilated and any(stride != 1 for stride in window.strides)
        if space > 2 or len(set(window.strides)) > 1 or len(set(window.dilations)) > 1 or dilated_strides:
            kernel = self.ops.reshape(kernel, (*sizes, 1, kernel.shape[-1]))
            return self._conv_computed(x, kernel, bias, window, groups)
        kernel = self.ops.reshape(kernel, (*sizes, groups, kernel.shape[-1] // groups))
        x, padding = self._padding_for_layer(x, window)
        out = self.ops.depthwise_conv(
            x, kernel, strides=unify(window.strides), padding=padding, data_format="channels_last",
            dilation_rate=unify(window.dilations),
        )  # fmt: skip
        return self._add_bias(out, bias)

    def _transpose_computed(self, x: Handle, w: Handle, bias: Optional[Handle], window: Window, groups: int) -> Handle:
        """Compute a transposed convolution. `w` is [spatial..., input channels, output channels of a group].

        The result is not cropped: the pads of the window are not read. A `bias` of None adds nothing.

        Raises UnsupportedError if a spatial size of `w` is unknown. Several groups also raise it if a number of
        channels is unknown, or if there are more than 256 groups.

        `keras.ops.conv_transpose` cannot be used: Keras 3.15 does not keep its padding in a file.
        """
        x, w, space = self.tensor(x), self.tensor(w), len(window.strides)
        kernel = tuple(w.shape[:space])
        if None in kernel:
            raise UnsupportedError("a transposed Keras convolution needs a filter of a known size")
        for axis, stride in enumerate(window.strides, 1):
            x = self._insert_zeros(x, axis, stride)
        for axis in range(space):
            w = self.ops.flip(w, axis)
        if groups > 1:
            inputs = self._channels_of_group(x, groups)
            parts = [
                cut(self.ops, w, (*[slice(None)] * space, slice(k * inputs, (k + 1) * inputs))) for k in range(groups)
            ]
            w = self.ops.concatenate(parts, axis=-1)
        full = [((size - 1) * dilation,) * 2 for size, dilation in zip(kernel, window.dilations)]
        return self.conv(x, w, bias, window=Window.of(kernel, None, window.dilations, full), groups=groups)

    def _spread_taps(self, w: Handle, window: Window) -> Tuple[Handle, Window]:
        """Return (filter, window) in which zeros between the taps of the filter w replace the dilations.

        The filter is [spatial..., channels...]. The returned window has the kernel of the larger filter, and dilations
        of 1.
        """
        for axis, dilation in enumerate(window.dilations):
            w = self._insert_zeros(w, axis, dilation)
        spans = tuple(w.shape[: len(window.dilations)])
        return w, window._replace(kernel=spans, dilations=(1,) * len(spans))

    def _insert_zeros(self, x: Handle, axis: int, factor: int) -> Handle:
        """Return x with `factor` - 1 zeros between the elements along an axis: [a, b] -> [a, 0, b] for a factor of 2.

        For a factor of 1, x itself is returned.
        """
        if factor == 1:
            return x
        ops, size = self.unchecked_ops, self.dim(x, axis)
        if isinstance(size, int):
            every = np.arange(max((size - 1) * factor + 1, 0), dtype=np.int32)
            source = self.operand(Known(every // factor, dtypes.int32))
            is_element = self.tensor(Known(every % factor == 0, dtypes.bool_))
        else:
            total = self.combine_sizes("add", self.combine_sizes("mul", size, factor), 1 - factor)
            every = self.positions(total)
            source, is_element = ops.floor_divide(every, factor), ops.equal(ops.mod(every, factor), 0)
        repeated = self.ops.take(x, source, axis=axis)
        mask = ops.reshape(is_element, (-1, *[1] * (len(x.shape) - 1 - axis)))
        return self.ops.where(mask, repeated, self.ops.zeros_like(repeated))

    def _add_bias(self, out: Handle, bias: Optional[Handle]) -> Handle:
        return out if bias is None else self.ops.add(out, self.tensor(bias))

    def _padding_for_layer(self, x: Handle, window: Window) -> Tuple[Any, str]:
        """Return (x as a tensor, padding mode of the layer).

        - If the window has no padding, the mode is "valid".
        - If the mode "same" pads as the window requires, the mode is "same".
        - Otherwise x is returned padded with zeros, and the mode is "valid".
        """
        x = self.tensor(x)
        if not window.is_padded:
            return x, "valid"
        if window.has_same_padding(x.shape[1:-1]):
            return x, "same"
        dtype = self.computed or self.out.dtype
        zero = Known(np.zeros((), dtype.numpy), dtype)
        return self.pad_constant(x, [(0, 0), *window.pads, (0, 0)], zero), "valid"
