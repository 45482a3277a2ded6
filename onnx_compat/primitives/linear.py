"""Primitives of linear algebra and of sliding windows: matrix products, convolutions, pools.

Convolutions and pools work in the layout of the target (`Trace.layout`), with filters in `Trace.filter_layout`. A
`Window` holds the kernel, strides, dilations and padding.
"""

from typing import Any, List, Optional, Sequence, Tuple

from onnx_compat.errors import InvalidModelError
from onnx_compat.ir import Arg
from onnx_compat.ir.dims import Extent, is_equal, is_static
from onnx_compat.ir.window import Window
from onnx_compat.primitives.base import apply_primitive, fold, primitive
from onnx_compat.primitives.ranges import check_same, check_shape
from onnx_compat.primitives.shape import pad as pad_
from onnx_compat.primitives.shape import transpose
from onnx_compat.tracing.layout import channels_last_order, normalize_order
from onnx_compat.tracing.trace import current_trace
from onnx_compat.tracing.values import Order, Tensor, TensorLike, lift


@primitive("fiuc")
def matmul(
    x: TensorLike,
    y: TensorLike,
    bias: Optional[TensorLike] = None,
    transpose_x: bool = False,
    transpose_y: bool = False,
) -> Tensor:
    """The matrix product over the last two axes, plus a bias. Ranks are at least two, and leading axes broadcast.

    The flags `transpose_x` and `transpose_y` first swap the last two axes of an operand. The bias is a vector along the
    last axis of the result; None is no bias. The operands have one dtype, and integers wrap.

    Raises InvalidModelError for different dtypes, for different static inner sizes, and for leading axes that do not
    broadcast.
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
    """Return (operand, transpose flag) for the emitter. `transposed`: the flag for the logical order of x.

    If the pending order of x swaps only its last two axes, x is taken as it is stored and the flag is flipped: no
    transpose is recorded.
    """
    swapped = tuple(range(x.rank - 2)) + (x.rank - 1, x.rank - 2)
    if x.ref is not None and x.order == swapped:
        return current_trace().argument(x, swapped), not transposed
    return current_trace().argument(x), transposed


def spatial_order(rank: int) -> Order:
    """Return the order in which the target stores an image of rank `rank`.

    The order is channels last, or None for the logical order, which is channels first.
    """
    return channels_last_order(rank) if current_trace().layout == "channels_last" else None


def filter_axes(filter_layout: str, rank: int) -> List[int]:
    """Return the logical axis (O, I, spatial...) of each physical axis of a filter: "HWIO" of rank 4 -> [2, 3, 1, 0].

    "HW" stands for all spatial axes, also for one or three.
    """
    letter_axes = {"O": [0], "I": [1], "H": list(range(2, rank)), "W": []}
    return [axis for letter in filter_layout for axis in letter_axes[letter]]


def _filter_order(rank: int) -> Order:
    return normalize_order(filter_axes(current_trace().filter_layout, rank))


def _pad_explicitly(x: Tensor, window: Window, value: float = 0) -> Tuple[Tensor, Window]:
    """Apply the padding of the window to x if a pad is symbolic. Return (x, window).

    - A pad is symbolic: x is padded with `value`, and the window has no padding.
    - All pads are static: x is unchanged, and the window has its padding as ints.

    Raises InvalidModelError for a negative pad.
    """
    if all(is_static(size) and size >= 0 for pair in window.pads for size in pair):
        return x, window._replace(pads=tuple((int(low), int(high)) for low, high in window.pads))
    before = [0, 0] + [low for low, _ in window.pads]
    after = [0, 0] + [high for _, high in window.pads]
    return pad_(x, before, after, value=value), window.without_pads()


def _window_of_filter(window: Window, w: Tensor) -> Window:
    """Return the window with the spatial sizes of the filter w as its kernel; None for a symbolic size.

    Raises InvalidModelError if the kernel of `window` has another number of axes, or another static size.
    """
    sizes = w.shape[2:]
    if len(window.kernel) != len(sizes):
        raise InvalidModelError("a kernel of %d axes does not fit filters %s" % (len(window.kernel), list(w.shape)))
    for mine, theirs in zip(window.kernel, sizes):
        check_same("the size of the kernel", mine, "that of the filters", theirs)
    return window._replace(kernel=tuple(size if is_static(size) else None for size in sizes))


def _check_unpadded(name: str, window: Window) -> None:
    if window.is_padded:
        raise InvalidModelError("%s takes no padding, not %s" % (name, list(window.pads)))


def _check_filters(
    x: Tensor, w: Tensor, groups: int, channels: Extent, outputs: Extent, bias: Sequence[Tensor]
) -> None:
    """Raise InvalidModelError if the image x, the filters w, the bias and the number of groups do not fit each other.

    `channels`: the number of channels that x must have. `outputs`: the number of channels of the result. `bias`: a list
    with one tensor or none. Symbolic sizes are not checked.
    """
    if w.rank != x.rank or groups < 1:
        raise InvalidModelError(
            "filters %s in %d groups do not fit the image %s" % (list(w.shape), groups, list(x.shape))
        )
    check_same("the number of channels of the image", x.shape[1], "that of the filters", channels)
    if is_static(w.shape[0]) and w.shape[0] % groups:
        raise InvalidModelError("%s filters cannot be divided into %d groups" % (w.shape[0], groups))
    for tensor in bias:
        check_same("the length of the bias", tensor.shape[0] if tensor.rank else 1, "the number of results", outputs)


def _check_positions(name: str, x: Tensor, window: Window) -> None:
    """Raise InvalidModelError if a window has a negative number of positions on an axis of x.

    `name` is the primitive in the error. 0 positions are allowed. A symbolic number is not checked.
    """
    check_shape(window.counts(x.shape[2:]), name)


@primitive("f")
def conv(x: TensorLike, w: TensorLike, bias: Optional[TensorLike] = None, *, window: Window, groups: int = 1) -> Tensor:
    """The cross-correlation of x [N, C, spatial...] with w [M, C / groups, kernel...], zero-padded, plus bias [M].

    The emitter gets x in the shim's layout, and w in its filter layout. A channels-last emitter gets a depthwise
    convolution (groups = C > 1) as `depthwise_conv`, with the filter [1, kernel..., M].

    Raises InvalidModelError for shapes that do not fit, a negative pad, and a negative number of window positions.
    """
    x, w = lift(x), lift(w)
    rank = x.rank
    x, window = _pad_explicitly(x, window)
    operands = [x, w] if bias is None else [x, w, lift(bias)]
    _check_filters(x, w, groups, w.shape[1] * groups, w.shape[0], operands[2:])
    _check_positions("conv", x, window)
    params = {"window": _window_of_filter(window, w), "groups": groups}
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
    """A convolution in which each output channel reads one input channel.

    M / C consecutive output channels read the same input channel. The arguments are those of `conv`: w is [M, 1,
    kernel...], and `params` has `window` and `groups`. `groups` must be C.
    """
    return conv(x, w, bias, **params)


@primitive("f")
def conv_transpose(
    x: TensorLike, w: TensorLike, bias: Optional[TensorLike] = None, *, window: Window, groups: int = 1
) -> Tensor:
    """The transposed convolution of x [N, C, spatial...] with w [C, M / groups, kernel...], plus bias [M].

    The result is [N, M, spatial...] with the sizes (size - 1) * stride + (kernel - 1) * dilation + 1; nothing is
    cropped. The emitter gets w in the shim's filter layout, where I is C and O is M / groups.

    Raises InvalidModelError for shapes that do not fit, and for a window with padding.
    """
    x, w = lift(x), lift(w)
    operands = [x, w] if bias is None else [x, w, lift(bias)]
    _check_unpadded("conv_transpose", window)
    _check_filters(x, w, groups, w.shape[0], w.shape[1] * groups, operands[2:])
    params = {"window": _window_of_filter(window, w), "groups": groups}
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


def _pool(name: str, x: Tensor, window: Window) -> Tensor:
    _check_positions(name, x, window)
    folded = fold(name, [x], [x.dtype], window=window)
    if folded is not None:
        return folded[0]
    order = spatial_order(x.rank)
    return apply_primitive(name, [current_trace().argument(x, order)], {"window": window}, [order])[0]


@primitive("fiu")
def max_pool(x: TensorLike, window: Window) -> Tensor:
    """The largest element under a window that slides over [N, C, spatial...].

    Padding counts as -inf, or as the least integer. A negative pad, and a negative number of window positions, raise
    InvalidModelError.
    """
    x = lift(x)
    return _pool("max_pool", *_pad_explicitly(x, window, x.dtype.min if x.dtype.kind != "f" else -float("inf")))


@primitive("f")
def avg_pool(x: TensorLike, window: Window) -> Tensor:
    """The mean under a window that slides over [N, C, spatial...], without padding: the window stays inside.

    A window with padding, and a negative number of window positions, raise InvalidModelError.
    """
    _check_unpadded("avg_pool", window)
    return _pool("avg_pool", lift(x), window)
