"""Inverses of window operators: Col2Im, the inverse of im2col, and MaxUnpool, the inverse of MaxPool."""

from typing import Any, List, Optional, Sequence

from onnx_compat import primitives as p
from onnx_compat.ir.dims import Extent, floordiv
from onnx_compat.ir.dtypes import int64
from onnx_compat.ops.arguments import align_to_axis, per_axis, product, split_pads
from onnx_compat.ops.point_sampling import flat_index
from onnx_compat.ops.registry import op
from onnx_compat.ops.window_geometry import window_from_attributes
from onnx_compat.tracing.values import Tensor, as_sizes, lift

Ints = Optional[Sequence[int]]


@op("Col2Im", since=18)
def col2im(
    input: Tensor,
    image_shape: Tensor,
    block_shape: Tensor,
    *,
    dilations: Ints = None,
    pads: Ints = None,
    strides: Ints = None,
) -> Tensor:
    """Add up columns of blocks into an image, each block at its position, and crop the padding (inverse of im2col).

    The input is [N, C * block size, blocks], the result [N, C, image_shape...]. The block size is the product of
    `block_shape`. Raises InvalidModelError for attributes that do not fit the axes. Raises NeedsKnownError if the
    lengths of `image_shape` and `block_shape` are not known.
    """
    extents = as_sizes(image_shape, block_shape.shape[0])
    kernel = as_sizes(block_shape, len(extents))
    rank = len(extents)
    window = window_from_attributes(extents, kernel, "NOTSET", pads, strides, dilations)
    counts = window.counts(extents)
    coordinates: List[Any] = []
    for k in range(rank):
        kernel_offsets = align_to_axis(p.mul(p.iota(kernel[k]), window.dilations[k]), k, 2 * rank)
        coordinates.append(
            p.add(kernel_offsets, align_to_axis(p.mul(p.iota(counts[k]), window.strides[k]), rank + k, 2 * rank))
        )
    padded = [low + extent + high for extent, (low, high) in zip(extents, window.pads)]
    rows = p.reshape(flat_index(lift(0, int64), coordinates, padded), (product(kernel) * product(counts), 1))
    n, channels = input.shape[0], floordiv(input.shape[1], product(kernel))
    split = p.reshape(input, (n * channels, product(kernel) * product(counts)))
    image = p.full((product(padded), n * channels), 0, input.dtype)
    image = p.scatter_nd(image, rows, p.transpose(split, [1, 0]), "add")
    image = p.reshape(p.transpose(image, [1, 0]), (n, channels, *padded))
    for k, (low, _) in enumerate(window.pads):
        image = p.slice_axis(image, 2 + k, low, low + extents[k])
    return image


@op("MaxUnpool", since=(9, 11, 22))
def max_unpool(
    X: Tensor,
    I: Tensor,  # noqa: E741  (ONNX's name)
    output_shape: Optional[Tensor] = None,
    *,
    kernel_shape: Sequence[int],
    pads: Ints = None,
    strides: Ints = None,
) -> Tensor:
    """Return an image of zeros with each element of X at its flat index in I: the inverse of MaxPool.

    The indices count the elements of the whole image [N, C, spatial sizes...]. The spatial sizes are
    (size of X - 1) * stride + kernel - pads. `output_shape` is the shape of the result, [N, C, ...]: zeros are appended
    at the end of each axis on which it is larger. Raises InvalidModelError for an odd number of pads, and for strides
    below 1 or of another number than the spatial axes.
    """
    rank = X.rank - 2
    pad_pairs = split_pads(pads) if pads else [(0, 0)] * rank
    image: List[Extent] = list(X.shape[:2])
    for extent, kernel, stride, (low, high) in zip(X.shape[2:], kernel_shape, per_axis(strides, rank, 1), pad_pairs):
        image.append((extent - 1) * stride + kernel - low - high)
    flat = p.full((product(image),), 0, X.dtype)
    filled = p.scatter_nd(flat, p.reshape(I, (X.size, 1)), p.reshape(X, (X.size,)))
    result = p.reshape(filled, image)
    if output_shape is None:
        return result
    wanted = as_sizes(output_shape, X.rank)
    return p.pad(result, [0] * X.rank, [after - before for before, after in zip(image, wanted)])
