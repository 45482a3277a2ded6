"""Pooling over regions of interest of an image: RoiAlign and MaxRoiPool."""

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
    """Return the pooled value of each bin of each region: a tensor [regions, C, output_height, output_width].

    - rois: [x1, y1, x2, y2] for each region. spatial_scale converts the coordinates to pixels.
    - batch_indices: the number of the image for each region.
    - sampling_ratio: the number of evenly spaced points of a bin on each axis. 0 or less: as many as the bin has
      pixels, rounded up.
    - mode: "avg" is the mean of the interpolated values at the points; "max" is the largest weighted pixel around the
      points.
    - coordinate_transformation_mode: "half_pixel" shifts the regions by -0.5 pixels. With "output_half_pixel", a region
      is at least one pixel long.

    A bin without points gives 0. Raises InvalidModelError for an unknown mode or coordinate_transformation_mode.
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
    numbers = p.take(p.iota(X.shape[0]), p.cast(batch_indices, int64), 0)  # a number out of range is an error here
    plane = align_to_axis(numbers, 0, 5)
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
    """The sample points of all bins along an axis. Every region gets as many points as the region with the most.

    Attributes:
        taps: The two nearest pixels of each point, with their weights: [regions, bins, points].
        count: The number of points that each bin of a region has: [regions].
        is_used: Whether a point is among the `count` points of its region: [regions, 1, points].
    """

    taps: List[Tap]
    count: Any
    is_used: Any


def _sample_points(start: Tensor, end: Tensor, extent: Extent, bins: int, ratio: int, half_pixel: bool) -> _Points:
    """Return evenly spaced points in each bin of each region on an axis.

    `ratio` is the number of points per bin; with a ratio of 0 or less, a bin has as many points as pixels, rounded up.
    Unless `half_pixel`, a region is at least one pixel long.
    """
    length = end - start if half_pixel else p.maximum(end - start, 1)
    size = p.div(length, lift(float(bins), length.dtype))
    count = p.cast(p.maximum(p.ceil(size), 0), int64) if ratio <= 0 else p.full(size.shape, ratio, int64)
    max_count = as_sizes(p.maximum(p.reduce_max(count), 1))[0] if ratio <= 0 else ratio
    number = align_to_axis(p.iota(max_count), 2, 3)
    is_used = p.less(number, align_to_axis(count, 0, 3))
    step = p.div(size, p.cast(p.maximum(count, 1), size.dtype))
    bin_start = p.add(
        align_to_axis(start, 0, 3),
        p.mul(align_to_axis(p.cast(p.iota(bins), size.dtype), 1, 3), align_to_axis(size, 0, 3)),
    )
    positions = p.add(bin_start, p.mul(p.cast(number, size.dtype) + 0.5, align_to_axis(step, 0, 3)))
    return _Points(_bilinear_taps(positions, extent, is_used), count, is_used)


def _bilinear_taps(positions: Tensor, extent: Extent, is_used: Tensor) -> List[Tap]:
    """Return two taps for each point on an axis: the pixels below and above the point, with linear weights.

    A point up to one pixel outside of the image is moved to the edge of the image. `inside` is False for a point that
    is farther out, or whose `is_used` is False: the point counts as 0.
    """
    length = cast_extent(extent, positions.dtype)
    is_near = p.logical_and(p.greater_equal(positions, -1), p.less_equal(positions, length))
    clamped = p.minimum(p.maximum(positions, 0), length - 1)
    floor = p.floor(clamped)
    below, upper, inside = p.cast(floor, int64), clamped - floor, p.logical_and(is_near, is_used)
    above = p.minimum(below + 1, lift(extent - 1, int64))
    return [Tap(below, 1 - upper, inside), Tap(above, upper, inside)]


def _reshape_tap(tap: Tap, axes: Sequence[int]) -> Tap:
    """Reshape each field of a tap from [regions, bins, points] to rank 5.

    Axis k of a field becomes axis axes[k] of the result. The other axes have size 1.
    """
    return Tap(*(_reshape_to_axes(part, axes, 5) for part in tap))


def _reshape_to_axes(x: Tensor, axes: Sequence[int], rank: int) -> Any:
    shape: List[Extent] = [1] * rank
    for axis, extent in zip(axes, x.shape):
        shape[axis] = extent
    return p.reshape(x, shape)


def _max_of_points(values: Any, down: _Points, across: _Points) -> Any:
    """Return the maximum over the used points of each bin; 0 for a region without points.

    `values` is [regions, bins down, bins across, points down, points across, C].
    """
    is_used = p.logical_and(
        _reshape_to_axes(down.is_used, [0, 1, 3], 6), _reshape_to_axes(across.is_used, [0, 2, 4], 6)
    )
    has_no_points = align_to_axis(p.less(p.mul(down.count, across.count), 1), 0, 4)
    return p.where(has_no_points, 0, p.reduce_max(p.where(is_used, values, -float("inf")), [3, 4]))


@op("MaxRoiPool", since=(1, 22))
def max_roi_pool(X: Tensor, rois: Tensor, *, pooled_shape: Sequence[int], spatial_scale: float = 1.0) -> Tensor:
    """Return the maximum over the pixels of each bin of each region, [regions, C, bins down, bins across].

    - rois: [image number, x1, y1, x2, y2] for each region. spatial_scale multiplies the coordinates.
    - pooled_shape: the number of bins down and across.

    The ends of a region are rounded to pixels (halves away from zero), and the last pixel belongs to the region. The
    ends of a bin are rounded outwards, and bins may overlap for this reason. An empty bin gives 0.
    """
    index, x1, y1, x2, y2 = (p.reshape(part, (rois.shape[0],)) for part in p.split(rois, 1, [1] * 5))
    result = p.take(X, p.cast(index, int64), 0)
    empty: Any = None
    for axis, low, high, bins in ((2, y1, y2, pooled_shape[0]), (3, x1, x2, pooled_shape[1])):
        is_member, is_empty = _bin_members(low, high, spatial_scale, bins, X.shape[axis])
        rows = [
            p.where(_reshape_to_axes(p.slice_axis(is_member, 1, k, k + 1), [0, 1, axis], 4), result, -float("inf"))
            for k in range(bins)
        ]
        result = p.stack([p.reduce_max(row, [axis]) for row in rows], axis)
        is_empty = _reshape_to_axes(is_empty, [0, axis], 4)
        empty = is_empty if empty is None else p.logical_or(empty, is_empty)
    return p.where(empty, 0, result)


def _bin_members(low: Tensor, high: Tensor, scale: float, bins: int, extent: Extent) -> Tuple[Any, Any]:
    """Return (whether each pixel of an axis is in each bin, whether each bin is empty).

    The shapes are [regions, bins, extent] and [regions, bins, 1].

    `low` and `high` are the first and the last pixel of each region on the axis, before they are multiplied by `scale`
    and rounded.
    """
    first, last = (_round_half_away(p.mul(end, scale)) for end in (low, high))
    size = p.div(p.maximum(last - first + 1, 1), lift(float(bins), low.dtype))
    number = align_to_axis(p.cast(p.iota(bins), low.dtype), 1, 2)
    starts = p.add(p.floor(p.mul(number, align_to_axis(size, 0, 2))), align_to_axis(first, 0, 2))
    ends = p.add(p.ceil(p.mul(number + 1, align_to_axis(size, 0, 2))), align_to_axis(first, 0, 2))
    pixels = align_to_axis(p.cast(p.iota(extent), low.dtype), 2, 3)
    is_member = p.logical_and(p.less_equal(p.unsqueeze(starts, [2]), pixels), p.less(pixels, p.unsqueeze(ends, [2])))
    return is_member, p.logical_not(p.reduce_max(is_member, [2]))


def _round_half_away(x: Tensor) -> Any:
    """Round to the nearest integer, halves away from zero."""
    return p.mul(p.sign(x), p.floor(p.abs(x) + 0.5))
