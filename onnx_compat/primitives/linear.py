"""Primitives of linear algebra and of sliding windows: matrix products, convolutions, pools.

Convolutions and pools work in the layout of the target (`Trace.layout`), with filters in `Trace.filter_layout`. Spatial
padding is a pair (before, after) of sizes for each spatial axis.
"""

from typing import Any, Dict, List, Optional, Sequence, Tuple

from onnx_compat.errors import InvalidModelError
from onnx_compat.ir import Arg
from onnx_compat.ir.dims import Extent, floordiv, is_equal, is_static
from onnx_compat.primitives.base import apply_primitive, fold, primitive
from onnx_compat.primitives.ranges import check_same, check_shape
from onnx_compat.primitives.shape import pad as pad_
from onnx_compat.primitives.shape import transpose
from onnx_compat.tracing.layout import channels_last_order, normalize_order
from onnx_compat.tracing.trace import current_trace
from onnx_compat.tracing.values import Order, Tensor, TensorLike, lift

Pads = Sequence[Tuple[Extent, Extent]]


@primitive("fiuc")
def matmul(
    x: TensorLike,
    y: TensorLike,
    bias: Optional[TensorLike] = None,
    transpose_x: bool = False,
    transpose_y: bool = False,
) -> Tensor:
    """The matrix product over the last two axes, plus a bias. Ranks are at least two, and leading axes broadcast. The flags
    first swap the last two axes of an operand. The bias is a vector along the last axis of the result.
    """
    x, y = lift(x), lift(y)
    if x.dtype != y.dtype:
        raise InvalidModelError("matmul of %s and %s: both must have one dtype" % (x.dtype.name, y.dtype.name))
    operands = [x, y] if bias is None else [x, y, lift(bias)]
    inner = x.shape[-2 if transpose_x else -1], y.shape[-1 if transpose_y else -2]
    check_same("the inner size on the left", inner[0], "that on the right", inner[1])
    folded = fold("matmul", operands, [x.dtype], transpose_x=transpose_x, transpose_y=transpose_y)
    if folded is not None:
        return folded[0]
    left, transpose_x = _matrix(x, transpose_x)
    right, transpose_y = _matrix(y, transpose_y)
    args: List[Arg] = [left, right] + [current_trace().argument(tensor) for tensor in operands[2:]]
    params = {"transpose_x": transpose_x, "transpose_y": transpose_y}
    return apply_primitive("matmul", args, params)[0]


def _matrix(x: Tensor, transposed: bool) -> Tuple[Arg, bool]:
    """Return (operand, transpose flag) for the emitter. A pending swap of the last two axes flips the flag: no transpose."""
    swapped = tuple(range(x.rank - 2)) + (x.rank - 1, x.rank - 2)
    if x.ref is not None and x.order == swapped:
        return current_trace().argument(x, swapped), not transposed
    return current_trace().argument(x), transposed


def spatial_order(rank: int) -> Order:
    """Return the order in which the target stores an image of this rank: channels last, or None for the logical order."""
    return channels_last_order(rank) if current_trace().layout == "channels_last" else None


def filter_axes(filter_layout: str, rank: int) -> List[int]:
    """Return the logical axis (O, I, spatial...) of each physical axis of a filter: "HWIO" of rank 4 -> [2, 3, 1, 0]."""
    letter_axes = {"O": [0], "I": [1], "H": list(range(2, rank)), "W": []}
    return [axis for letter in filter_layout for axis in letter_axes[letter]]


def _filter_order(rank: int) -> Order:
    return normalize_order(filter_axes(current_trace().filter_layout, rank))


def window(extent: Extent, kernel: Extent, stride: int, dilation: int, pads: Tuple[Extent, Extent]) -> Extent:
    """Return the number of positions of a dilated window on a padded axis of length `extent`: its output size."""
    return floordiv(extent + pads[0] + pads[1] - (kernel - 1) * dilation - 1, stride) + 1


def _pad_explicitly(x: Tensor, pads: Pads, value: float = 0) -> Tuple[Tensor, List[Tuple[int, int]]]:
    """Apply padding that is symbolic or negative by a pad or a crop before the window. Return x and the window's padding."""
    if all(is_static(size) and size >= 0 for pair in pads for size in pair):
        return x, [(int(low), int(high)) for low, high in pads]  # type: ignore[arg-type]  # all are static
    before = [0, 0] + [low for low, _ in pads]
    after = [0, 0] + [high for _, high in pads]
    return pad_(x, before, after, value=value), [(0, 0)] * len(pads)


def _check_filters(
    x: Tensor, w: Tensor, groups: int, channels: Extent, outputs: Extent, bias: Sequence[Tensor]
) -> None:
    """Raise InvalidModelError unless image, filters and bias fit: `channels` of the image, `outputs` of the result."""
    if w.rank != x.rank or groups < 1:
        raise InvalidModelError(
            "filters %s in %d groups do not fit the image %s" % (list(w.shape), groups, list(x.shape))
        )
    check_same("the number of channels of the image", x.shape[1], "that of the filters", channels)
    if is_static(w.shape[0]) and w.shape[0] % groups:
        raise InvalidModelError("%s filters cannot be divided into %d groups" % (w.shape[0], groups))
    for tensor in bias:
        check_same("the length of the bias", tensor.shape[0] if tensor.rank else 1, "the number of results", outputs)


