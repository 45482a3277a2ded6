"""Deformable convolution: each position under the kernel is moved by an offset and weighted by a mask."""

from typing import Any, List, Optional, Sequence

from onnx_compat import primitives as p
from onnx_compat.ir.dims import Extent, floordiv
from onnx_compat.ir.dtypes import int64
from onnx_compat.ops.arguments import align_to_axis, compute_dtype, per_axis, product, split_pads
from onnx_compat.ops.point_sampling import Tap, cast_extent, pixel_rows, weighted_sum
from onnx_compat.ops.registry import op
from onnx_compat.tracing.values import Tensor, lift

Ints = Optional[Sequence[int]]


@op("DeformConv", since=(19, 22))
def deform_conv(
    X: Tensor,
    W: Tensor,
    offset: Tensor,
    B: Optional[Tensor] = None,
    mask: Optional[Tensor] = None,
    *,
    dilations: Ints = None,
    group: int = 1,
    kernel_shape: Ints = None,
    offset_group: int = 1,
    pads: Ints = None,
    strides: Ints = None,
) -> Tensor:
    """Return the deformable convolution [N, M, output...]. Each kernel element reads X at its position plus an offset.

    - X: [N, C, spatial...]
    - W: [M, C / group, kernel...]
    - offset: [N, offset_group * number of kernel elements * spatial rank, output...]. Its spatial sizes are those of
      the result. For each kernel element, it has the displacement on each axis, in pixels, the first axis first.
    - B: the bias of each of the M filters; by default 0.
    - mask: [N, offset_group * number of kernel elements, output...]: the factor of each pixel that is read; by default
      1.
    - pads: only the padding at the beginning of an axis has an effect.

    A position between pixels is interpolated linearly. Pixels outside of X are 0. Raises InvalidModelError if strides
    or dilations do not have an entry for each spatial axis.
    """
    n, channels, *extents = X.shape
    outputs, rank = offset.shape[2:], X.rank - 2
    kernel = list(kernel_shape or W.shape[2:])
    size, count = product(kernel), product(outputs)
    dtype = compute_dtype(X)
    offsets = p.cast(p.reshape(offset, (n, offset_group, size, rank, *outputs)), dtype)
    starts = [low for low, _ in split_pads(pads)] if pads else [0] * rank
    steps, dilation = per_axis(strides, rank, 1), per_axis(dilations, rank, 1)
    axes: List[List[Tap]] = []
    for k, delta in enumerate(p.split(offsets, 3, [1] * rank)):
        kernel_positions = p.add(
            align_to_axis(p.mul(_kernel_coordinates(kernel, k), lift(dilation[k], int64)), 2, 3 + rank),
            align_to_axis(p.iota(outputs[k]) * steps[k] - starts[k], 3 + k, 3 + rank),
        )
        position = p.add(p.squeeze(delta, [3]), p.cast(kernel_positions, dtype))
        axes.append(_axis_taps(position, extents[k]))
    group_channels = floordiv(channels, offset_group)
    planes = p.reshape(p.cast(X, dtype), (n * offset_group, group_channels, *extents))
    plane = p.reshape(p.iota(n * offset_group), (n, offset_group, *[1] * (1 + rank)))
    samples = weighted_sum(pixel_rows(planes), plane, axes, extents)  # [N, offset_group, K, outputs..., share]
    if mask is not None:
        weight = p.cast(p.reshape(mask, (n, offset_group, size, *outputs)), dtype)
        samples = p.mul(samples, p.unsqueeze(weight, [-1]))
    samples = p.transpose(samples, [0, 1, samples.rank - 1, *range(2, samples.rank - 1)])
    columns = p.reshape(samples, (n, group, floordiv(channels, group) * size, count))
    filters = p.cast(p.reshape(W, (1, group, floordiv(W.shape[0], group), W.shape[1] * size)), dtype)
    result = p.cast(p.reshape(p.matmul(filters, columns), (n, W.shape[0], *outputs)), X.dtype)
    return result if B is None else p.add(result, align_to_axis(B, 1, X.rank))


def _kernel_coordinates(kernel: Sequence[Extent], axis: int) -> Any:
    """Return a vector with the int64 coordinate along `axis` of each element of the kernel.

    The elements are in row-major order. `kernel` has the sizes of the kernel.
    """
    inner = lift(product(kernel[axis + 1 :]), int64)
    return p.mod(p.floordiv(p.iota(product(kernel)), inner), lift(kernel[axis], int64))


def _axis_taps(position: Tensor, extent: Extent) -> List[Tap]:
    """Return two taps for each position on an axis: pixel floor(position) and the next pixel, with linear weights.

    `position` has pixel indices with a fraction. `extent` is the size of the axis. The taps of pixels outside of the
    image have inside=False, so that they count as 0.
    """
    last = lift(extent - 1, int64)
    limit = cast_extent(extent, position.dtype)
    floor = p.floor(p.minimum(p.maximum(position, -2), limit))  # positions farther outside are equivalent
    upper = p.sub(position, floor)
    taps = []
    for step, weight in ((0, p.sub(1.0, upper)), (1, upper)):
        index = p.add(p.cast(floor, int64), step)
        clamped = p.minimum(p.maximum(index, 0), last)
        taps.append(Tap(clamped, weight, p.equal(clamped, index)))
    return taps
