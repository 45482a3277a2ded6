"""Convolutions, pools and matrix products as layers."""

from typing import Any, Callable, List, Optional, Sequence, Tuple, Union

import numpy as np

from onnx_compat.shim import UnsupportedError, dtypes
from onnx_compat_keras.framework_types import Handle, Ints, Pads
from onnx_compat_keras.functional.base import Base, Known
from onnx_compat_keras.functional.shape import Shape
from onnx_compat_keras.functional.slicing import cut

__all__ = ["Windows"]


class Windows(Shape, Base):
    """The primitives of `onnx_compat.primitives.linear`."""

    # -- convolutions --------------------------------------------------------------------------------------------------
    def conv(
        self,
        x: Handle,
        w: Handle,
        bias: Optional[Handle] = None,
        *,
        strides: Ints,
        dilations: Ints,
        pads: Pads,
        groups: int,
    ) -> Handle:
        space = len(strides)
        self._check_space(space)
        if self._sums_in_float16():
            return self._through_float32(
                self.conv, x, w, bias, strides=strides, dilations=dilations, pads=pads, groups=groups
            )
        if isinstance(w, Known) and (bias is None or isinstance(bias, Known)):
            kernel, dilations = _resolve_dilations(np.asarray(w.array), strides, dilations)
            x, padding = self._padding_for_layer(x, kernel.shape[:space], strides, dilations, pads)
            return self.layer(
                "Conv%dD" % space, x, weights=_weights(kernel, bias), filters=kernel.shape[-1],
                kernel_size=kernel.shape[:space], strides=_unify(strides), padding=padding, dilation_rate=_unify(dilations),
                groups=groups, use_bias=bias is not None, data_format="channels_last", kernel_initializer="zeros",
            )  # fmt: skip
        if not all(stride == 1 for stride in strides) and not all(dilation == 1 for dilation in dilations):
            raise UnsupportedError("Keras has no convolution with strides and dilations")
        if groups > 1:
            raise UnsupportedError("the filter of a grouped Keras layer is a weight")
        x, padding = self._padding_for_layer(x, w.shape[:space], strides, dilations, pads)
        out = self.ops.conv(
            self.tensor(x), self.tensor(w), strides=_unify(strides), padding=padding, data_format="channels_last",
            dilation_rate=_unify(dilations),
        )  # fmt: skip
        return out if bias is None else self.ops.add(out, self.tensor(bias))

    def depthwise_conv(
        self,
        x: Handle,
        w: Handle,
        bias: Optional[Handle] = None,
        *,
        strides: Ints,
        dilations: Ints,
        pads: Pads,
        groups: int,
    ) -> Handle:
        space = len(strides)
        if not isinstance(w, Known) or not (bias is None or isinstance(bias, Known)):
            raise UnsupportedError("the filter of a depthwise Keras layer is a weight")
        if self._sums_in_float16():
            return self._through_float32(
                self.depthwise_conv, x, w, bias, strides=strides, dilations=dilations, pads=pads, groups=groups
            )
        filters = np.asarray(w.array)[0]
        if space > 2 or len(set(strides)) > 1 or x.shape[-1] is None:
            grouped = Known(filters[..., None, :], w.dtype)
            return self.conv(x, grouped, bias, strides=strides, dilations=dilations, pads=pads, groups=groups)
        kernel, dilations = _resolve_dilations(filters, strides, dilations)
        if len(set(dilations)) > 1:
            kernel, dilations = _spread(kernel, dilations)
        x, padding = self._padding_for_layer(x, kernel.shape[:space], strides, dilations, pads)
        multiplier = kernel.shape[-1] // groups
        split = kernel.reshape(*kernel.shape[:-1], groups, multiplier)
        return self.layer(
            "DepthwiseConv%dD" % space, x, weights=_weights(split, bias), kernel_size=kernel.shape[:space],
            strides=_unify(strides), padding=padding, dilation_rate=_unify(dilations), depth_multiplier=multiplier,
            use_bias=bias is not None, data_format="channels_last", depthwise_initializer="zeros",
        )  # fmt: skip

    def conv_transpose(
        self, x: Handle, w: Handle, bias: Optional[Handle] = None, *, strides: Ints, dilations: Ints, groups: int
    ) -> Handle:
        space = len(strides)
        self._check_space(space)
        if not isinstance(w, Known) or not (bias is None or isinstance(bias, Known)):
            raise UnsupportedError("the filter of a transposed Keras convolution is a weight")
        if self._sums_in_float16():
            return self._through_float32(
                self.conv_transpose, x, w, bias, strides=strides, dilations=dilations, groups=groups
            )
        if groups > 1:
            return self._convolve_groups(x, w, bias, strides, dilations, groups)
        kernel, _ = _spread(np.asarray(w.array), dilations)
        kernel = np.swapaxes(kernel, -1, -2)
        wide = [max(size, stride) for size, stride in zip(kernel.shape, strides)]
        kernel = np.pad(kernel, [(0, more - size) for more, size in zip(wide, kernel.shape)] + [(0, 0)] * 2)
        out = self.layer(
            "Conv%dDTranspose" % space, x, weights=_weights(kernel, bias), filters=kernel.shape[-2],
            kernel_size=kernel.shape[:space], strides=_unify(strides), padding="valid", use_bias=bias is not None,
            data_format="channels_last", kernel_initializer="zeros",
        )  # fmt: skip
        excess = [more - size for more, size in zip(wide, [(n - 1) * d + 1 for n, d in zip(w.array.shape, dilations)])]
        if not any(excess):
            return out
        return cut(self.ops, out, (slice(None), *(slice(None, -more or None) for more in excess), slice(None)))

    def _convolve_groups(
        self, x: Handle, w: Known, bias: Handle, strides: Ints, dilations: Ints, groups: int
    ) -> Handle:
        """Convolve each group with a layer of its own and concatenate: Keras has no transposed convolution in groups."""
        width, outputs = w.array.shape[-2] // groups, w.array.shape[-1]
        parts: List[Handle] = []
        for k in range(groups):
            part = cut(self.ops, x, (Ellipsis, slice(k * width, (k + 1) * width)))
            filters = Known(w.array[..., k * width : (k + 1) * width, :], w.dtype)
            shift = None if bias is None else Known(bias.array[k * outputs : (k + 1) * outputs], bias.dtype)
            parts.append(self.conv_transpose(part, filters, shift, strides=strides, dilations=dilations, groups=1))
        return self.layer("Concatenate", parts, axis=-1)

    def _padding_for_layer(
        self, x: Handle, kernel: Ints, strides: Ints, dilations: Ints, pads: Pads
    ) -> Tuple[Any, str]:
        """Return the image and the padding mode of the layer; pad the image first unless "same" pads alike."""
        x = self.tensor(x)
        if not any(any(pair) for pair in pads):
            return x, "valid"
        spans = [(size - 1) * dilation + 1 for size, dilation in zip(kernel, dilations)]
        if all(map(_is_same, x.shape[1:-1], spans, strides, pads)):
            return x, "same"
        dtype = self.computed or self.out.dtype
        zero = Known(np.zeros((), dtype.numpy), dtype)
        return self.pad_constant(x, [(0, 0), *pads, (0, 0)], zero), "valid"

    def _check_space(self, space: int) -> None:
        if space not in (1, 2, 3):
            raise UnsupportedError("Keras convolves over one to three spatial axes, not %d" % space)

    def _sums_in_float16(self) -> bool:
        """Return whether TensorFlow would sum in float16."""
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
    def max_pool(self, x: Handle, kernel: Ints, strides: Ints, dilations: Ints, pads: Pads) -> Handle:
        x = self.tensor(x)
        dtype = self.out.dtype
        self._check_pool(kernel, dilations)
        if dtype.kind != "f":
            raise UnsupportedError("Keras pools floats only")
        padding = "valid"
        if any(any(pair) for pair in pads):
            if all(map(_is_same, x.shape[1:-1], kernel, strides, pads)):
                padding = "same"
            else:
                x = self.ops.pad(x, [(0, 0), *pads, (0, 0)], constant_values=-float("inf"))
        return self._pooling_layer("Max", x, kernel, strides, padding)

    def avg_pool(self, x: Handle, kernel: Ints, strides: Ints, dilations: Ints) -> Handle:
        self._check_pool(kernel, dilations)
        return self._pooling_layer("Average", self.tensor(x), kernel, strides, "valid")

    def _check_pool(self, kernel: Ints, dilations: Ints) -> None:
        if len(kernel) not in (1, 2, 3) or any(dilation != 1 for dilation in dilations):
            raise UnsupportedError("Keras pools over one to three spatial axes, without dilations")

    def _pooling_layer(self, kind: str, x: Handle, kernel: Ints, strides: Ints, padding: str) -> Handle:
        return self.layer(
            "%sPooling%dD" % (kind, len(kernel)), x, pool_size=_unify(kernel), strides=_unify(strides), padding=padding,
            data_format="channels_last",
        )  # fmt: skip

    # -- products ------------------------------------------------------------------------------------------------------
    def matmul(
        self, x: Handle, y: Handle, bias: Optional[Handle] = None, transpose_x: bool = False, transpose_y: bool = False
    ) -> Handle:
        if self.out.dtype.kind != "f":
            raise UnsupportedError("a Keras model multiplies matrices of floats only")
        if transpose_x:
            x = self._swap_last_axes(x)
        if isinstance(y, Known):
            y = Known(np.swapaxes(y.array, -1, -2), y.dtype) if transpose_y else y
            if y.ndim == 2 and (bias is None or isinstance(bias, Known)) and not isinstance(x, Known):
                return self.layer(
                    "Dense", x, weights=_weights(np.ascontiguousarray(y.array), bias), units=y.array.shape[1],
                    use_bias=bias is not None, kernel_initializer="zeros",
                )  # fmt: skip
        elif transpose_y:
            y = self._swap_last_axes(y)
        out = self.ops.matmul(self.tensor(x), self.tensor(y))
        return out if bias is None else self.ops.add(out, self.tensor(bias))

    def _swap_last_axes(self, x: Handle) -> Handle:
        if isinstance(x, Known):
            return Known(np.swapaxes(x.array, -1, -2), x.dtype)
        rank = len(x.shape)
        return self.ops.transpose(x, (*range(rank - 2), rank - 1, rank - 2))


