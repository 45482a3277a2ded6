"""Sampling of images between their pixels: the weighted sum of the pixels around each point.

The pixels of an image are rows of channels, [planes * spatial..., C], so that a single index selects all channels of a
pixel.
"""

import functools
import itertools
from typing import Any, Iterator, List, NamedTuple, Sequence

from onnx_compat import primitives as p
from onnx_compat.ir.dims import Extent
from onnx_compat.ir.dtypes import DType, int64
from onnx_compat.ops.arguments import product
from onnx_compat.tracing.values import Tensor, lift

__all__ = ["Tap", "cast_extent", "corners", "flat_index", "pixel_rows", "weighted_corners", "weighted_sum"]


class Tap(NamedTuple):
    """A pixel near each point, on one axis. Each field broadcasts with the points.

    Attributes:
        index: The coordinate of the pixel on the axis.
        weight: The weight of the pixel; None is 1.
        inside: Whether the pixel counts; None means that it does.
    """

    index: Any
    weight: Any = None
    inside: Any = None


def pixel_rows(x: Tensor) -> Tensor:
    """Reshape [planes, C, spatial...] to rows [planes * spatial..., C]."""
    rows = p.transpose(x, [0, *range(2, x.rank), 1])
    return p.reshape(rows, (product(rows.shape[:-1]), rows.shape[-1]))


def cast_extent(extent: Extent, dtype: DType) -> Any:
    """Return a size as a scalar of a dtype."""
    return p.cast(lift(extent, int64), dtype)


def flat_index(plane: Tensor, coordinates: Sequence[Any], extents: Sequence[Extent]) -> Any:
    """Return the row of a pixel, from its plane and its coordinate on each axis."""
    for coordinate, extent in zip(coordinates, extents):
        plane = p.add(p.mul(plane, lift(extent, int64)), coordinate)
    return plane


def corners(axes: Sequence[Sequence[Tap]]) -> List[Tap]:
    """Return the taps in space: the product of the taps on each axis. Each index is a list of coordinates."""
    return [
        Tap(
            [tap.index for tap in taps],
            _combine(p.mul, [tap.weight for tap in taps]),
            _combine(p.logical_and, [tap.inside for tap in taps]),
        )
        for taps in itertools.product(*axes)
    ]


def _combine(function: Any, parts: Sequence[Any]) -> Any:
    """Combine the parts that are not None by a function; None if all of them are."""
    combined: Any = None
    for part in parts:
        combined = part if combined is None else combined if part is None else function(combined, part)
    return combined


def weighted_corners(
    rows: Tensor, plane: Tensor, axes: Sequence[Sequence[Tap]], extents: Sequence[Extent]
) -> Iterator[Any]:
    """Yield each pixel around the points, [points..., C], times its weight. A pixel that does not count is 0."""
    blank = lift("" if rows.dtype.kind == "s" else 0, rows.dtype)
    for corner in corners(axes):
        value: Any = p.take(rows, flat_index(plane, corner.index, extents), 0)
        if corner.weight is not None:
            value = p.mul(value, p.cast(p.unsqueeze(corner.weight, [-1]), rows.dtype))
        if corner.inside is not None:
            value = p.where(p.unsqueeze(corner.inside, [-1]), value, blank)
        yield value


def weighted_sum(rows: Tensor, plane: Tensor, axes: Sequence[Sequence[Tap]], extents: Sequence[Extent]) -> Any:
    """Return the interpolated image at each point, [points..., C]."""
    return functools.reduce(p.add, weighted_corners(rows, plane, axes, extents))
