"""Convolution and transposed convolution."""

from typing import Any, Optional, Sequence

from onnx_compat import primitives as p
from onnx_compat.errors import InvalidModelError
from onnx_compat.ir.dims import Extent, floordiv, is_equal, maximum
from onnx_compat.ir.window import Window
from onnx_compat.ops.arguments import per_axis, split_pads
from onnx_compat.ops.registry import op
from onnx_compat.ops.window_geometry import check_padding, window_from_attributes
from onnx_compat.primitives.ranges import check_same, check_shape
from onnx_compat.tracing.values import Tensor

Ints = Optional[Sequence[int]]


@op("Conv", since=(1, 11, 22))
def conv(
    X: Tensor,
    W: Tensor,
    B: Optional[Tensor] = None,
    *,
    auto_pad: str = "NOTSET",
    dilations: Ints = None,
    group: int = 1,
    kernel_shape: Ints = None,
    pads: Ints = None,
    strides: Ints = None,
) -> Tensor:
    """Return the convolution of X [N, C, spatial...] with the filters W, plus the bias B [M] if it is given.

    W is [M, C / group, kernel...]. Raises InvalidModelError in these cases:

    - `kernel_shape` differs from the sizes of W, or the shapes of X, W and B do not fit each other.
    - `auto_pad` is unknown, a pad is negative, or a kernel size, stride or dilation is below 1.
    - X has no spatial axes, or a list does not fit their number.
    """
    kernel = _kernel_sizes(kernel_shape, W)
    window = window_from_attributes(X.shape[2:], kernel, auto_pad, pads, strides, dilations)
    return p.conv(X, W, B, window=window, groups=group)


def _kernel_sizes(declared: Ints, W: Tensor) -> Sequence[Extent]:
    """Return kernel_shape (`declared`) if it is given, else the spatial sizes of the filters W.

    Raises InvalidModelError if an entry of kernel_shape and a static size of the filters differ.
    """
    for mine, theirs in zip(declared or (), W.shape[2:]):
        check_same("an entry of kernel_shape", mine, "that of the filters", theirs)
    return declared or W.shape[2:]


@op("ConvTranspose", since=(1, 11, 22))
def conv_transpose(
    X: Tensor,
    W: Tensor,
    B: Optional[Tensor] = None,
    *,
    auto_pad: str = "NOTSET",
    dilations: Ints = None,
    group: int = 1,
    kernel_shape: Ints = None,
    output_padding: Ints = None,
    output_shape: Ints = None,
    pads: Ints = None,
    strides: Ints = None,
) -> Tensor:
    """Return the transposed convolution of X [N, C, spatial...] with the filters W, plus the bias B [M] if it is given.

    W is [C, M / group, kernel...]. The size of a spatial axis of the result:

    - `output_shape` is given: its entry. It has an entry for each spatial axis; entries for N and C may precede them,
      and have no effect.
    - `auto_pad` is SAME_UPPER or SAME_LOWER: size of X * stride.
    - Otherwise: (size of X - 1) * stride + dilation * (kernel - 1) + 1 + output_padding - pads. VALID ignores the pads.

    Raises InvalidModelError in these cases:

    - A size or a pad is negative, or `auto_pad` is unknown.
    - `kernel_shape` differs from the sizes of W, or the shapes of X, W and B do not fit each other.
    - A list does not fit the number of spatial axes.
    """
    rank = X.rank - 2
    check_padding(auto_pad, pads, rank)
    if output_shape and len(output_shape) not in (rank, rank + 2):
        raise InvalidModelError("the output_shape %s must have %d entries" % (list(output_shape), rank))
    kernel, extra = _kernel_sizes(kernel_shape, W), per_axis(output_padding, rank, 0)
    window = Window.of(kernel, per_axis(strides, rank, 1), per_axis(dilations, rank, 1))
    full = window.transposed_sizes(X.shape[2:])
    wanted: Optional[Sequence[Extent]] = output_shape[-rank:] if output_shape else None
    if wanted is None and auto_pad in ("SAME_UPPER", "SAME_LOWER"):
        wanted = [extent * s for extent, s in zip(X.shape[2:], window.strides)]
    if wanted is not None:
        cut = [_leading_crop(f + e, w, auto_pad == "SAME_UPPER") for f, e, w in zip(full, extra, wanted)]
        sizes = list(wanted)
    else:
        given = split_pads(pads) if pads and auto_pad != "VALID" else [(0, 0)] * rank
        cut = [low for low, _ in given]
        sizes = [f + e - low - high for f, e, (low, high) in zip(full, extra, given)]
    check_shape(sizes, "ConvTranspose")
    return _crop_conv_transpose(X, W, B, full, cut, sizes, window=window, groups=group)


def _leading_crop(extent: Extent, wanted: Extent, upper: bool) -> Extent:
    """Return how many elements to crop at the beginning of an axis that is cropped at both ends to `wanted` elements.

    `extent` is the present number of elements. The result is half of extent - wanted, rounded down if `upper`, else up:
    extent 7, wanted 4 -> 1 if `upper`, else 2. If the axis is too short, the result is 0.
    """
    total = maximum(extent - wanted, 0)
    return floordiv(total, 2) if upper else total - floordiv(total, 2)


def _crop_conv_transpose(
    x: Tensor,
    w: Tensor,
    bias: Optional[Tensor],
    full: Sequence[Extent],
    cut: Sequence[Extent],
    sizes: Sequence[Extent],
    **params: Any,
) -> Tensor:
    """Return the transposed convolution, cropped on each spatial axis to `sizes` elements from index `cut` on.

    `full` has the sizes before the crop. If cut + sizes exceeds `full`, the axis is extended at its end. The added
    elements are the bias, or 0 without a bias. `params` are those of the primitive: `window`, without padding, and
    `groups`.
    """
    missing = [low + size - extent for low, size, extent in zip(cut, sizes, full)]
    grows = [maximum(extent, 0) for extent in missing]
    late = bias is not None and not all(is_equal(extent, 0) for extent in grows)
    y = p.conv_transpose(x, w, None if late else bias, **params)
    y = p.pad(y, [0] * y.rank, [0, 0, *grows])
    ends = [None if is_equal(gap, grow) else low + size for gap, grow, low, size in zip(missing, grows, cut, sizes)]
    y = p.slice(y, [0, 0, *cut], [None, None, *ends], [1] * y.rank)
    return p.add(y, p.reshape(bias, bias.shape + (1,) * len(full))) if bias is not None and late else y
