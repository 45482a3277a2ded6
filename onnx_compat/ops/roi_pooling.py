"""Pooling over regions of interest of an image."""

import functools
from typing import Any, List, NamedTuple, Sequence, Tuple

from onnx_compat import primitives as p
from onnx_compat.errors import InvalidModelError
from onnx_compat.ir.dims import Extent
from onnx_compat.ir.dtypes import int64
from onnx_compat.ops.arguments import align_to_axis, compute_dtype
from onnx_compat.ops.older_versions import older_version
from onnx_compat.ops.point_sampling import Tap, cast_extent, pixel_rows, weighted_corners
from onnx_compat.ops.registry import op
from onnx_compat.tracing.values import Tensor, as_sizes, lift


@op("RoiAlign", since=(16, 22))
def roi_align(
    X: Tensor,
    rois: Tensor,
    batch_indices: Tensor,
    *,
    coordinate_transformation_mode: str = "half_pixel",
    mode: str = "avg",
    output_height: int = 1,
    output_width: int = 1,
    sampling_ratio: int = 0,
    spatial_scale: float = 1.0,
) -> Tensor:
    """Points spread evenly over each bin; of each the four pixels around it, weighed. The mean sums all of these, the
    largest is the largest single one. Points are [R, height, width, down a bin, across a bin].
    """
    if mode not in ("avg", "max"):
        raise InvalidModelError("a RoiAlign takes the mean ('avg') or the largest ('max'), not %r" % mode)
    if coordinate_transformation_mode not in ("half_pixel", "output_half_pixel"):
        raise InvalidModelError("there is no coordinate_transformation_mode %r" % coordinate_transformation_mode)
    half_pixel = coordinate_transformation_mode == "half_pixel"
    dtype = compute_dtype(X)
    edges: Any = p.cast(rois, dtype) * spatial_scale - (0.5 if half_pixel else 0)
    x1, y1, x2, y2 = (p.reshape(edge, (rois.shape[0],)) for edge in p.split(edges, 1, [1] * 4))
    down = _sample_points(y1, y2, X.shape[2], output_height, sampling_ratio, half_pixel)
    across = _sample_points(x1, x2, X.shape[3], output_width, sampling_ratio, half_pixel)
    axes = [[_reshape_tap(tap, [0, 1, 3]) for tap in down.taps], [_reshape_tap(tap, [0, 2, 4]) for tap in across.taps]]
    plane = align_to_axis(p.cast(batch_indices, int64), 0, 5)
    values = weighted_corners(pixel_rows(p.cast(X, dtype)), plane, axes, X.shape[2:])
    if mode == "avg":
        count = p.maximum(p.mul(down.count, across.count), 1)
        total = p.reduce_sum(functools.reduce(p.add, values), [3, 4])
        pooled: Any = p.div(total, align_to_axis(p.cast(count, dtype), 0, 4))
    else:
        pooled = _max_of_points(functools.reduce(p.maximum, values), down, across)
    return p.cast(p.transpose(pooled, [0, 3, 1, 2]), X.dtype)


op("RoiAlign", since=10)(
    older_version(
        functools.partial(roi_align, coordinate_transformation_mode="output_half_pixel"),
        without=["coordinate_transformation_mode"],
    )
)


class _Points(NamedTuple):
    """The points along one axis: neighbours of each, [R, bins, points], and how many of the points each region has."""

    taps: List[Tap]
    count: Any
    own: Any


def _sample_points(start: Any, end: Any, extent: Extent, bins: int, ratio: int, half_pixel: bool) -> _Points:
    length = end - start if half_pixel else p.maximum(end - start, 1)
    size = p.div(length, lift(float(bins), length.dtype))
    count = p.cast(p.maximum(p.ceil(size), 0), int64) if ratio <= 0 else p.full(size.shape, ratio, int64)
    most = as_sizes(p.maximum(p.reduce_max(count), 1))[0] if ratio <= 0 else ratio
    number = align_to_axis(p.iota(most), 2, 3)
    own = p.less(number, align_to_axis(count, 0, 3))
    step = p.div(size, p.cast(p.maximum(count, 1), size.dtype))
    bin_start = p.add(
        align_to_axis(start, 0, 3),
        p.mul(align_to_axis(p.cast(p.iota(bins), size.dtype), 1, 3), align_to_axis(size, 0, 3)),
    )
    place = p.add(bin_start, p.mul(p.cast(number, size.dtype) + 0.5, align_to_axis(step, 0, 3)))
    return _Points(_bilinear_taps(place, extent, own), count, own)


