"""Derivative rules of matrix products, convolutions and pools."""

import itertools
from typing import Any, List, Sequence

import numpy as np

from onnx_compat import primitives as p
from onnx_compat.autodiff.rules import RecordedNode, apply_pending_order, rule, sum_to
from onnx_compat.errors import UnsupportedError
from onnx_compat.ir.dims import Extent, floordiv, is_static, maximum
from onnx_compat.ir.window import Window
from onnx_compat.primitives.linear import spatial_order
from onnx_compat.tracing.trace import current_trace
from onnx_compat.tracing.values import Order, Tensor, lift


@rule("matmul")
def _matmul(at: RecordedNode, g: Tensor) -> List[Any]:
    """Return the derivatives of a product of matrices: the products of g with the other matrix, transposed.

    The derivative of the bias is the sum of g over the axes along which the bias is broadcast.
    """
    x, y = (p.cast(matrix, g.dtype) for matrix in at.args[:2])
    tx, ty = at.params["transpose_x"], at.params["transpose_y"]
    dx = p.matmul(y, g, None, ty, True) if tx else p.matmul(g, y, None, False, not ty)
    dy = p.matmul(g, x, None, True, tx) if ty else p.matmul(x, g, None, not tx, False)
    bias = [sum_to(g, arg.shape) for arg in at.args[2:]]
    return [sum_to(dx, x.shape), sum_to(dy, y.shape), *bias]


# -- images: the rules use [N, C, spatial...] and [M, C, kernel...]; the transposes to these orders stay pending -------
def _to_logical(x: Tensor, order: Order) -> Any:
    """Transpose x, whose axes are stored in `order`, to the logical order. Return x itself for the order None."""
    return x if order is None else p.transpose(x, [order.index(axis) for axis in range(x.rank)])


def _to_stored(x: Tensor, order: Order) -> Any:
    """Transpose x from the logical order to the storage order `order`. Return a tensor without a pending order.

    The transpose is recorded, together with a pending order of x. None as `order` is the logical order.
    """
    return apply_pending_order(x if order is None else p.transpose(x, order))


def _filter_order(at: RecordedNode) -> Order:
    """Return the storage order of a recorded convolution's filter: a tuple with the logical axis of each stored axis.

    The logical axes are [M, C, kernel...], or [C, M, kernel...] in a transposed convolution. The order follows the
    filter layout of the trace. Exception: with channels last, the filter of a depthwise convolution is stored with axis
    0 last.
    """
    rank = at.args[1].rank
    if at.primitive == "depthwise_conv" and spatial_order(rank) is not None:
        return (*range(1, rank), 0)
    letter_axes = {"O": [0], "I": [1], "H": list(range(2, rank)), "W": []}
    order = [axis for letter in current_trace().filter_layout for axis in letter_axes[letter]]
    return tuple({0: 1, 1: 0}.get(axis, axis) for axis in order) if at.primitive == "conv_transpose" else tuple(order)


def _crop_and_pad(x: Tensor, sizes: Sequence[Extent], start: Sequence[Extent]) -> Any:
    """Return a slice of x [N, C, spatial...]: on spatial axis i, `sizes[i]` elements from the index `start[i]` on.

    Elements beyond the end of an axis are zeros.
    """
    missing = [maximum(low + size - have, 0) for low, size, have in zip(start, sizes, x.shape[2:])]
    x = p.pad(x, [0] * x.rank, [0, 0, *missing])
    ends = [x.shape[0], x.shape[1], *(low + size for low, size in zip(start, sizes))]
    return p.slice(x, [0, 0, *start], ends, [1] * x.rank)


def _filter_derivative(large: Tensor, small: Tensor, kernel: Sequence[Extent], *, window: Window, groups: int) -> Any:
    """Return the derivative of a filter: a Tensor [channels of small, channels of large / groups, kernel...].

    - Convolution: `large` is the padded input, `small` is the derivative of the output.
    - Transposed convolution: `large` is the derivative of the output, `small` is the input.

    `large` and `small` are [N, C, spatial...]. `kernel` has the spatial sizes of the filter. `window` and `groups` are
    those of the differentiated operation; the padding of `window` is not used.
    """
    parts = []
    for k in range(groups):
        wide, narrow = (_group(x, k, groups) for x in (large, small))
        swapped = [p.transpose(x, [1, 0, *range(2, x.rank)]) for x in (wide, narrow)]
        products = p.conv(*swapped, window=Window.of(narrow.shape[2:], window.dilations, window.strides))
        parts.append(p.transpose(_crop_and_pad(products, kernel, [0] * len(kernel)), [1, 0, *range(2, products.rank)]))
    return p.concat(parts, 0)


def _group(x: Tensor, k: int, groups: int) -> Any:
    """Return the channels (axis 1) of group number `k` of x as a Tensor: `groups` equal groups, counted from 0."""
    size = floordiv(x.shape[1], groups)
    return p.slice_axis(x, 1, size * k, size * (k + 1))


