"""Operators on arrays of com.microsoft that are older than their ONNX counterparts, or differ slightly from them."""

import math
from typing import TYPE_CHECKING, Any, List, Optional, Sequence, Tuple

from onnx_compat import primitives as p
from onnx_compat.errors import UnsupportedError
from onnx_compat.ir.dims import floordiv
from onnx_compat.ir.dtypes import DType, int64
from onnx_compat.ops import constants, indexing, pooling, slicing
from onnx_compat.ops.arguments import known_number, take_slice
from onnx_compat.ops.microsoft.common import DOMAIN, channels_first, channels_last
from onnx_compat.ops.registry import op
from onnx_compat.tracing.values import Tensor, lift

if TYPE_CHECKING:
    from onnx_compat.tracing.interpreter import Context

Ints = Optional[Sequence[int]]


@op("Trilu", since=1, domain=DOMAIN)
def trilu(X: Tensor, k: Optional[Tensor] = None, *, upper: int = 1) -> Tensor:
    """Return X with zeros outside of a triangle of each matrix (the last two axes), as Trilu of ai.onnx.

    If `upper` is nonzero, the triangle is diagonal `k` and everything above it. Otherwise it is diagonal `k` and
    everything below it. Diagonal 0, the default, is the main diagonal. A positive `k` lies above it.
    """
    return constants.trilu(X, k, upper=upper)


@op("Range", since=1, domain=DOMAIN)
def range_(start: Tensor, limit: Tensor, delta: Optional[Tensor] = None) -> Tensor:
    """Return the vector start, start + delta, … up to limit, exclusive; down to limit if delta is negative.

    An absent delta is 1. The vector is empty if start is at or beyond limit. Raises InvalidModelError for a delta of 0
    if all three are known.
    """
    return constants.range_11(start, limit, lift(1, start.dtype) if delta is None else delta)


@op("GatherND", since=1, domain=DOMAIN)
def gather_nd(data: Tensor, indices: Tensor) -> Tensor:
    """Return the elements or slices of data at coordinates: indices [[0, 1], [2, 0]] give [data[0, 1], data[2, 0]].

    Each vector along the last axis of the indices is a coordinate. If it has fewer entries than data has axes, it
    selects a slice. A negative entry counts from the end. There are no batch axes.

    - Raises InvalidModelError for a known entry out of range, for more entries than axes, and for scalar data or
      indices.
    - Raises NeedsKnownError if the number of entries of a coordinate is not known.
    """
    return indexing.gather_nd_11(data, indices)


@op("Pad", since=1, domain=DOMAIN)
def pad(data: Tensor, pads: Tensor, value: Optional[Tensor] = None, *, mode: str = "constant") -> Tensor:
    """Pad the axes of data by `pads` elements. A negative number crops the axis.

    `pads` is [2 * rank] or [1, 2 * rank]: the numbers at the begin of all axes, then those at their end. The mode
    "constant" pads with `value`, by default 0. The modes "edge", "reflect" and "wrap" copy elements.

    Raises InvalidModelError if `pads` has another number of elements, or if a static size of the result is negative.
    """
    return slicing.pad(data, p.reshape(pads, (pads.size,)), value, mode=mode)


@op("ExpandDims", since=1, domain=DOMAIN)
def expand_dims(X: Tensor, axis: Tensor) -> Tensor:
    """Insert an axis of size 1 into X. `axis` is its position in the result; a negative position counts from the end.

    -1 makes it the last axis. Raises NeedsKnownError if `axis` is not known. Raises InvalidModelError if `axis` is out
    of range or does not have exactly one element.
    """
    return p.unsqueeze(X, [p.axis_of(int(known_number(axis, "the axis of ExpandDims")), X.rank + 1)])


@op("NhwcMaxPool", since=1, domain=DOMAIN)
def nhwc_max_pool(
    ctx: "Context",
    x: Tensor,
    *,
    auto_pad: str = "NOTSET",
    ceil_mode: int = 0,
    dilations: Ints = None,
    kernel_shape: Sequence[int],
    pads: Ints = None,
    strides: Ints = None,
) -> Tensor:
    """Return the maximum of each window of images [N, spatial..., C], as images with the channels last.

    Padding never is the maximum.
    """
    y, _ = pooling.max_pool(
        ctx,
        channels_first(x),
        kernel_shape=kernel_shape,
        auto_pad=auto_pad,
        ceil_mode=ceil_mode,
        dilations=dilations,
        pads=pads,
        strides=strides,
    )
    return channels_last(y)


@op("Inverse", since=1, domain=DOMAIN)
def inverse(X: Tensor) -> Tensor:
    """Return the inverse of each matrix (the last two axes), by Gauss-Jordan elimination with partial pivoting.

    A singular matrix gives infinities or NaN, or large numbers if rounding hides that it is singular.
    """
    size = X.shape[-1]
    rows = p.iota(size)
    identity = p.cast(p.equal(p.unsqueeze(rows, [1]), p.unsqueeze(rows, [0])), X.dtype)
    augmented = p.concat([X, p.broadcast_to(identity, X.shape)], X.rank - 1)

    def step(matrix: Tensor, k: Tensor) -> List[Tensor]:
        is_target_row = p.equal(rows, k)
        column = p.take(matrix, k, matrix.rank - 1)
        best = p.argmax(p.where(p.less(rows, k), lift(-1, X.dtype), p.abs(column)), -1)
        is_pivot_row = p.equal(p.unsqueeze(best, [best.rank]), rows)
        upper, pivot = _select_row(matrix, is_target_row), _select_row(matrix, is_pivot_row)
        matrix = p.where(p.unsqueeze(is_pivot_row, [is_pivot_row.rank]), upper, matrix)
        scaled = p.div(pivot, p.unsqueeze(p.take(pivot, k, pivot.rank - 1), [pivot.rank - 1]))
        factors = p.unsqueeze(p.take(matrix, k, matrix.rank - 1), [matrix.rank - 1])
        return [p.where(p.unsqueeze(is_target_row, [1]), scaled, p.sub(matrix, p.mul(factors, scaled)))]

    (reduced,) = p.scan(step, [augmented], [rows], size)
    return p.slice_axis(reduced, X.rank - 1, size, None)


