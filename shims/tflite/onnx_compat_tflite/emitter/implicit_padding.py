"""Native convolutions and pools whose padding the kernel computes: SAME, also for unknown sizes.

As primitives, the padding of an unknown size takes a dozen operators, and a mean without it several dozen. Images are
channels-last; filters have the order of the model.
"""

from typing import Any, Optional, Sequence

from onnx_compat.shim import Extent, GraphNode, Tensor, Window, is_equal, is_static
from onnx_compat.shim.geometry import window_from_attributes
from onnx_compat_tflite.emitter import convolution, pools, reshaping, transposing
from onnx_compat_tflite.emitter.builder import Attributes, Builder
from onnx_compat_tflite.emitter.registry import native
from onnx_compat_tflite.emitter.window_padding import SAME, padding_of
from onnx_compat_tflite.subgraph_builder import Handle

__all__ = ["average_pool_same", "conv_same", "max_pool_same"]


def _window(space: Sequence[Extent], kernel: Sequence[Extent], attributes: Attributes) -> Window:
    """Return the window that the attributes describe over the spatial sizes `space`, with auto_pad resolved to pads.

    `kernel` has the number of taps along each axis. Raises InvalidModelError if the attributes are invalid, for example
    a negative pad, or a stride of 0.
    """
    explicit = [attributes.get(name) for name in ("pads", "strides", "dilations")]
    return window_from_attributes(space, kernel, attributes.get("auto_pad", "NOTSET"), *explicit)


def _is_same(x: Tensor, kernel: Sequence[Extent], attributes: Attributes) -> bool:
    """Whether the ops of TFLite accept x with these window sizes, and their padding SAME is that of `attributes`.

    `x` is channels first. `kernel` has the number of taps along each spatial axis. Returns False in these cases:

    - The dtype is not float32, or x has not one or two spatial axes.
    - A spatial size is known to be 0.
    - The number of channels or a number of taps is unknown.
    - `ceil_mode` is set.
    - auto_pad is SAME_UPPER, and a stride exceeds the dilated kernel.
    - auto_pad is not SAME_UPPER, and `padding_of` does not return SAME for the pads. Without pads it never does.

    Raises InvalidModelError if the attributes are invalid, for example a negative pad, or a stride of 0.
    """
    space = x.shape[2:]
    if x.rank not in (3, 4) or x.dtype.name != "float32" or not is_static(x.shape[1]) or attributes.get("ceil_mode"):
        return False
    if not all(map(is_static, kernel)) or any(is_equal(size, 0) for size in space):
        return False
    window = _window(space, kernel, attributes)
    if attributes.get("auto_pad") == "SAME_UPPER":
        # A stride beyond the kernel would need negative padding: see `padding_of`.
        return all(span >= stride for span, stride in zip(window.spans, window.strides))
    known = [size if is_static(size) else None for size in space]
    return padding_of(known, window) == SAME  # its pads are integers, since auto_pad is not SAME_UPPER


def _has_open_padding(x: Tensor, attributes: Attributes) -> bool:
    """Whether auto_pad is SAME_UPPER and a spatial size of x is unknown. x is channels first."""
    return attributes.get("auto_pad") == "SAME_UPPER" and not all(map(is_static, x.shape[2:]))


def _accepts_mean(_: GraphNode, inputs: Sequence[Any], attributes: Attributes) -> bool:
    """Whether the kernel computes this AveragePool: no dilation, no `count_include_pad`, padding SAME (`_is_same`)."""
    dense = all(step == 1 for step in attributes.get("dilations") or ())
    return (
        dense
        and not attributes.get("count_include_pad")
        and _is_same(inputs[0], attributes["kernel_shape"], attributes)
    )


def _accepts_maximum(node: GraphNode, inputs: Sequence[Any], attributes: Attributes) -> bool:
    """Whether the kernel computes this MaxPool. All of these conditions must hold:

    - It has no dilation, and no output of indices.
    - auto_pad is SAME_UPPER, and a spatial size is unknown.
    - `_is_same` holds: the op accepts x and the window.
    """
    x, dense = inputs[0], all(step == 1 for step in attributes.get("dilations") or ())
    has_one_output = not any(node.outputs[1:])
    return (
        dense
        and has_one_output
        and _has_open_padding(x, attributes)
        and _is_same(x, attributes["kernel_shape"], attributes)
    )


def _accepts_convolution(_: GraphNode, inputs: Sequence[Any], attributes: Attributes) -> bool:
    """Whether the kernel computes this Conv: a known filter, SAME_UPPER over an unknown size (`_is_same`)."""
    x, w, *_rest = inputs
    return bool(_has_open_padding(x, attributes) and w.known and _is_same(x, w.shape[2:], attributes))


@native("AveragePool", _accepts_mean, spatial=True)
def average_pool_same(builder: Builder, x: Handle, **attributes: Any) -> Handle:
    """Emit AveragePool of a channels-last x with the padding SAME, for the cases of `_accepts_mean`.

    Padding does not count in a mean.
    """
    return _pool_same(builder, "AVERAGE_POOL_2D", x, attributes)


@native("MaxPool", _accepts_maximum, spatial=True)
def max_pool_same(builder: Builder, x: Handle, **attributes: Any) -> Handle:
    """Emit MaxPool of a channels-last x with the padding SAME, for the cases of `_accepts_maximum`."""
    return _pool_same(builder, "MAX_POOL_2D", x, attributes)


def _pool_same(builder: Builder, builtin: str, x: Handle, attributes: Attributes) -> Handle:
    """Emit the pool op `builtin` with the padding SAME, over a channels-last x with one or two spatial axes."""
    window = Window.of(attributes["kernel_shape"], attributes.get("strides") or None)
    if len(window.kernel) == 1:
        return reshaping.remove_height(
            builder, pools.add_pool(builder, builtin, reshaping.insert_height(builder, x), window.as_plane(), SAME)
        )
    return pools.add_pool(builder, builtin, x, window, SAME)


@native("Conv", _accepts_convolution, spatial=True)
def conv_same(builder: Builder, x: Handle, w: Handle, bias: Optional[Handle] = None, **attributes: Any) -> Handle:
    """Emit Conv of a channels-last x with the padding SAME, for the cases of `_accepts_convolution`.

    `w` has the axis order of ONNX. The op is a depthwise convolution if there are several groups, and each group has a
    single input channel.
    """
    groups, space = attributes.get("group", 1), range(2, w.rank)
    steps = [attributes.get(name) or None for name in ("strides", "dilations")]
    where: Any = {"window": Window.of(w.dims[2:], *steps), "groups": groups, "padding": SAME}
    if groups > 1 and w.dims[1] == 1:
        depthwise_filter = transposing.transpose(builder, w, [1, *space, 0])
        return convolution.depthwise_conv(builder, x, depthwise_filter, bias, **where)
    return convolution.conv(builder, x, transposing.transpose(builder, w, [0, *space, 1]), bias, **where)
