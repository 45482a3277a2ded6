"""Pooling: the maximum, the mean or a norm over sliding windows."""

from typing import TYPE_CHECKING, Any, List, Optional, Sequence, Tuple, Union

from onnx_compat import primitives as p
from onnx_compat.errors import InvalidModelError
from onnx_compat.ir.dims import Extent
from onnx_compat.ir.dtypes import DType, int64
from onnx_compat.ir.window import Window
from onnx_compat.ops.arguments import align_to_axis, product
from onnx_compat.ops.older_versions import older_version
from onnx_compat.ops.registry import op
from onnx_compat.ops.window_geometry import round_up, window_from_attributes
from onnx_compat.tracing.values import Tensor, lift

if TYPE_CHECKING:
    from onnx_compat.tracing.interpreter import Context

Ints = Optional[Sequence[int]]


@op("MaxPool", since=(10, 11, 12, 22))
def max_pool(
    ctx: "Context",
    X: Tensor,
    *,
    kernel_shape: Sequence[int],
    auto_pad: str = "NOTSET",
    ceil_mode: int = 0,
    dilations: Ints = None,
    pads: Ints = None,
    storage_order: int = 0,
    strides: Ints = None,
) -> Tuple[Tensor, Optional[Tensor]]:
    """Return (maximum of each window, its flat int64 index in X). The index is None if it is not requested.

    Padding never is the maximum. Of equal elements, the first counts. `storage_order`: 0 for row-major indices; 1 for
    indices that are column-major in the spatial axes. `ceil_mode`: nonzero also counts a partial last window.

    Raises InvalidModelError for an unknown auto_pad, a negative pad, and a kernel size, stride or dilation below 1.
    Raises it also if X has no spatial axes, or if a list does not fit their number.
    """
    window = window_from_attributes(X.shape[2:], kernel_shape, auto_pad, pads, strides, dilations)
    window = round_up(window, X.shape[2:]) if ceil_mode else window
    return p.max_pool(X, window), _argmax_indices(X, window, storage_order) if ctx.wants(1) else None


op("MaxPool", since=8)(older_version(max_pool, without=["dilations", "ceil_mode"]))
op("MaxPool", since=1)(older_version(max_pool, without=["dilations", "ceil_mode", "storage_order"]))


def _argmax_indices(x: Tensor, window: Window, storage_order: int) -> Tensor:
    """Return the flat int64 index in x of the first maximum of each window, [N, C, positions...].

    `storage_order` 1 is column-major in the spatial axes, 0 row-major.
    """
    rank = len(window.kernel)
    counts = window.counts(x.shape[2:])
    low, high = zip(*window.pads)
    padding_value = x.dtype.min if x.dtype.kind != "f" else -float("inf")
    patches = p.pad(x, [0, 0, *low], [0, 0, *high], value=padding_value)
    positions = [_window_positions(*axis) for axis in zip(counts, window.kernel, window.strides, window.dilations)]
    for k, window_indices in enumerate(positions):  # [N, C, o1, k1, o2, k2 …]
        patches = p.take(patches, p.reshape(window_indices, (product(window_indices.shape),)), 2 + 2 * k)
        shape = patches.shape
        patches = p.reshape(patches, (*shape[: 2 + 2 * k], *window_indices.shape, *shape[3 + 2 * k :]))
    perm = [0, 1, *range(2, 2 + 2 * rank, 2), *range(3, 3 + 2 * rank, 2)]
    patches = p.transpose(patches, perm)
    best_index = p.argmax(p.reshape(patches, (*patches.shape[: 2 + rank], product(window.kernel))), -1)
    coordinates: List[Tensor] = []
    for k in reversed(range(rank)):
        offset = p.mod(best_index, lift(window.kernel[k], int64))
        best_index = p.floordiv(best_index, lift(window.kernel[k], int64))
        start = align_to_axis(p.iota(counts[k]) * window.strides[k] - lift(low[k], int64), 2 + k, 2 + rank)
        coordinates.insert(0, p.add(offset * window.dilations[k], start))
    return _flat_index(x, coordinates, storage_order)


def _window_positions(count: Extent, kernel: Extent, stride: int, dilation: int) -> Tensor:
    """Return the index on the padded axis of each element of each window, [count, kernel].

    The entry [w, k] is w * stride + k * dilation: element k of window w.
    """
    starts = p.mul(p.iota(count), lift(stride, int64))
    return p.add(p.unsqueeze(starts, [1]), p.mul(p.iota(kernel), lift(dilation, int64)))


def _flat_index(x: Tensor, coordinates: List[Tensor], storage_order: int) -> Tensor:
    """Convert coordinates on the spatial axes to flat indices into x: row-major, or column-major if `storage_order`.

    `coordinates` has a tensor [N, C, positions...] (or one that broadcasts) for each spatial axis.
    """
    extents = list(x.shape[2:])
    order = list(range(len(extents)))[:: -1 if storage_order else 1]
    index: Any = lift(0, int64)
    for k in order:
        index = p.add(p.mul(index, lift(extents[k], int64)), coordinates[k])
    planes = p.add(
        p.mul(align_to_axis(p.iota(x.shape[0]), 0, x.rank), lift(x.shape[1], int64)),
        align_to_axis(p.iota(x.shape[1]), 1, x.rank),
    )
    return p.add(index, p.mul(planes, lift(product(extents), int64)))