@rule("conv", "depthwise_conv")
def _conv(at: RecordedNode, g: Tensor) -> List[Any]:
    """Return the derivatives of a convolution: by the image, a transposed convolution of g with the filter.

    By the filter, it is a convolution of the image with g; by the bias, the sum of g for each channel.
    """
    order, filters = spatial_order(g.rank), _filter_order(at)
    x, w, g = _to_logical(at.args[0], order), _to_logical(at.args[1], filters), _to_logical(g, order)
    low, high = zip(*at.params["window"].pads)
    params = dict(at.params, window=at.params["window"].without_pads())
    dx = _crop_and_pad(p.conv_transpose(g, w, **params), x.shape[2:], low)
    dw = _filter_derivative(p.pad(x, [0, 0, *low], [0, 0, *high]), g, w.shape[2:], **params)
    bias = [p.reduce_sum(g, [0, *range(2, g.rank)]) for _ in at.args[2:]]
    return [_to_stored(dx, order), _to_stored(dw, filters), *map(apply_pending_order, bias)]


@rule("conv_transpose")
def _conv_transpose(at: RecordedNode, g: Tensor) -> List[Any]:
    """Return the derivatives of a transposed convolution: by the image, a convolution of g with the filter.

    By the filter, it is a convolution of g with the image; by the bias, the sum of g for each channel.
    """
    order, filters = spatial_order(g.rank), _filter_order(at)
    x, w, g = _to_logical(at.args[0], order), _to_logical(at.args[1], filters), _to_logical(g, order)
    dx = p.conv(g, w, **at.params)
    dw = _filter_derivative(g, x, w.shape[2:], **at.params)
    bias = [p.reduce_sum(g, [0, *range(2, g.rank)]) for _ in at.args[2:]]
    return [_to_stored(dx, order), _to_stored(dw, filters), *map(apply_pending_order, bias)]


def _static_channels(x: Tensor) -> int:
    """Return the number of channels of an image [N, C, ...]. Raises UnsupportedError if it is not static."""
    if not is_static(x.shape[1]):
        raise UnsupportedError(
            "the derivative of a pool needs a number of channels that is known",
            hint="give the channels of the image a fixed size",
        )
    return int(x.shape[1])


@rule("avg_pool")
def _avg_pool(at: RecordedNode, g: Tensor) -> List[Any]:
    """Differentiate an average pool: divide each element of g equally among the elements of its window.

    This is recorded as a depthwise transposed convolution with equal weights. Return a list of one Tensor, the
    derivative of the input in its stored order. Raises UnsupportedError if the number of channels is not static.
    """
    order = spatial_order(g.rank)
    x, g = _to_logical(at.args[0], order), _to_logical(g, order)
    window, channels = at.params["window"], _static_channels(x)
    kernel = window.kernel
    w = p.cast(lift(np.full((channels, 1, *kernel), 1 / np.prod(kernel))), g.dtype)
    spread = p.conv_transpose(g, w, window=window, groups=channels)
    return [_to_stored(_crop_and_pad(spread, x.shape[2:], [0] * len(kernel)), order)]


@rule("max_pool")
def _max_pool(at: RecordedNode, g: Tensor) -> List[Any]:
    """Differentiate a maximum pool: divide each element of g equally among the maxima of its window.

    A transposed convolution adds the shares up at the positions of the maxima. Return a list of one Tensor, the
    derivative of the input in its stored order. Raises UnsupportedError if the number of channels is not static.
    """
    order = spatial_order(g.rank)
    x, y, g = (_to_logical(image, order) for image in (at.args[0], at.y, g))
    window = at.params["window"]
    kernel, strides, dilations, pads = window
    low, high = zip(*pads)
    padded = p.pad(x, [0, 0, *low], [0, 0, *high], value=x.dtype.min)
    hits = []
    for offsets in itertools.product(*map(range, kernel)):
        starts = [k * d for k, d in zip(offsets, dilations)]
        ends = [start + (count - 1) * s + 1 for start, count, s in zip(starts, y.shape[2:], strides)]
        patch = p.slice(padded, [0, 0, *starts], [*x.shape[:2], *ends], [1, 1, *strides])
        hits.append(p.cast(p.equal(patch, y), g.dtype))
    stacked = p.stack(hits, 2)
    shares = p.mul(p.div(stacked, p.reduce_sum(stacked, [2], keepdims=True)), p.unsqueeze(g, [2]))
    channels, count = _static_channels(x), len(hits)
    flat = p.reshape(shares, (x.shape[0], channels * count, *y.shape[2:]))
    w = p.cast(lift(np.tile(np.eye(count).reshape(count, 1, *kernel), (channels, 1) + (1,) * len(kernel))), g.dtype)
    spread = p.conv_transpose(flat, w, window=window.without_pads(), groups=channels)
    return [_to_stored(_crop_and_pad(spread, x.shape[2:], low), order)]
