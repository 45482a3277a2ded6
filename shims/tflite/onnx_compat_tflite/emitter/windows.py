"""Convolutions along one, two or three spatial axes: channels last, filters [O, kernel..., I].

A single spatial axis becomes two axes, of which the first has length 1.
"""

from typing import Any, Callable, List, Optional, Sequence, Union

import numpy as np

from onnx_compat.shim import UnsupportedError, Window
from onnx_compat_tflite.emitter import (
    casting,
    elementwise,
    joining,
    pad,
    reshaping,
    runtime_sizes,
    slicing,
    transposing,
)
from onnx_compat_tflite.emitter.builder import Builder
from onnx_compat_tflite.emitter.registry import primitive
from onnx_compat_tflite.subgraph_builder import Handle, Size

__all__ = [
    "SAME",
    "Convolve",
    "conv",
    "conv_transpose",
    "conv_transpose_same",
    "depthwise_conv",
    "dilate_filter",
    "padding_of",
    "result_space",
    "window_count",
]

#: The padding that a kernel computes for ceil(size / stride) windows from the run-time size.
SAME = "SAME"


Ints = Sequence[int]


#: A function that appends the operator of a convolution: it takes the builder, the image, the filter, the bias, the
#: window, the padding of the kernel, and the sizes of the result.
Convolve = Callable[[Builder, Handle, Handle, Handle, Window, str, Sequence[Size]], Handle]


