"""Transposed convolutions along one, two or three spatial axes: channels last, filters [O, kernel..., I]."""

from typing import Any, Optional, Sequence

from onnx_compat.shim import UnsupportedError, Window
from onnx_compat_tflite.emitter import casting, convolution, elementwise, joining, reshaping, slicing, transposing
from onnx_compat_tflite.emitter.builder import Builder
from onnx_compat_tflite.emitter.registry import primitive
from onnx_compat_tflite.emitter.window_padding import SAME
from onnx_compat_tflite.subgraph_builder import Handle

__all__ = ["conv_transpose", "conv_transpose_same"]

Ints = Sequence[int]


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
    """Emit a transposed convolution of a channels-last x with filters w [O, kernel..., I].

    Without `beyond`, the result is not cropped. With `beyond`, the padding is SAME. `beyond` has, for each spatial
    axis, the length of the result minus the product of stride and length of the input. The pads of the window are not
    read.

    Raises UnsupportedError in these cases:

    - The dtype is neither float32 nor float16.
    - There are more than three spatial axes.
    - A number of channels or a kernel size is unknown.
    """
    if x.dtype == "float16":
        return casting.call_in_float32(builder, conv_transpose, x, w, bias, window=window, groups=groups, beyond=beyond)
    if x.dtype != "float32":
        raise builder.kernel_error("TRANSPOSE_CONV", x.dtype)
    strides = window.strides
    if len(strides) > 3:
        raise UnsupportedError("TFLite convolves over one, two or three axes, not %d" % len(strides))
    w = convolution.dilate_filter(builder, w, window.dilations)
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
    """Emit the primitive of the pass `transpose_conv_cropping`: a transposed convolution with the padding SAME.

    `params` are the keyword parameters of `conv_transpose`, and include `beyond`.
    """
    return conv_transpose(builder, x, w, bias, **params)


def _conv_transpose_groups(
    builder: Builder, x: Handle, w: Handle, bias: Optional[Handle], strides: Ints, groups: int, beyond: Optional[Ints]
) -> Handle:
    """Emit a transposed convolution for each group of input channels, concatenate the results, and add the bias.

    x and the filter w have two or three spatial axes. Without `beyond` the padding is VALID, else SAME. Raises
    UnsupportedError if a number of channels is unknown, or (without `beyond`) a kernel size.
    """
    where: Any = {"strides": strides, "padding": "VALID" if beyond is None else SAME}
    if beyond is None:
        beyond = [convolution.require_known(taps) - stride for taps, stride in zip(w.dims[1:], strides)]
    factors, extra_sizes = (1, *strides, 0), (0, *beyond, convolution.require_known(w.dims[0]))
    where["dims"] = [
        size * factor + extra if isinstance(size, int) else None
        for size, factor, extra in zip(x.dims, factors, extra_sizes)
    ]
    where["shape"] = _scale_shape(builder, x, factors, extra_sizes)
    channels = convolution.require_known(x.dims[-1]) // groups
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
    """Return the sizes of x as an int32 vector, each multiplied by its factor, plus its extra size."""
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
