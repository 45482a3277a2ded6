"""Convolutions and pools in numpy, channels first, for any number of spatial axes.

A convolution is a matrix product with a copy of the windows (im2col). The copy is made for a few rows at a time, so
that it stays in the cache. A convolution with a kernel of size one needs no copy. Pools are computed axis by axis.
"""

import itertools
from typing import Any, Callable, Iterator, List, Optional, Sequence, Tuple

import numpy as np
from numpy.lib.stride_tricks import as_strided

from onnx_compat.errors import InvalidModelError
from onnx_compat.ir.window import Window
from onnx_compat.reference.arrays import Array
from onnx_compat.reference.quiet import quiet, widen

__all__ = ["Windows"]

Ints = Sequence[int]
Pads = Sequence[Tuple[int, int]]

_BYTES = 1 << 22  # the most bytes of windows that are copied at a time


class Windows:
    """The convolutions and pools of `onnx_compat.primitives.linear` in numpy."""

    @quiet
    def conv(self, x: Array, w: Array, bias: Optional[Array] = None, *, window: Window, groups: int = 1) -> Any:
        wide, window = _pad(widen(x), window.pads, 0), window._replace(kernel=w.shape[2:])
        positions = list(map(_count_positions, wide.shape[2:], window.spans, window.strides))
        out = np.zeros((x.shape[0], w.shape[0], *positions), wide.dtype)
        if out.size:
            if w.shape[1] == 1 and groups > 1:
                _depthwise(wide, widen(w), window, out)
            else:
                _dense(wide, widen(w), window, groups, out)
        return _add_bias(out, bias).astype(x.dtype, copy=False)

    depthwise_conv = conv

    @quiet
    def conv_transpose(
        self, x: Array, w: Array, bias: Optional[Array] = None, *, window: Window, groups: int = 1
    ) -> Any:
        batch, channels, space = x.shape[0], x.shape[1] // groups, x.shape[2:]
        filters, kernel = w.shape[0], w.shape[2:]
        window = window._replace(kernel=kernel)
        lengths = window.transposed_sizes(space)
        wide = widen(x).reshape(batch, groups, channels, _size(space))
        matrix = widen(w).reshape(filters, groups, channels, _size(kernel)).transpose(1, 0, 3, 2)
        matrix = matrix.reshape(groups, filters * _size(kernel), channels)
        out = np.zeros((batch, groups, filters, *lengths), wide.dtype)
        for image, into in zip(wide, out):  # each element adds a scaled filter to its window
            spread = np.matmul(matrix, image).reshape((groups, filters, *kernel, *space))
            for tap, seen in _taps(window, space):
                into[(Ellipsis, *seen)] += spread[(slice(None), slice(None), *tap)]
        return _add_bias(out.reshape(batch, groups * filters, *lengths), bias).astype(x.dtype, copy=False)

    def max_pool(self, x: Array, window: Window) -> Any:
        least = -np.inf if x.dtype.kind == "f" else np.iinfo(x.dtype).min
        return _pool(np.maximum, _pad(x, window.pads, least), window)

    @quiet
    def avg_pool(self, x: Array, window: Window) -> Any:
        total = _pool(np.add, widen(x), window)
        return (total / np.asarray(_size(window.kernel), total.dtype)).astype(x.dtype, copy=False)


def _size(shape: Ints) -> int:
    size = 1
    for extent in shape:
        size *= extent
    return size


def _count_positions(size: int, span: int, stride: int) -> int:
    """Return the number of positions of a window of length `span` on an axis of length `size`.

    The number is 0 if the window exceeds the axis by at most the stride. Raises InvalidModelError if the number would
    be negative.
    """
    count = (size - span) // stride + 1
    if count < 0:
        raise InvalidModelError("a window of %d does not fit an axis of length %d" % (span, size))
    return count


def _pad(x: Array, pads: Pads, value: float) -> Any:
    if not any(itertools.chain.from_iterable(pads)):
        return x
    space = x.shape[2:]
    out: Any = np.full([*x.shape[:2], *(low + size + high for (low, high), size in zip(pads, space))], value, x.dtype)
    out[(Ellipsis, *(slice(low, low + size) for (low, _), size in zip(pads, space)))] = x
    return out


def _add_bias(out: Array, bias: Optional[Array]) -> Any:
    if bias is not None:
        out += widen(bias).reshape([-1] + [1] * (out.ndim - 2))
    return out


