"""Interpolation of images at points between pixels: the weighted sum of the pixels around each point.

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
    """A pixel near each sample point, on one axis, that contributes to the interpolation.

    Each field broadcasts with the points.

    Attributes:
        index: The coordinate of the pixel on the axis.
        weight: The weight of the pixel; None is 1.
        inside: Whether the pixel counts, or is replaced by 0; None means that it counts.
    """

    index: Any
    weight: Any = None
    inside: Any = None


def pixel_rows(x: Tensor) -> Tensor:
    """Reshape [planes, C, spatial...] to rows [planes * spatial..., C]."""
    rows = p.transpose(x, [0, *range(2, x.rank), 1])
    return p.reshape(rows, (product(rows.shape[:-1]), rows.shape[-1]))


def cast_extent(extent: Extent, dtype: DType) -> Any:
    """Return a size, which may be symbolic, as a scalar tensor of a dtype."""
    return p.cast(lift(extent, int64), dtype)


def flat_index(plane: Tensor, coordinates: Sequence[Any], extents: Sequence[Extent]) -> Any:
    """Return the index of a pixel among the rows of `pixel_rows`.

    `plane` is the number of the image. `coordinates` has the pixel's coordinate on each axis, and `extents` the size of
    each axis. Plane 1, coordinates [2, 3] and extents [4, 5] give (1 * 4 + 2) * 5 + 3 = 33.
    """
    for coordinate, extent in zip(coordinates, extents):
        plane = p.add(p.mul(plane, lift(extent, int64)), coordinate)
    return plane


def corners(axes: Sequence[Sequence[Tap]]) -> List[Tap]:
    """Return a Tap for each corner around the points: for each combination of taps, one tap of each axis.

    Two axes with two taps each give four corners. The fields of a corner:

    - index: a list with the coordinate on each axis.
    - weight: the product of the taps' weights; None if all weights are None.
    - inside: whether all taps are inside; None if this field of all taps is None.
    """
    return [
        Tap(
            [tap.index for tap in taps],
            _combine(p.mul, [tap.weight for tap in taps]),
            _combine(p.logical_and, [tap.inside for tap in taps]),
        )
        for taps in itertools.product(*axes)
    ]


def _combine(function: Any, parts: Sequence[Any]) -> Any:
    """Combine the parts that are not None by a function of two parts, from left to right.

    Return None if all parts are None.
    """
    combined: Any = None
    for part in parts:
        combined = part if combined is None else combined if part is None else function(combined, part)
    return combined


def weighted_corners(
    rows: Tensor, plane: Tensor, axes: Sequence[Sequence[Tap]], extents: Sequence[Extent]
) -> Iterator[Any]:
    """Yield a tensor [points..., C] for each corner around the points: the pixels at the corner, times their weight.

    A pixel that is not `inside` is replaced by 0, or by "" in an image of strings.

    - rows: the pixels, as `pixel_rows` returns them.
    - plane: the number of the image of each point.
    - axes: the taps on each axis.
    - extents: the size of each axis.
    """
    blank = lift("" if rows.dtype.kind == "s" else 0, rows.dtype)
    for corner in corners(axes):
        value: Any = p.take(rows, flat_index(plane, corner.index, extents), 0)
        if corner.weight is not None:
            value = p.mul(value, p.cast(p.unsqueeze(corner.weight, [-1]), rows.dtype))
        if corner.inside is not None:
            value = p.where(p.unsqueeze(corner.inside, [-1]), value, blank)
        yield value


def weighted_sum(rows: Tensor, plane: Tensor, axes: Sequence[Sequence[Tap]], extents: Sequence[Extent]) -> Any:
    """Return the image interpolated at each point, as a tensor [points..., C]: the sum of `weighted_corners`.

    - rows: the pixels, as `pixel_rows` returns them.
    - plane: the number of the image of each point.
    - axes: the taps on each axis.
    - extents: the size of each axis.

    An image of strings must have a single corner, without a weight.
    """
    return functools.reduce(p.add, weighted_corners(rows, plane, axes, extents))