def _select_row(matrix: Tensor, is_selected: Tensor) -> Tensor:
    """Return the row of each matrix for which `is_selected` is True, as [..., 1, columns].

    `matrix` is [..., rows, columns]. `is_selected` is [..., rows], with exactly one True for each matrix.
    """
    selected = p.where(p.unsqueeze(is_selected, [is_selected.rank]), matrix, lift(0, matrix.dtype))
    return p.reduce_sum(selected, [matrix.rank - 2], keepdims=True)


@op("Unique", since=1, domain=DOMAIN)
def unique(x: Tensor) -> Tuple[Tensor, Tensor, Tensor]:
    """Return (distinct elements of a vector, inverse indices, counts). Indices and counts are int64.

    The distinct elements are in the order in which they first occur. For each element of x, the inverse index is its
    position among the distinct elements. For each distinct element, the count is how often it occurs in x.
    """
    size = x.shape[0]
    values, positions = p.top_k(x, size, 0)
    previous = p.take(values, p.maximum(p.sub(p.iota(size), 1), lift(0, int64)), 0)
    begins_group = p.logical_or(p.not_equal(values, previous), p.equal(p.iota(size), lift(0, int64)))
    group = p.sub(p.cumsum(p.cast(begins_group, int64), 0), 1)
    first_positions = p.take(positions, p.squeeze(p.nonzero(begins_group), [0]), 0)
    count = first_positions.shape[0]
    earliest, order = p.top_k(first_positions, count, 0, largest=False)
    group_numbers = p.take(p.top_k(order, count, 0, largest=False)[1], group, 0)
    index = p.scatter_nd(p.full((size,), 0, int64), p.unsqueeze(positions, [1]), group_numbers)
    units = p.full((size,), 1, int64)
    counts = p.scatter_nd(p.full((count,), 0, int64), p.unsqueeze(group_numbers, [1]), units, "add")
    return p.take(x, earliest, 0), index, counts


def _cosines_and_sines(count: Any, size: Any, dtype: DType) -> Tuple[Tensor, Tensor]:
    """Return cos and sin of 2 * pi * k * j / size, each [size, count]: row j < size, column k < count."""
    steps = p.mod(p.mul(p.unsqueeze(p.iota(size), [1]), p.iota(count)), lift(size, int64))
    angle = p.mul(p.cast(steps, dtype), p.div(lift(2 * math.pi, dtype), p.cast(lift(size, int64), dtype)))
    return p.cos(angle), p.sin(angle)


def _check_transform(signal_ndim: int, onesided: int, normalized: int) -> None:
    """Raise UnsupportedError unless the transform is one-sided, not normalized, and over one axis (signal_ndim 1)."""
    if signal_ndim != 1 or not onesided or normalized:
        raise UnsupportedError("Rfft and Irfft are supported for one axis, one-sided and without normalization only")


@op("Rfft", since=1, domain=DOMAIN)
def rfft(X: Tensor, *, normalized: int = 0, onesided: int = 1, signal_ndim: int = 1) -> Tensor:
    """Return the one-sided Fourier transform of the last axis, with real and imaginary part along a new last axis.

    X is real: [..., n] becomes [..., n // 2 + 1, 2]. Raises UnsupportedError in these cases:

    - signal_ndim is not 1
    - onesided is 0
    - normalized is nonzero
    """
    _check_transform(signal_ndim, onesided, normalized)
    cosines, sines = _cosines_and_sines(floordiv(X.shape[-1], 2) + 1, X.shape[-1], X.dtype)
    return p.stack([p.matmul(X, cosines), p.neg(p.matmul(X, sines))], X.rank)


@op("Irfft", since=1, domain=DOMAIN)
def irfft(X: Tensor, *, normalized: int = 0, onesided: int = 1, signal_ndim: int) -> Tensor:
    """Return the inverse of Rfft for a signal of even length: X [..., k, 2] gives [..., 2 * (k - 1)].

    The last axis of X has the real and the imaginary part. The result includes the factor 1 / length. Raises
    UnsupportedError in these cases:

    - signal_ndim is not 1
    - onesided is 0
    - normalized is nonzero
    """
    _check_transform(signal_ndim, onesided, normalized)
    count = X.shape[-2]
    size = (count - 1) * 2
    cosines, sines = (p.transpose(turns, (1, 0)) for turns in _cosines_and_sines(count, size, X.dtype))
    parts = p.iota(count)
    ends = p.logical_or(p.equal(parts, lift(0, int64)), p.equal(parts, lift(count - 1, int64)))
    weight = p.where(ends, lift(1.0, X.dtype), lift(2.0, X.dtype))
    real, imaginary = (p.mul(take_slice(X, k, X.rank - 1), weight) for k in (0, 1))
    total = p.sub(p.matmul(real, cosines), p.matmul(imaginary, sines))
    return p.div(total, p.cast(lift(size, int64), X.dtype))
