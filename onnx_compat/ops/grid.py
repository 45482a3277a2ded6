"""Spatial transformers: sample images at the points of a grid, and build a grid from an affine matrix."""

from typing import Any, List, Optional

from onnx_compat import primitives as p
from onnx_compat.errors import InvalidModelError
from onnx_compat.ir.dims import Extent, maximum
from onnx_compat.ir.dtypes import DType, int64
from onnx_compat.ops.arguments import align_to_axis, compute_dtype, product
from onnx_compat.ops.point_sampling import Tap, cast_extent, pixel_rows, weighted_sum
from onnx_compat.ops.registry import op
from onnx_compat.ops.resize_weights import Kernel, cubic_kernel, linear_kernel
from onnx_compat.tracing.values import Tensor, as_sizes, lift


@op("GridSample", since=(20, 22))
def grid_sample(
    X: Tensor, grid: Tensor, *, align_corners: int = 0, mode: str = "linear", padding_mode: str = "zeros"
) -> Tensor:
    """Return the image interpolated at each point of the grid: [N, C, points...], in the dtype of X.

    - X: the image [N, C, spatial...].
    - grid: coordinates [N, points..., spatial rank]. Their order is reversed: x, then y for an image
      [N, C, height, width].
    - align_corners: if nonzero, coordinates -1 and 1 are the centers of the outermost pixels, else the edges of the
      image.
    - mode: "linear", "nearest" (a half rounds to the even index) or "cubic". Linear and cubic modes interpolate an
      integer image in float32.
    - padding_mode: the value of a pixel outside of the image: 0 ("zeros"), that of the border pixel ("border"), or that
      of the reflected image ("reflection"). With align_corners, the image is reflected at the centers of the outermost
      pixels, else at the edges.

    Raises InvalidModelError for another mode or padding_mode.
    """
    if mode not in ("linear", "nearest", "cubic"):
        raise InvalidModelError("a GridSample is linear, nearest or cubic, not %r" % mode)
    if padding_mode not in ("zeros", "border", "reflection"):
        raise InvalidModelError("padding_mode is zeros, border or reflection, not %r" % padding_mode)
    if mode != "nearest" and X.dtype.kind not in "fc":
        return p.cast(_sample(p.cast(X, compute_dtype(X)), grid, mode, padding_mode, bool(align_corners)), X.dtype)
    return _sample(X, grid, mode, padding_mode, bool(align_corners))


@op("GridSample", since=16)
def grid_sample_16(
    X: Tensor, grid: Tensor, *, align_corners: int = 0, mode: str = "bilinear", padding_mode: str = "zeros"
) -> Tensor:
    """Return the image X interpolated at each point of the grid, for opset 16: `grid_sample` with other names of modes.

    The modes are "bilinear", "bicubic" and "nearest"; the names "linear" and "cubic" are accepted too. Raises
    InvalidModelError for another mode or padding_mode.
    """
    modes = {"bilinear": "linear", "bicubic": "cubic"}
    return grid_sample(X, grid, align_corners=align_corners, mode=modes.get(mode, mode), padding_mode=padding_mode)


def _sample(x: Tensor, grid: Tensor, mode: str, padding_mode: str, aligned: bool) -> Tensor:
    """Return the image at each point of the grid, [N, C, points...], for a `mode` that is linear, nearest or cubic.

    `aligned` is align_corners. x must hold floats or complex numbers, unless the mode is nearest. The result has the
    dtype of x.
    """
    grid = p.cast(grid, compute_dtype(grid))
    extents = x.shape[2:]
    axes: List[List[Tap]] = []
    for position, extent in zip(reversed(p.split(grid, -1, [1] * len(extents))), extents):
        pixels = _to_pixels(p.squeeze(position, [-1]), extent, aligned)
        axes.append(_axis_taps(pixels, extent, mode, padding_mode, aligned))
    plane = align_to_axis(p.iota(x.shape[0]), 0, grid.rank - 1)
    points = weighted_sum(pixel_rows(x), plane, axes, extents)
    return p.transpose(points, [0, points.rank - 1, *range(1, points.rank - 1)])


def _to_pixels(position: Tensor, extent: Extent, aligned: bool) -> Any:
    """Map coordinates in [-1, 1] to pixel indices on an axis of size `extent`.

    If `aligned`, -1 and 1 are the centres of the first and the last pixel. Otherwise -1 and 1 are the edges of the
    image.
    """
    length = cast_extent(extent, position.dtype)
    return (position + 1) / 2 * (length - 1) if aligned else ((position + 1) * length - 1) / 2