def padding_of(space: Sequence[Any], window: Window) -> Optional[str]:
    """Return TFLite's name of the padding of a window: VALID; SAME if it means these pads; None for other pads."""
    if not window.is_padded:
        return "VALID"
    for size, taps, stride, dilation, pair in zip(space, *window):
        if not isinstance(taps, int):
            return None
        span = (taps - 1) * dilation
        if stride == 1:
            total = span
        elif isinstance(size, int):
            total = (-(-size // stride) - 1) * stride + span + 1 - size
        else:
            return None
        # A negative total (no window reads the last elements) is not SAME: XNNPACK up to LiteRT 2.0 crops them wrongly.
        if tuple(pair) != (total // 2, total - total // 2):
            return None
    return SAME


def window_count(size: Size, kernel: Size, stride: int, dilation: int) -> Any:
    """Return the number of windows along an axis; None if it is unknown."""
    if not isinstance(size, int) or not isinstance(kernel, int):
        return None
    return max((size - (kernel - 1) * dilation - 1) // stride + 1, 0)


@primitive
def conv(
    builder: Builder,
    x: Handle,
    w: Handle,
    bias: Optional[Handle] = None,
    *,
    window: Window,
    groups: int,
    padding: Optional[str] = None,
) -> Handle:
    """Emit a convolution. The `padding` SAME takes the place of the pads of the window."""

    def convolve(builder: Builder, x: Handle, w: Handle, bias: Handle, *where: Any) -> Handle:
        if x.rank == 5:
            return _convolve_groups(builder, _add_conv_3d, groups, x, w, bias, *where)
        if groups > 1 and not builder.accepts("CONV_2D", x.dtype, "grouped"):
            return _convolve_groups(builder, _add_conv_2d, groups, x, w, bias, *where)
        return _add_conv_2d(builder, x, w, bias, *where)

    if not x.is_constant and isinstance(w.dims[-1], int):  # kernels read the number of groups from these channels
        x = builder.refine(x, (*x.dims[:-1], w.dims[-1] * groups))
    return _convolve(builder, x, w, bias, convolve=convolve, channel_axis=0, window=window, padding=padding)


@primitive
def depthwise_conv(
    builder: Builder,
    x: Handle,
    w: Handle,
    bias: Optional[Handle] = None,
    *,
    window: Window,
    groups: int,
    padding: Optional[str] = None,
) -> Handle:
    """Emit a depthwise convolution. The `padding` SAME takes the place of the pads of the window."""
    if len(window.strides) == 3:
        dense = transposing.transpose(builder, w, [w.rank - 1, *range(1, w.rank - 1), 0])
        return conv(builder, x, dense, bias, window=window, groups=groups, padding=padding)
    return _convolve(builder, x, w, bias, convolve=_add_depthwise, channel_axis=-1, window=window, padding=padding)


def _convolve(
    builder: Builder,
    x: Handle,
    w: Handle,
    bias: Optional[Handle],
    *,
    convolve: Convolve,
    channel_axis: int,
    window: Window,
    padding: Optional[str],
) -> Handle:
    """Prepare the operands of a convolution, and call the function that appends the operator.

    It casts float16, gives a single spatial axis a second axis, adds a zero bias, which the kernels require, and
    pads. The axis `channel_axis` of the filter has the channels of the result.
    """
    if x.dtype == "float16":
        where: Any = {"convolve": convolve, "channel_axis": channel_axis, "window": window, "padding": padding}
        return casting.call_in_float32(builder, _convolve, x, w, bias, **where)
    if x.dtype != "float32":
        raise builder.kernel_error("CONV_2D", x.dtype)
    rank = len(window.strides)
    if rank not in (1, 2, 3):
        raise UnsupportedError("TFLite convolves over one, two or three axes, not %d" % rank)
    if rank == 1:
        operands = reshaping.insert_height(builder, x), reshaping.insert_height(builder, w), bias
        where = {"convolve": convolve, "channel_axis": channel_axis, "window": window.as_plane(), "padding": padding}
        plane = _convolve(builder, *operands, **where)
        return reshaping.remove_height(builder, plane)
    if bias is None:
        bias = _zero_bias(builder, builder.dim(w, range(w.rank)[channel_axis]))
    padding = padding or padding_of(x.dims[1:-1], window)
    if padding is None:
        x = pad.pad_known(builder, x, [(0, 0), *window.pads, (0, 0)])
        padding = "VALID"
    dims = (x.dims[0], *result_space(x.dims[1:-1], window, padding), w.dims[channel_axis])
    if all(isinstance(size, int) for size in dims) and 0 in dims:  # some kernels end the process for it
        return Handle.of(np.zeros(dims, x.dtype))
    return convolve(builder, x, w, bias, window, padding, dims)


def _zero_bias(builder: Builder, length: Union[int, Handle]) -> Handle:
    """Return zeros of a length."""
    if isinstance(length, int):
        return Handle.of(np.zeros(length, np.float32))
    return builder.add_op(
        "FILL", [runtime_sizes.stack(builder, [length]), Handle.of(np.float32(0))], "float32", (None,)
    )


def _add_conv_2d(
    builder: Builder, x: Handle, w: Handle, bias: Handle, window: Window, padding: str, dims: Sequence[Size]
) -> Handle:
    return builder.add_op("CONV_2D", [x, w, bias], x.dtype, dims, **_options(window, padding))


def _add_depthwise(
    builder: Builder, x: Handle, w: Handle, bias: Handle, window: Window, padding: str, dims: Sequence[Size]
) -> Handle:
    multiplier = _require_known(w.dims[-1]) // _require_known(x.dims[-1])
    options = dict(_options(window, padding), depth_multiplier=multiplier)
    return builder.add_op("DEPTHWISE_CONV_2D", [x, w, bias], x.dtype, dims, **options)


def _add_conv_3d(
    builder: Builder, x: Handle, w: Handle, bias: Handle, window: Window, padding: str, dims: Sequence[Size]
) -> Handle:
    if window.is_dilated:
        w = dilate_filter(builder, w, window.dilations)
    depth, height, width = window.strides
    filters = transposing.transpose(builder, w, (1, 2, 3, 4, 0))
    options = {"padding": padding, "stride_d": depth, "stride_h": height, "stride_w": width}
    return builder.add_op("CONV_3D", [x, filters, bias], x.dtype, dims, **options)


def _convolve_groups(
    builder: Builder,
    convolve: Convolve,
    groups: int,
    x: Handle,
    w: Handle,
    bias: Handle,
    window: Window,
    padding: str,
    dims: Sequence[Size],
) -> Handle:
    """Convolve each group of channels, and concatenate the results."""
    if groups == 1:
        return convolve(builder, x, w, bias, window, padding, dims)
    channels, filters = _require_known(x.dims[-1]) // groups, _require_known(w.dims[0]) // groups
    parts: List[Handle] = []
    for k in range(groups):
        group_input = slicing.slice_axis(builder, x, x.rank - 1, k * channels, (k + 1) * channels)
        filter_and_bias = (
            slicing.slice_axis(builder, w, 0, k * filters, (k + 1) * filters),
            slicing.slice_axis(builder, bias, 0, k * filters, (k + 1) * filters),
        )
        parts.append(convolve(builder, group_input, *filter_and_bias, window, padding, (*dims[:-1], filters)))
    return joining.concat(builder, parts, x.rank - 1)


def dilate_filter(builder: Builder, w: Handle, dilations: Ints) -> Handle:
    """Insert zeros between the taps of a filter."""
    for axis, dilation in enumerate(dilations, 1):
        taps = _require_known(w.dims[axis])
        if dilation > 1 and taps > 1:
            spread_dims = (*w.dims[: axis + 1], 1, *w.dims[axis + 1 :])
            pads = [(0, 0)] * (axis + 1) + [(0, dilation - 1)] + [(0, 0)] * (w.rank - axis - 1)
            merged = (*w.dims[:axis], taps * dilation, *w.dims[axis + 1 :])
            if w.is_constant:
                padded = Handle.of(np.pad(w.array.reshape(spread_dims), pads).reshape(merged))
            else:
                padded = reshaping.reshape_to(
                    builder, pad.pad_known(builder, reshaping.reshape_to(builder, w, spread_dims), pads), merged
                )
            w = slicing.slice_axis(builder, padded, axis, 0, (taps - 1) * dilation + 1)
    return w


@primitive
def conv_transpose(
    builder: Builder,
    x: Handle,
    w: Handle,
    bias: Optional[Handle] = None,
    *,
    window: Window,
    groups: int,
    beyond: Optional[Ints] = None,
) -> Handle:
    """Emit a transposed convolution: the full result, or the padding SAME with `beyond`.

    `beyond` is the length of the result less stride times length of the input, for each axis (see
    `conv_transpose_same`).
    """
    if x.dtype == "float16":
        return casting.call_in_float32(builder, conv_transpose, x, w, bias, window=window, groups=groups, beyond=beyond)
    if x.dtype != "float32":
        raise builder.kernel_error("TRANSPOSE_CONV", x.dtype)
    strides = window.strides
    if len(strides) > 3:
        raise UnsupportedError("TFLite convolves over one, two or three axes, not %d" % len(strides))
    w = dilate_filter(builder, w, window.dilations)
    if len(strides) == 1:
        extra_sizes = None if beyond is None else (0, *beyond)
        return reshaping.remove_height(
            builder,
            _conv_transpose_groups(
                builder,
                reshaping.insert_height(builder, x),
                reshaping.insert_height(builder, w),
                bias,
                (1, *strides),
                groups,
                extra_sizes,
            ),
        )
    return _conv_transpose_groups(builder, x, w, bias, strides, groups, beyond)


@primitive
def conv_transpose_same(builder: Builder, x: Handle, w: Handle, bias: Optional[Handle] = None, **params: Any) -> Handle:
    """Emit the primitive of the pass `transpose_conv_cropping`: a transposed convolution with the padding SAME."""
    return conv_transpose(builder, x, w, bias, **params)


def _conv_transpose_groups(
    builder: Builder, x: Handle, w: Handle, bias: Optional[Handle], strides: Ints, groups: int, beyond: Optional[Ints]
) -> Handle:
    """Apply the transposed convolution to each group of channels, and concatenate the results."""
    where: Any = {"strides": strides, "padding": "VALID" if beyond is None else SAME}
    if beyond is None:
        beyond = [_require_known(taps) - stride for taps, stride in zip(w.dims[1:], strides)]
    factors, extra_sizes = (1, *strides, 0), (0, *beyond, _require_known(w.dims[0]))
    where["dims"] = [
        size * factor + extra if isinstance(size, int) else None
        for size, factor, extra in zip(x.dims, factors, extra_sizes)
    ]
    where["shape"] = _scale_shape(builder, x, factors, extra_sizes)
    channels = _require_known(x.dims[-1]) // groups
    parts = []
    for k in range(groups):
        group_input = x if groups == 1 else slicing.slice_axis(builder, x, x.rank - 1, k * channels, (k + 1) * channels)
        group_filter = (
            w if groups == 1 else slicing.slice_axis(builder, w, w.rank - 1, k * channels, (k + 1) * channels)
        )
        parts.append(_add_transpose_conv(builder, group_input, group_filter, bias if groups == 1 else None, **where))
    result = joining.concat(builder, parts, x.rank - 1)
    return result if bias is None or groups == 1 else elementwise.add(builder, result, bias)


def _scale_shape(builder: Builder, x: Handle, factors: Ints, extra_sizes: Ints) -> Handle:
    """Return the sizes of x as a vector, each times a factor plus an extra size."""
    if x.is_static:
        return builder.ints(*[size * factor + extra for size, factor, extra in zip(x.dims, factors, extra_sizes)])
    return elementwise.add(
        builder, elementwise.mul(builder, builder.shape_tensor(x), builder.ints(*factors)), builder.ints(*extra_sizes)
    )


def _add_transpose_conv(
    builder: Builder,
    x: Handle,
    w: Handle,
    bias: Optional[Handle],
    *,
    shape: Handle,
    dims: Sequence[Any],
    strides: Ints,
    padding: str,
) -> Handle:
    options = {"padding": padding, "stride_h": strides[-2], "stride_w": strides[-1]}
    if len(strides) == 2:
        operands = [shape, w, x] if bias is None else [shape, w, x, bias]
        return builder.add_op("TRANSPOSE_CONV", operands, x.dtype, dims, **options)
    filters = transposing.transpose(builder, w, (1, 2, 3, 0, 4))
    result = builder.add_op("CONV_3D_TRANSPOSE", [shape, filters, x], x.dtype, dims, stride_d=strides[0], **options)
    return result if bias is None else elementwise.add(builder, result, bias)


def _require_known(size: Size) -> int:
    """Return a size that becomes an option or a constant; raise UnsupportedError if it is unknown."""
    if not isinstance(size, int):
        raise UnsupportedError("TFLite needs fixed sizes of the filter and of the channels for this convolution")
    return size


def result_space(space: Sequence[Any], window: Window, padding: str) -> List[Any]:
    """Return the spatial sizes of the result."""
    if padding == SAME:
        return [-(-n // s) if isinstance(n, int) else None for n, s in zip(space, window.strides)]
    return [window_count(*along) for along in zip(space, window.kernel, window.strides, window.dilations)]


def _options(window: Window, padding: str) -> Any:
    """Return the options of a convolution operator."""
    (stride_h, stride_w), (dilation_h, dilation_w) = window.strides, window.dilations
    return {
        "padding": padding,
        "stride_h": stride_h,
        "stride_w": stride_w,
        "dilation_h_factor": dilation_h,
        "dilation_w_factor": dilation_w,
    }