def _taps(window: Window, positions: Ints) -> Iterator[Tuple[Tuple[int, ...], List[slice]]]:
    """Yield (tap, slices) for each element of the kernel. `tap` is the index of the element, a tuple.

    `slices` selects, on the spatial axes of a padded image, the elements that this kernel element is multiplied with:
    one for each position of the window. `positions` is the number of positions on each axis.
    """
    for tap in itertools.product(*map(range, window.kernel)):
        starts = [k * dilation for k, dilation in zip(tap, window.dilations)]
        yield tap, [_every(start, n, stride) for start, n, stride in zip(starts, positions, window.strides)]


def _every(start: int, count: int, stride: int) -> slice:
    """Return the slice of `count` elements from `start` on, `stride` apart; an empty slice for a count of 0."""
    return slice(start, start + (count - 1) * stride + 1, stride) if count else slice(0)


def _depthwise(x: Array, w: Array, window: Window, out: Array) -> None:
    """Write a depthwise convolution to `out` [N, M, positions...], which must hold zeros.

    x is [N, C, spatial...] with its padding; w is [M, 1, kernel...].
    """
    channels, per = x.shape[1], w.shape[0] // x.shape[1]
    positions, kernel = out.shape[2:], w.shape[2:]
    into = out.reshape(out.shape[0], channels, per, *positions)
    weights: Any = w.reshape((channels, per, *kernel) + (1,) * len(positions))
    taps = list(_taps(window, positions))
    some = max(_BYTES // max(per * _size(positions) * out.itemsize * 8, 1), 1)
    for image, target in zip(x, into):
        for first in range(0, channels, some):
            part = slice(first, first + some)
            source, total = image[part, None], target[part]  # type: Any, Any
            scratch = np.empty_like(total)
            for tap, seen in taps:
                np.multiply(source[(Ellipsis, *seen)], weights[(part, slice(None), *tap)], scratch)
                total += scratch


def _dense(x: Any, w: Array, window: Window, groups: int, out: Array) -> None:
    """Write a convolution to `out` [N, M, positions...], as matrix products with copies of the windows (im2col).

    x [N, C, spatial...] is padded already; w is [M, C / groups, kernel...]. A kernel of one element needs no im2col.
    """
    batch, channels = x.shape[:2]
    positions, (kernel, strides, dilations, _) = out.shape[2:], window
    depth = w.shape[1] * _size(kernel)
    matrix = w.reshape(groups, w.shape[0] // groups, depth)
    if _size(kernel) == 1:
        seen = x[(Ellipsis, *(slice(None, None, stride) for stride in strides))]
        np.matmul(matrix, seen.reshape(batch, groups, depth, -1), out.reshape(batch, *matrix.shape[:2], -1))
        return
    steps = x.strides[2:]
    windows = as_strided(
        x,
        (batch, channels, *kernel, *positions),
        (*x.strides[:2], *(s * d for s, d in zip(steps, dilations)), *(s * k for s, k in zip(steps, strides))),
        writeable=False,
    )
    row = _size(positions[1:])
    some = max(_BYTES // max(channels * _size(kernel) * row * x.itemsize, 1), 1)
    before = (slice(None),) * (1 + len(kernel))
    for image, into in zip(windows, out.reshape(batch, *matrix.shape[:2], -1)):
        for first in range(0, positions[0], some):
            last = min(first + some, positions[0])
            columns = image[(*before, slice(first, last))].reshape(groups, depth, (last - first) * row)
            np.matmul(matrix, columns, into[:, :, first * row : last * row])


def _pool(combine: Callable[..., Any], x: Array, window: Window) -> Any:
    """Return the elements of each window of x, combined by a ufunc of two arrays (maximum or add).

    x [N, C, spatial...] is padded already: `window.pads` has no effect. One axis is combined after the other, because a
    maximum or a sum over a box is separable. Raises InvalidModelError for a negative number of window positions.
    """
    for axis, (span, taps, stride, dilation, _) in enumerate(zip(window.spans, *window), 2):
        positions = _count_positions(x.shape[axis], span, stride)
        before = (slice(None),) * axis
        seen = [x[(*before, _every(tap * dilation, positions, stride))] for tap in range(taps)]
        total = np.array(seen[0])
        for tap_values in seen[1:]:
            combine(total, tap_values, out=total)
        x = total
    return x