def _axis_taps(pixels: Any, extent: Extent, mode: str, padding_mode: str, aligned: bool) -> List[Tap]:
    """Return the taps of an axis: the pixels, with their weights, that interpolate the image at each position.

    `pixels` has the positions as pixel indices with a fraction. `extent` is the size of the axis. Mode nearest gives a
    single tap without a weight, mode linear two taps, mode cubic four. `padding_mode` is "zeros", "border" or
    "reflection". `aligned` is the align_corners of the operator: it decides where "reflection" reflects.
    """
    if padding_mode != "reflection":  # farther positions have no pixel of the image in reach, so they are equivalent
        pixels = p.minimum(p.maximum(pixels, -3), cast_extent(extent, pixels.dtype) + 2)
    if mode == "nearest":
        return [_padded_tap(p.cast(p.round(pixels), int64), None, extent, padding_mode, aligned)]
    kernel: Kernel = linear_kernel if mode == "linear" else cubic_kernel(-0.75)
    floor = p.floor(pixels)
    base, fraction = p.cast(floor, int64), p.sub(pixels, floor)
    return [
        _padded_tap(p.add(base, offset), weight, extent, padding_mode, aligned)
        for offset, weight in zip(kernel.offsets(1.0), kernel.weights(fraction))
    ]


def _padded_tap(index: Tensor, weight: Optional[Tensor], extent: Extent, padding_mode: str, aligned: bool) -> Tap:
    """Return the tap of a pixel index that may be outside of the image.

    The index of the tap depends on `padding_mode`:

    - "reflection": the index is reflected into the image.
    - "border": the index is clamped to the image.
    - "zeros": the index is clamped to the image, and `inside` of the tap tells whether it was in the image.

    `weight` becomes the weight of the tap. `extent` is the size of the axis. If `aligned`, the image is reflected at
    the centers of the outermost pixels, else at its edges.
    """
    last = lift(extent - 1, int64)
    if (
        padding_mode == "reflection"
    ):  # the reflected image is periodic; its period has the outermost pixels twice, unless aligned
        period = maximum((extent - 1) * 2, 1) if aligned else extent * 2
        phase = p.mod(index, lift(period, int64))
        return Tap(p.minimum(phase, p.sub(lift(period if aligned else period - 1, int64), phase)), weight)
    clamped = p.minimum(p.maximum(index, 0), last)
    return Tap(clamped, weight, p.equal(clamped, index) if padding_mode == "zeros" else None)


@op("AffineGrid", since=20)
def affine_grid(theta: Tensor, size: Tensor, *, align_corners: int = 0) -> Tensor:
    """Return the sampling grid of an affine map: theta @ [x, y, 1] (3D: theta @ [x, y, z, 1]) for each output pixel.

    - theta: [N, 2, 3] (3D: [N, 3, 4])
    - size: the shape of the output image: [N, C, H, W] (3D: [N, C, D, H, W])
    - result: [N, H, W, 2] (3D: [N, D, H, W, 3]), in the dtype of theta

    x, y and z are coordinates along the axes W, H and D. If `align_corners` is nonzero, -1 and 1 are the centers of the
    outermost pixels, else the edges of the image. Raises NeedsKnownError if neither the length of `size` nor the second
    size of `theta` is known.
    """
    extents = as_sizes(size, theta.shape[1] + 2)[2:]
    rank = len(extents)
    dtype = compute_dtype(theta)
    lines = [
        align_to_axis(_grid_line(extent, dtype, bool(align_corners)), axis, rank) for axis, extent in enumerate(extents)
    ]
    lines = [*reversed(lines), lift(1, dtype)]
    points = p.stack([p.broadcast_to(line, extents) for line in lines], rank)
    flat = p.reshape(points, (1, product(extents), rank + 1))
    grid = p.matmul(flat, p.cast(theta, dtype), transpose_y=True)
    return p.cast(p.reshape(grid, (theta.shape[0], *extents, rank)), theta.dtype)


def _grid_line(extent: Extent, dtype: DType, aligned: bool) -> Tensor:
    """Return evenly spaced coordinates in [-1, 1]: from -1 to 1 if `aligned`, else the centers of the pixels.

    A single element has the coordinate 0 in both cases.
    """
    position: Any = p.iota(extent) * 2 + 1 - lift(extent, int64)
    steps = maximum(extent - 1, 1) if aligned else extent
    return p.div(p.cast(position, dtype), cast_extent(steps, dtype))
