"""Convolutions along one, two or three spatial axes: channels last, filters [O, kernel..., I].

A single spatial axis becomes two axes, of which the first has length 1.
"""

from typing import Any, Callable, List, Optional, Sequence, Union

import numpy as np

from onnx_compat.shim import UnsupportedError, Window
from onnx_compat_tflite.emitter import casting, joining, pad, reshaping, runtime_sizes, slicing, transposing
from onnx_compat_tflite.emitter.builder import Builder
from onnx_compat_tflite.emitter.registry import primitive
from onnx_compat_tflite.emitter.window_padding import conv_padding_of, result_space
from onnx_compat_tflite.subgraph_builder import Handle, Size

__all__ = ["conv", "depthwise_conv", "dilate_filter", "require_known"]

#: A function that appends the operator of a convolution: it takes the builder, the image, the filter, the bias, the
#: window, the padding of the kernel, and the sizes of the result.
Convolve = Callable[[Builder, Handle, Handle, Handle, Window, str, Sequence[Size]], Handle]


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
    """Emit a convolution of a channels-last x with filters [O, kernel..., I / groups]. float16 is computed in float32.

    `padding`: None for the pads of `window`. "SAME" for the padding of the kernel; then these pads are not read.

    Side effect: if the number of channels of x is unknown and follows from the filter, it is set in the handle x.

    Raises UnsupportedError in these cases:

    - The dtype is neither float32 nor float16.
    - There are more than three spatial axes.
    - The op needs a number of channels or a kernel size that is unknown.
    """

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
    """Emit a depthwise convolution of a channels-last x with filters [1, kernel..., O].

    float16 is computed in float32. With three spatial axes, `conv` computes the result with `groups` groups. With one
    or two axes, `groups` is not read.

    `padding`: None for the pads of `window`. "SAME" for the padding of the kernel; then these pads are not read.

    Raises UnsupportedError in these cases:

    - The dtype is neither float32 nor float16.
    - There are more than three spatial axes.
    - There are one or two spatial axes, and the channels of x or the size of the last axis of w are unknown.
    - There are three spatial axes, and the op needs a number of channels or a kernel size that is unknown.
    """
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
    """Prepare the operands of a convolution, call `convolve` to append the operator, and return the result.

    `channel_axis`: the axis of the filter `w` that has the channels of the result. `padding`: "SAME" for the padding of
    the kernel, None for the pads of `window`. The operands are prepared in these ways:

    - float16 is computed in float32.
    - A convolution with a single spatial axis gets a second axis of length 1.
    - A missing bias is replaced by zeros, because the kernels require a bias.
    - x is padded with zeros if `padding` is None and no padding of the kernel has the pads of the window.

    If the sizes of the result are known and a size is 0, the result is a constant, and `convolve` is not called.

    Raises UnsupportedError for a dtype other than float32 and float16, and for more than three spatial axes. Errors of
    `convolve` propagate.
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
    padding = padding or conv_padding_of(x.dims[1:-1], window)
    if padding is None:
        x = pad.pad_known(builder, x, [(0, 0), *window.pads, (0, 0)])
        padding = "VALID"
    dims = (x.dims[0], *result_space(x.dims[1:-1], window, padding), w.dims[channel_axis])
    if all(isinstance(size, int) for size in dims) and 0 in dims:  # some kernels end the process for it
        return Handle.of(np.zeros(dims, x.dtype))
    return convolve(builder, x, w, bias, window, padding, dims)


def _zero_bias(builder: Builder, length: Union[int, Handle]) -> Handle:
    """Return float32 zeros of a length: an int, or a scalar that is computed at run time."""
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
    multiplier = require_known(w.dims[-1]) // require_known(x.dims[-1])
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
    """Convolve each group of channels by `convolve`, and concatenate the results along the channels.

    Raises UnsupportedError if there are several groups and the input or output channels are unknown.
    """
    if groups == 1:
        return convolve(builder, x, w, bias, window, padding, dims)
    channels, filters = require_known(x.dims[-1]) // groups, require_known(w.dims[0]) // groups
    parts: List[Handle] = []
    for k in range(groups):
        group_input = slicing.slice_axis(builder, x, x.rank - 1, k * channels, (k + 1) * channels)
        filter_and_bias = (
            slicing.slice_axis(builder, w, 0, k * filters, (k + 1) * filters),
            slicing.slice_axis(builder, bias, 0, k * filters, (k + 1) * filters),
        )
        parts.append(convolve(builder, group_input, *filter_and_bias, window, padding, (*dims[:-1], filters)))
    return joining.concat(builder, parts, x.rank - 1)


def dilate_filter(builder: Builder, w: Handle, dilations: Sequence[int]) -> Handle:
    """Insert zeros between the taps of a filter [O, kernel..., I]: taps [a, b] with dilation 2 -> [a, 0, b].

    `dilations` has a number for each kernel axis. A constant stays a constant.

    Raises UnsupportedError if a kernel size is unknown, also on an axis with a dilation of 1.
    """
    for axis, dilation in enumerate(dilations, 1):
        taps = require_known(w.dims[axis])
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


def require_known(size: Size) -> int:
    """Return a size of a filter or of channels if it is an int; raise UnsupportedError if it is symbolic or None."""
    if not isinstance(size, int):
        raise UnsupportedError("TFLite needs fixed sizes of the filter and of the channels for this convolution")
    return size


def _options(window: Window, padding: str) -> Any:
    """Return the options of CONV_2D or DEPTHWISE_CONV_2D, for a window of two axes."""
    (stride_h, stride_w), (dilation_h, dilation_w) = window.strides, window.dilations
    return {
        "padding": padding,
        "stride_h": stride_h,
        "stride_w": stride_w,
        "dilation_h_factor": dilation_h,
        "dilation_w_factor": dilation_w,
    }