def _bilinear_taps(place: Any, extent: Extent, own: Any) -> List[Tap]:
    """The pixels on both sides. A point less than one pixel outside is moved to the edge, one farther out is zero."""
    length = cast_extent(extent, place.dtype)
    near = p.logical_and(p.greater_equal(place, -1), p.less_equal(place, length))
    held = p.minimum(p.maximum(place, 0), length - 1)
    floor = p.floor(held)
    below, upper, inside = p.cast(floor, int64), held - floor, p.logical_and(near, own)
    above = p.minimum(below + 1, lift(extent - 1, int64))
    return [Tap(below, 1 - upper, inside), Tap(above, upper, inside)]


def _reshape_tap(tap: Tap, axes: Sequence[int]) -> Tap:
    """A tap of [R, bins, points] with its axes at these places of five."""
    return Tap(*(_reshape_to_axes(part, axes, 5) for part in tap))


def _reshape_to_axes(x: Any, axes: Sequence[int], rank: int) -> Any:
    shape: List[Extent] = [1] * rank
    for axis, extent in zip(axes, x.shape):
        shape[axis] = extent
    return p.reshape(x, shape)


def _max_of_points(values: Any, down: _Points, across: _Points) -> Any:
    """Of the points that a region has; of none, zero."""
    own = p.logical_and(_reshape_to_axes(down.own, [0, 1, 3], 6), _reshape_to_axes(across.own, [0, 2, 4], 6))
    none = align_to_axis(p.less(p.mul(down.count, across.count), 1), 0, 4)
    return p.where(none, 0, p.reduce_max(p.where(own, values, -float("inf")), [3, 4]))


@op("MaxRoiPool", since=(1, 22))
def max_roi_pool(X: Tensor, rois: Tensor, *, pooled_shape: Sequence[int], spatial_scale: float = 1.0) -> Tensor:
    """First down, then across; a region's ends are rounded to pixels, a bin's ends to the outside of it."""
    index, x1, y1, x2, y2 = (p.reshape(part, (rois.shape[0],)) for part in p.split(rois, 1, [1] * 5))
    result = p.take(X, p.cast(index, int64), 0)
    empty: Any = None
    for axis, low, high, bins in ((2, y1, y2, pooled_shape[0]), (3, x1, x2, pooled_shape[1])):
        under, hollow = _bin_members(low, high, spatial_scale, bins, X.shape[axis])
        rows = [
            p.where(_reshape_to_axes(p.slice_axis(under, 1, k, k + 1), [0, 1, axis], 4), result, -float("inf"))
            for k in range(bins)
        ]
        result = p.stack([p.reduce_max(row, [axis]) for row in rows], axis)
        hollow = _reshape_to_axes(hollow, [0, axis], 4)
        empty = hollow if empty is None else p.logical_or(empty, hollow)
    return p.where(empty, 0, result)


def _bin_members(low: Any, high: Any, scale: float, bins: int, extent: Extent) -> Tuple[Any, Any]:
    """Which pixels of an axis lie in which bin, [R, bins, extent], and which bins have none."""
    first, last = (_round_half_away(p.mul(end, scale)) for end in (low, high))
    size = p.div(p.maximum(last - first + 1, 1), lift(float(bins), low.dtype))
    number = align_to_axis(p.cast(p.iota(bins), low.dtype), 1, 2)
    starts = p.add(p.floor(p.mul(number, align_to_axis(size, 0, 2))), align_to_axis(first, 0, 2))
    ends = p.add(p.ceil(p.mul(number + 1, align_to_axis(size, 0, 2))), align_to_axis(first, 0, 2))
    place = align_to_axis(p.cast(p.iota(extent), low.dtype), 2, 3)
    under = p.logical_and(p.less_equal(p.unsqueeze(starts, [2]), place), p.less(place, p.unsqueeze(ends, [2])))
    return under, p.logical_not(p.reduce_max(under, [2]))


def _round_half_away(x: Any) -> Any:
    """To the nearest integer; of two, the one farther from zero."""
    return p.mul(p.sign(x), p.floor(p.abs(x) + 0.5))