def _check_positions(name: str, extents: Sequence[Extent], kernel: Sequence[Extent], *geometry: Any) -> None:
    """Raise InvalidModelError if a window has a negative number of positions on an axis."""
    check_shape(tuple(map(window, extents, kernel, *geometry)), name)


@primitive("f")
def conv(
    x: TensorLike,
    w: TensorLike,
    bias: Optional[TensorLike] = None,
    *,
    strides: Sequence[int],
    dilations: Sequence[int],
    pads: Pads,
    groups: int = 1,
) -> Tensor:
    """The cross-correlation of x [N, C, spatial...] with w [M, C / groups, kernel...], padded with zeros, plus bias [M].

    The emitter gets x in the shim's layout and w in its filter layout. A channels-last emitter gets a depthwise
    convolution (groups = C > 1) as `depthwise_conv`, with the filter [1, kernel..., M].
    """
    x, w = lift(x), lift(w)
    rank = x.rank
    x, pads = _pad_explicitly(x, pads)
    operands = [x, w] if bias is None else [x, w, lift(bias)]
    _check_filters(x, w, groups, w.shape[1] * groups, w.shape[0], operands[2:])
    _check_positions("conv", x.shape[2:], w.shape[2:], strides, dilations, pads)
    params = {"strides": tuple(strides), "dilations": tuple(dilations), "pads": tuple(pads), "groups": groups}
    folded = fold("conv", operands, [x.dtype], **params)
    if folded is not None:
        return folded[0]
    order = spatial_order(rank)
    name, w_order = "conv", _filter_order(rank)
    if order is not None and groups > 1 and is_equal(w.shape[1], 1):
        name, w_order = "depthwise_conv", tuple(range(1, rank)) + (0,)
    args = [current_trace().argument(x, order), current_trace().argument(w, w_order)]
    args += [current_trace().argument(tensor) for tensor in operands[2:]]
    return apply_primitive(name, args, params, [order])[0]


@primitive("f")
def depthwise_conv(x: TensorLike, w: TensorLike, bias: Optional[TensorLike] = None, **params: Any) -> Tensor:
    """A convolution in which every output channel reads a single input channel: M / C consecutive outputs share it."""
    return conv(x, w, bias, **params)


@primitive("f")
def conv_transpose(
    x: TensorLike,
    w: TensorLike,
    bias: Optional[TensorLike] = None,
    *,
    strides: Sequence[int],
    dilations: Sequence[int],
    groups: int = 1,
) -> Tensor:
    """The gradient of a convolution with respect to its input, without cropping, plus bias [M].

    x is [N, C, spatial...] and w is [C, M / groups, kernel...]. The result is [N, M, spatial...] with the sizes
    (size - 1) * stride + (kernel - 1) * dilation + 1. The filter is in the shim's filter layout; I is C, O is M / groups.
    """
    x, w = lift(x), lift(w)
    operands = [x, w] if bias is None else [x, w, lift(bias)]
    _check_filters(x, w, groups, w.shape[0], w.shape[1] * groups, operands[2:])
    params = {"strides": tuple(strides), "dilations": tuple(dilations), "groups": groups}
    filters_first = transpose(w, [1, 0, *range(2, w.rank)])
    folded = fold("conv_transpose", [x, filters_first, *operands[2:]], [x.dtype], **params)
    if folded is not None:
        return folded[0]
    order = spatial_order(x.rank)
    swapped = _filter_order(x.rank)  # of a filter whose first two axes are (O, I); here they are (I, O)
    w_order = normalize_order([{0: 1, 1: 0}.get(axis, axis) for axis in swapped or range(x.rank)])
    args = [current_trace().argument(x, order), current_trace().argument(w, w_order)]
    args += [current_trace().argument(tensor) for tensor in operands[2:]]
    return apply_primitive("conv_transpose", args, params, [order])[0]


def _pool(name: str, x: Tensor, params: Dict[str, Any]) -> Tensor:
    pads = params.get("pads", [(0, 0)] * len(params["kernel"]))
    _check_positions(name, x.shape[2:], params["kernel"], params["strides"], params["dilations"], pads)
    folded = fold(name, [x], [x.dtype], **params)
    if folded is not None:
        return folded[0]
    order = spatial_order(x.rank)
    return apply_primitive(name, [current_trace().argument(x, order)], params, [order])[0]


@primitive("fiu")
def max_pool(
    x: TensorLike, kernel: Sequence[int], strides: Sequence[int], dilations: Sequence[int], pads: Pads
) -> Tensor:
    """The largest element under a window that slides over [N, C, spatial...]; padding is ignored. `kernel`, `strides`,
    `dilations` and `pads` have an entry for each spatial axis.
    """
    x = lift(x)
    x, settled = _pad_explicitly(x, pads, x.dtype.min if x.dtype.kind != "f" else -float("inf"))
    params = {"kernel": tuple(kernel), "strides": tuple(strides), "dilations": tuple(dilations), "pads": tuple(settled)}
    return _pool("max_pool", x, params)


@primitive("f")
def avg_pool(x: TensorLike, kernel: Sequence[int], strides: Sequence[int], dilations: Sequence[int]) -> Tensor:
    """The mean under a window that slides over [N, C, spatial...], without padding: the window stays inside."""
    params = {"kernel": tuple(kernel), "strides": tuple(strides), "dilations": tuple(dilations)}
    return _pool("avg_pool", lift(x), params)