def _unify(sizes: Sequence[int]) -> Union[int, Tuple[int, ...]]:
    """Return an int if it is the same for every axis, else a tuple."""
    return int(sizes[0]) if len(set(sizes)) == 1 else tuple(map(int, sizes))


def _weights(kernel: np.ndarray, bias: Optional[Known]) -> List[np.ndarray]:
    return [np.ascontiguousarray(kernel)] + ([] if bias is None else [np.ascontiguousarray(bias.array)])


def _is_same(size: Optional[int], span: int, stride: int, pads: Tuple[int, int]) -> bool:
    """Return whether "same" pads alike: half on each side, the odd element after."""
    if stride == 1:
        total = span - 1
    elif size is None:
        return False
    else:
        total = max((-(-size // stride) - 1) * stride + span - size, 0)
    return tuple(pads) == (total // 2, total - total // 2)


def _resolve_dilations(kernel: np.ndarray, strides: Sequence[int], dilations: Sequence[int]) -> Tuple[np.ndarray, Any]:
    """Insert zeros between the taps of a filter with strides and dilations, because a Keras layer has only one of them."""
    if all(dilation == 1 for dilation in dilations) or all(stride == 1 for stride in strides):
        return kernel, dilations
    return _spread(kernel, dilations)


def _spread(kernel: np.ndarray, dilations: Sequence[int]) -> Tuple[np.ndarray, Any]:
    if all(dilation == 1 for dilation in dilations):
        return kernel, dilations
    spans = [(size - 1) * dilation + 1 for size, dilation in zip(kernel.shape, dilations)]
    wide = np.zeros(
        (*spans, *kernel.shape[-2:]) if kernel.ndim > len(spans) + 1 else (*spans, kernel.shape[-1]), kernel.dtype
    )
    wide[tuple(slice(None, None, dilation) for dilation in dilations)] = kernel
    return wide, (1,) * len(spans)