@op("AveragePool", since=(19, 22))
def average_pool(
    X: Tensor,
    *,
    kernel_shape: Sequence[int],
    auto_pad: str = "NOTSET",
    ceil_mode: int = 0,
    count_include_pad: int = 0,
    dilations: Ints = None,
    pads: Ints = None,
    strides: Ints = None,
) -> Tensor:
    """Return the mean of each window. Padding is left out of the mean unless `count_include_pad`.

    `ceil_mode`: nonzero also counts a partial last window. Its elements beyond the padding are left out of the mean in
    any case.

    Raises InvalidModelError for an unknown auto_pad, a negative pad, and a kernel size, stride or dilation below 1.
    Raises it also if X has no spatial axes, or if a list does not fit their number.
    """
    extents = X.shape[2:]
    window = window_from_attributes(extents, kernel_shape, auto_pad, pads, strides, dilations)
    full_window = round_up(window, extents) if ceil_mode else window
    mean = _window_mean(X, full_window)
    if not full_window.is_padded or (count_include_pad and not ceil_mode):  # every position under a window counts
        return mean
    for k, axis in enumerate(zip(full_window.counts(extents), *full_window)):
        low, high = window.pads[k] if count_include_pad else (0, 0)
        fraction = _inside_fraction(
            *axis[:4], begin=full_window.pads[k][0], first=-low, last=extents[k] + high, dtype=X.dtype
        )
        mean = p.div(mean, align_to_axis(fraction, 2 + k, X.rank))
    return mean


op("AveragePool", since=(10, 11))(older_version(average_pool, without=["dilations"]))
op("AveragePool", since=7)(older_version(average_pool, without=["dilations", "ceil_mode"]))
op("AveragePool", since=1)(older_version(average_pool, without=["dilations", "ceil_mode", "count_include_pad"]))


def _window_mean(x: Tensor, window: Window) -> Tensor:
    """Return the sum of each window, with padding as zeros, divided by the number of elements of the kernel.

    The padding thus counts as elements of the mean.
    """
    low, high = zip(*window.pads)
    padded = p.pad(x, [0, 0, *low], [0, 0, *high])
    return p.avg_pool(padded, window.without_pads())


def _inside_fraction(
    count: Extent,
    kernel: Extent,
    stride: int,
    dilation: int,
    *,
    begin: Extent,
    first: Extent,
    last: Extent,
    dtype: DType,
) -> Tensor:
    """Return, for each window on an axis, the fraction of its elements that lie in [first, last): a vector [count].

    - count: the number of windows.
    - begin: the number of padding elements before the axis. The first element of the axis has the coordinate 0.
    - first, last: the range of coordinates.
    """
    positions = p.sub(_window_positions(count, kernel, stride, dilation), lift(begin, int64))
    is_inside = p.logical_and(p.greater_equal(positions, lift(first, int64)), p.less(positions, lift(last, int64)))
    return p.reduce_mean(p.cast(is_inside, dtype), [1])


@op("LpPool", since=(18, 22))
def lp_pool(
    X: Tensor,
    *,
    kernel_shape: Ints = None,
    auto_pad: str = "NOTSET",
    ceil_mode: int = 0,
    dilations: Ints = None,
    p: Union[int, float] = 2,  # noqa: PYI041 (version 1 has a FLOAT, later ones an INT)
    pads: Ints = None,
    strides: Ints = None,
) -> Tensor:
    """Return the Lp norm of each window; padding counts as 0. The default window is the whole image.

    In version 1, p may be a fraction. `ceil_mode`: nonzero also counts a partial last window.

    Raises InvalidModelError unless p is positive, for an unknown auto_pad, a negative pad, and a kernel size, stride
    or dilation below 1. Raises it also if X has no spatial axes, or if a list does not fit their number.
    """
    if not p > 0:
        raise InvalidModelError("the p of an LpPool is a positive number, not %g" % p)
    window = window_from_attributes(X.shape[2:], kernel_shape or X.shape[2:], auto_pad, pads, strides, dilations)
    return _lp_pool(X, round_up(window, X.shape[2:]) if ceil_mode else window, p)


op("LpPool", since=(1, 2, 11))(older_version(lp_pool, without=["dilations", "ceil_mode"]))


def _lp_pool(x: Tensor, window: Window, power: float) -> Tensor:
    count = product(window.kernel)
    return _root(p.mul(_window_mean(_power(x, power), window), lift(count, x.dtype)), power)


def _power(x: Tensor, power: float) -> Tensor:
    return p.mul(x, x) if power == 2 else p.pow(p.abs(x), power)


def _root(x: Tensor, power: float) -> Tensor:
    return p.sqrt(x) if power == 2 else p.pow(x, 1 / power)


def spatial_axes(x: Tensor) -> List[int]:
    """Return the spatial axes of a tensor [N, C, spatial...]: 2, 3, …"""
    return list(range(2, x.rank))


@op("GlobalAveragePool", since=(1, 22))
def global_average_pool(X: Tensor) -> Tensor:
    """Return the mean over all spatial axes, which keep size 1."""
    return p.reduce_mean(X, spatial_axes(X), keepdims=True)


@op("GlobalMaxPool", since=(1, 22))
def global_max_pool(X: Tensor) -> Tensor:
    """Return the maximum over all spatial axes, which keep size 1."""
    return p.reduce_max(X, spatial_axes(X), keepdims=True)


@op("GlobalLpPool", since=(1, 2, 22))
def global_lp_pool(X: Tensor, *, p: Union[int, float] = 2) -> Tensor:  # noqa: PYI041 (version 1: FLOAT)
    """Return the Lp norm over all spatial axes, which keep size 1. In version 1, p may be a fraction."""
    return _global_norm(X, p)


def _global_norm(x: Tensor, power: float) -> Tensor:
    return _root(p.reduce_sum(_power(x, power), spatial_axes(x), keepdims=True), power)
