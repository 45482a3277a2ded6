"""Reading images between their pixels: the weighted sum of the pixels around each point.

An image's pixels are rows of channels, [planes * spatial..., C], so that one index finds all channels of one place.
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
    """A neighbour of each point on one axis: where it is (within the axis), what it weighs (None: one), and whether it
    counts (None: it does). Each broadcasts with the points.
    """

    index: Any
    weight: Any = None
    inside: Any = None


def pixel_rows(x: Tensor) -> Tensor:
    """[planes, C, spatial...] as rows [planes * spatial..., C]."""
    rows = p.transpose(x, [0, *range(2, x.rank), 1])
    return p.reshape(rows, (product(rows.shape[:-1]), rows.shape[-1]))


def cast_extent(extent: Extent, dtype: DType) -> Any:
    """A size as a scalar of a dtype."""
    return p.cast(lift(extent, int64), dtype)


def flat_index(plane: Any, places: Sequence[Any], extents: Sequence[Extent]) -> Any:
    """The row of a pixel, from its plane and its place on each axis."""
    for place, extent in zip(places, extents):
        plane = p.add(p.mul(plane, lift(extent, int64)), place)
    return plane


def corners(axes: Sequence[Sequence[Tap]]) -> List[Tap]:
    """The neighbours in space, of the neighbours on each axis; each index is the list of places on the axes."""
    return [
        Tap(
            [tap.index for tap in taps],
            _combine(p.mul, [tap.weight for tap in taps]),
            _combine(p.logical_and, [tap.inside for tap in taps]),
        )
        for taps in itertools.product(*axes)
    ]


def _combine(function: Any, parts: Sequence[Any]) -> Any:
    whole: Any = None
    for part in parts:
        whole = part if whole is None else whole if part is None else function(whole, part)
    return whole


def weighted_corners(
    rows: Tensor, plane: Any, axes: Sequence[Sequence[Tap]], extents: Sequence[Extent]
) -> Iterator[Any]:
    """The neighbours of each point, [points..., C], times their weights; zeros where they do not count."""
    blank = lift("" if rows.dtype.kind == "s" else 0, rows.dtype)
    for corner in corners(axes):
        value: Any = p.take(rows, flat_index(plane, corner.index, extents), 0)
        if corner.weight is not None:
            value = p.mul(value, p.cast(p.unsqueeze(corner.weight, [-1]), rows.dtype))
        if corner.inside is not None:
            value = p.where(p.unsqueeze(corner.inside, [-1]), value, blank)
        yield value


def weighted_sum(rows: Tensor, plane: Any, axes: Sequence[Sequence[Tap]], extents: Sequence[Extent]) -> Any:
    """What the image is at each point: [points..., C]."""
    return functools.reduce(p.add, weighted_corners(rows, plane, axes, extents))
