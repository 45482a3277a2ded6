"""Emitter methods for convolutions, pools and matrix products, by layers and operations of Keras."""

from typing import Any, Callable, List, Optional, Sequence, Tuple, Union

import numpy as np

from onnx_compat.shim import UnsupportedError, Window, dtypes
from onnx_compat_keras.framework_types import Handle
from onnx_compat_keras.functional.base import Base, Known
from onnx_compat_keras.functional.shape import Shape
from onnx_compat_keras.functional.slicing import cut

__all__ = ["Windows"]


class Windows(Shape, Base):
    """Emitter methods for the primitives of `onnx_compat.primitives.linear`.

    They raise UnsupportedError for the cases that layers and operations of Keras cannot compute.
    """

    # -- convolutions --------------------------------------------------------------------------------------------------
    def conv(self, x: Handle, w: Handle, bias: Optional[Handle] = None, *, window: Window, groups: int) -> Handle:
        space = len(window.strides)
        self._check_space(space)
        if self._sums_in_float16():
            return self._through_float32(self.conv, x, w, bias, window=window, groups=groups)
        if self._can_be_weights(w, bias):
            filters, window = _resolve_dilations(np.asarray(w.array), window)
            x, padding = self._padding_for_layer(x, window)
            return self.layer(
                "Conv%dD" % space, x, weights=_weights(filters, bias), filters=filters.shape[-1],
                kernel_size=window.kernel, strides=_unify(window.strides), padding=padding,
                dilation_rate=_unify(window.dilations), groups=groups, use_bias=bias is not None,
                data_format="channels_last", kernel_initializer="zeros",
            )  # fmt: skip
        if window.is_dilated and not all(stride == 1 for stride in window.strides):
            raise UnsupportedError("Keras has no convolution with strides and dilations")
        if groups > 1:
            raise UnsupportedError("the filter of a grouped Keras layer is a weight")
        x, padding = self._padding_for_layer(x, window._replace(kernel=tuple(w.shape[:space])))
        out = self.ops.conv(
            self.tensor(x), self.tensor(w), strides=_unify(window.strides), padding=padding,
            data_format="channels_last", dilation_rate=_unify(window.dilations),
        )  # fmt: skip
        return self._add_bias(out, bias)

    def depthwise_conv(
        self, x: Handle, w: Handle, bias: Optional[Handle] = None, *, window: Window, groups: int
    ) -> Handle:
        space = len(window.strides)
        if not self._can_be_weights(w, bias):
            return self._depthwise_operation(x, w, bias, window, groups)
        if self._sums_in_float16():
            return self._through_float32(self.depthwise_conv, x, w, bias, window=window, groups=groups)
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
            "DepthwiseConv%dD" % space, x, weights=_weights(split, bias), kernel_size=window.kernel,
            strides=_unify(window.strides), padding=padding, dilation_rate=_unify(window.dilations),
            depth_multiplier=multiplier, use_bias=bias is not None, data_format="channels_last",
            depthwise_initializer="zeros",
        )  # fmt: skip

    def conv_transpose(
        self, x: Handle, w: Handle, bias: Optional[Handle] = None, *, window: Window, groups: int
    ) -> Handle:
        space, strides = len(window.strides), window.strides
        self._check_space(space)
        if not self._can_be_weights(w, bias):
            # Keras 3.15 does not keep the padding of a saved ops.conv_transpose.
            raise UnsupportedError("the filter of a transposed Keras convolution is a weight")
        if self._sums_in_float16():
            return self._through_float32(self.conv_transpose, x, w, bias, window=window, groups=groups)
        if groups > 1:
            return self._convolve_groups(x, w, bias, window, groups)
        kernel = np.swapaxes(_spread(np.asarray(w.array), window)[0], -1, -2)
        wide = [max(size, stride) for size, stride in zip(kernel.shape, strides)]
        kernel = np.pad(kernel, [(0, more - size) for more, size in zip(wide, kernel.shape)] + [(0, 0)] * 2)
        out = self.layer(
            "Conv%dDTranspose" % space, x, weights=_weights(kernel, bias), filters=kernel.shape[-2],
            kernel_size=kernel.shape[:space], strides=_unify(strides), padding="valid", use_bias=bias is not None,
            data_format="channels_last", kernel_initializer="zeros",
        )  # fmt: skip
        excess = [more - span for more, span in zip(wide, window.spans)]
        if not any(excess):
            return out
        return cut(self.ops, out, (slice(None), *(slice(None, -more or None) for more in excess), slice(None)))

    def _can_be_weights(self, *operands: Optional[Handle]) -> bool:
        """Whether a layer can hold the operands as its weights: constants, or None, outside the body of a branch or loop."""
        return self.has_weights and all(operand is None or isinstance(operand, Known) for operand in operands)

    def _add_bias(self, out: Handle, bias: Optional[Handle]) -> Handle:
        return out if bias is None else self.ops.add(out, self.tensor(bias))

    def _depthwise_operation(self, x: Handle, w: Handle, bias: Optional[Handle], window: Window, groups: int) -> Handle:
        """Compute a depthwise convolution whose filter is a tensor, by `keras.ops.depthwise_conv`."""
        space, kernel = len(window.strides), self.tensor(w)
        dilated_strides = window.is_dilated and any(stride != 1 for stride in window.strides)
        if (
            space > 2
            or len(set(window.strides)) > 1
            or dilated_strides
            or None in kernel.shape
            or self._sums_in_float16()
        ):
            raise UnsupportedError("the filter of this depthwise Keras convolution must be a constant")
        kernel = self.ops.reshape(kernel, (*kernel.shape[1:-1], groups, kernel.shape[-1] // groups))
        x, padding = self._padding_for_layer(x, window)
        out = self.ops.depthwise_conv(
            x, kernel, strides=_unify(window.strides), padding=padding, data_format="channels_last",
            dilation_rate=_unify(window.dilations),
        )  # fmt: skip
        return self._add_bias(out, bias)

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

    def _padding_for_layer(self, x: Handle, window: Window) -> Tuple[Any, str]:
        """Return (x as a tensor, padding mode of the layer).

        - If the window has no padding, the mode is "valid".
        - If the mode "same" pads as the window requires, the mode is "same".
        - Otherwise x is padded with zeros here, and the mode is "valid".
        """
        x = self.tensor(x)
        if not window.is_padded:
            return x, "valid"
        if window.has_same_padding(x.shape[1:-1]):
            return x, "same"
        dtype = self.computed or self.out.dtype
        zero = Known(np.zeros((), dtype.numpy), dtype)
        return self.pad_constant(x, [(0, 0), *window.pads, (0, 0)], zero), "valid"

    def _check_space(self, space: int) -> None:
        if space not in (1, 2, 3):
            raise UnsupportedError("Keras convolves over one to three spatial axes, not %d" % space)

    def _sums_in_float16(self) -> bool:
        """Whether a layer for the current node would accumulate in float16: a float16 result on TensorFlow.

        False inside `_through_float32`, which sets `self.computed`.
        """
        return self.back_end == "tensorflow" and self.computed is None and self.out.dtype.name == "float16"

    def _through_float32(self, method: Callable[..., Any], x: Handle, w: Handle, bias: Handle, **params: Any) -> Handle:
        def to_float32(handle: Handle) -> Handle:
            if isinstance(handle, Known):
                return Known(handle.array.astype(np.float32), dtypes.float32)
            return None if handle is None else self.ops.cast(handle, "float32")

        self.computed = dtypes.float32
        try:
            out = method(to_float32(x), to_float32(w), to_float32(bias), **params)
        finally:
            self.computed = None
        return self.ops.cast(out, "float16")

    # -- pools -------------------------------------------------------------------------------------------------------
    def max_pool(self, x: Handle, window: Window) -> Handle:
        x = self.tensor(x)
        dtype = self.out.dtype
        _check_pool(window)
        if dtype.kind != "f":
            raise UnsupportedError("Keras pools floats only")
        padding = "valid"
        if window.is_padded:
            if window.has_same_padding(x.shape[1:-1]):
                padding = "same"
            else:
                x = self.ops.pad(x, [(0, 0), *window.pads, (0, 0)], constant_values=-float("inf"))
        return self._pooling_layer("Max", x, window, padding)

    def avg_pool(self, x: Handle, window: Window) -> Handle:
        _check_pool(window)
        return self._pooling_layer("Average", self.tensor(x), window, "valid")

    def _pooling_layer(self, kind: str, x: Handle, window: Window, padding: str) -> Handle:
        return self.layer(
            "%sPooling%dD" % (kind, len(window.kernel)), x, pool_size=_unify(window.kernel),
            strides=_unify(window.strides), padding=padding, data_format="channels_last",
        )  # fmt: skip

    # -- products ------------------------------------------------------------------------------------------------------
    def matmul(
        self, x: Handle, y: Handle, bias: Optional[Handle] = None, transpose_x: bool = False, transpose_y: bool = False
    ) -> Handle:
        if self.out.dtype.kind != "f":  # Keras on TensorFlow multiplies matrices of int32 in float32
            raise UnsupportedError("a Keras model multiplies matrices of floats only")
        if transpose_x:
            x = self._swap_last_axes(x)
        if isinstance(y, Known):
            y = Known(np.swapaxes(y.array, -1, -2), y.dtype) if transpose_y else y
            if (
                self.out.dtype.kind == "f"
                and y.ndim == 2
                and self._can_be_weights(y, bias)
                and not isinstance(x, Known)
            ):
                return self.layer(
                    "Dense", x, weights=_weights(np.ascontiguousarray(y.array), bias), units=y.array.shape[1],
                    use_bias=bias is not None, kernel_initializer="zeros",
                )  # fmt: skip
        elif transpose_y:
            y = self._swap_last_axes(y)
        return self._add_bias(self.ops.matmul(self.tensor(x), self.tensor(y)), bias)

    def _swap_last_axes(self, x: Handle) -> Handle:
        if isinstance(x, Known):
            return Known(np.swapaxes(x.array, -1, -2), x.dtype)
        rank = len(x.shape)
        return self.ops.transpose(x, (*range(rank - 2), rank - 1, rank - 2))


def _unify(sizes: Sequence[int]) -> Union[int, Tuple[int, ...]]:
    """Return a single int if all sizes (at least one) are equal, else a tuple of ints: the forms that Keras layers accept."""
    return int(sizes[0]) if len(set(sizes)) == 1 else tuple(map(int, sizes))


def _weights(kernel: np.ndarray, bias: Optional[Known]) -> List[np.ndarray]:
    return [np.ascontiguousarray(kernel)] + ([] if bias is None else [np.ascontiguousarray(bias.array)])


def _check_pool(window: Window) -> None:
    if len(window.kernel) not in (1, 2, 3) or window.is_dilated:
        raise UnsupportedError("Keras pools over one to three spatial axes, without dilations")


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
