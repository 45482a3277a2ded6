"""Transforms into the domain of frequencies, as products with a matrix of cosines and sines."""

import math
from typing import Any, Optional

import numpy as np

from onnx_compat import primitives as p
from onnx_compat.errors import InvalidModelError, NeedsKnownError
from onnx_compat.ir.dims import Extent, floordiv, is_static, minimum
from onnx_compat.ir.dtypes import DType, float32, float64
from onnx_compat.ops.arguments import known_number, product
from onnx_compat.ops.registry import op
from onnx_compat.tracing.values import Tensor, as_sizes, lift


@op("DFT", since=17)
def dft_17(
    input: Tensor, dft_length: Optional[Tensor] = None, *, axis: int = 1, inverse: int = 0, onesided: int = 0
) -> Tensor:
    return _transform(input, axis, dft_length, bool(inverse), bool(onesided))


@op("DFT", since=20)
def dft(
    input: Tensor,
    dft_length: Optional[Tensor] = None,
    axis: Optional[Tensor] = None,
    *,
    inverse: int = 0,
    onesided: int = 0,
) -> Tensor:
    place = -2 if axis is None else known_number(axis, "the axis of a DFT")
    return _transform(input, place, dft_length, bool(inverse), bool(onesided))


@op("STFT", since=17)
def stft(
    signal: Tensor,
    frame_step: Tensor,
    window: Optional[Tensor] = None,
    frame_length: Optional[Tensor] = None,
    *,
    onesided: int = 1,
) -> Tensor:
    """The transforms of frames that begin a step from each other, each under the window."""
    length, (step,) = signal.shape[1], as_sizes(frame_step)
    size = as_sizes(frame_length)[0] if frame_length is not None else window.shape[0] if window is not None else length
    starts = p.iota(floordiv(length - size, step) + 1) * lift(step)
    frames = p.take(signal, p.unsqueeze(starts, [1]) + p.iota(size), 1)
    if window is not None:
        frames = frames * p.unsqueeze(window, [1])
    return _spectrum(frames, 2, size, False, bool(onesided))


def _transform(x: Tensor, axis: int, length: Optional[Tensor], inverse: bool, onesided: bool) -> Tensor:
    axis = p.axis_of(axis, x.rank)
    if axis == x.rank - 1:
        raise InvalidModelError("the last axis of a DFT's input holds the parts of a number: it cannot be transformed")
    if length is not None:
        return _spectrum(x, axis, as_sizes(length)[0], inverse, onesided)
    return _spectrum(x, axis, (x.shape[axis] - 1) * 2 if inverse and onesided else x.shape[axis], inverse, onesided)


def _spectrum(x: Tensor, axis: int, length: Extent, inverse: bool, onesided: bool) -> Tensor:
    """Along one axis, the others in one batch. What is beyond the length is cut off, what is missing there is zero."""
    if not is_static(x.shape[-1]):
        raise NeedsKnownError("whether the input of a DFT is real or complex is not known", lift([x.shape[-1]]))
    wide = x if x.dtype.bits >= 32 else p.cast(x, float32)
    rows = minimum(x.shape[axis], _onesided_length(length) if inverse and onesided else length)
    others = [k for k in range(x.rank - 1) if k != axis]
    lines = p.transpose(p.slice_axis(wide, axis, 0, rows), [*others, axis, x.rank - 1])
    lead = tuple(lines.shape[:-2])
    transform = (
        _transform_in_two_steps if is_static(length) and _split_factor(int(length)) > 1 else _transform_by_matrix
    )
    found = transform(p.reshape(lines, (product(lead), rows, x.shape[-1])), length, inverse, onesided)
    out = p.reshape(found, (*lead, *found.shape[1:]))
    back = [*range(axis), x.rank - 2, *range(axis, x.rank - 2), x.rank - 1]
    return p.cast(p.transpose(out, back), x.dtype)


def _onesided_length(length: Extent) -> Extent:
    """How many frequencies there are until they mirror themselves."""
    return floordiv(length, 2) + 1


def _transform_by_matrix(lines: Tensor, length: Extent, inverse: bool, onesided: bool) -> Tensor:
    """By one matrix, which has no rows for what is missing."""
    batch, rows, parts = lines.shape
    columns = _onesided_length(length) if onesided and not inverse else length
    matrix = _transform_matrix(rows, columns, length, int(parts), inverse, onesided, lines.dtype)  # type: ignore[arg-type]
    joined = p.matmul(p.reshape(lines, (batch, rows * parts)), matrix)
    return p.reshape(joined, (batch, columns, 1 if inverse and onesided else 2))


# -- long ones ---------------------------------------------------------------------------------------------------------
_LONG = 2048  # the matrix of a longer transform would take more memory than it is worth


def _split_factor(length: int) -> int:
    """Of a long transform, the divisor of its length that is nearest to the root; 1 if there is none, or it is short."""
    if length <= _LONG:
        return 1
    return next(k for k in range(int(math.sqrt(length)), 0, -1) if length % k == 0)


def _transform_in_two_steps(lines: Tensor, length: Any, inverse: bool, onesided: bool) -> Tensor:
    """Transforms of every so many elements, turned, then transforms across them."""
    batch, rows, _ = lines.shape
    first = _split_factor(length)
    second = length // first
    if inverse and onesided:  # the frequencies that are not there mirror the others
        lines = p.pad(lines, (0, 0, 0), (0, _onesided_length(length) - rows, 0))
        mirrored = p.reverse(p.slice_axis(lines, 1, 1, length - length // 2), [1])
        lines = p.concat([lines, mirrored * lift(np.asarray([1, -1], lines.dtype.numpy))], 1)
    else:
        lines = p.pad(lines, (0, 0, 0), (0, length - rows, 0))
    table = p.reshape(lines, (batch, first, second, lines.shape[-1]))
    inner = _spectrum(table, 1, first, inverse, False)
    turned = np.exp((2j if inverse else -2j) * np.pi * np.outer(np.arange(first), np.arange(second)) / length)
    cosine, sine = (lift(part[..., None].astype(lines.dtype.numpy)) for part in (turned.real, turned.imag))
    real, imaginary = (p.slice_axis(inner, 3, k, k + 1) for k in range(2))
    inner = p.concat([real * cosine - imaginary * sine, real * sine + imaginary * cosine], 3)
    found = p.reshape(p.transpose(_spectrum(inner, 2, second, inverse, False), [0, 2, 1, 3]), (batch, length, 2))
    if not onesided:
        return found
    return p.slice_axis(found, 2, 0, 1) if inverse else p.slice_axis(found, 1, 0, _onesided_length(length))


# -- the matrix --------------------------------------------------------------------------------------------------------
def _transform_matrix(
    rows: Extent, columns: Extent, length: Extent, parts: int, inverse: bool, onesided: bool, dtype: DType
) -> Tensor:
    """From the parts of each number to the parts of each result: [rows * parts, columns * parts of a result]."""
    inner = float64 if all(map(is_static, (rows, columns, length))) else dtype
    size: Any = lift(length)
    quarters = p.mod(p.unsqueeze(p.iota(rows), [1]) * p.iota(columns), size) * 4
    cosine = _cosine(quarters, size, inner)
    sine = _cosine(p.mod(quarters - size, size * 4) if inverse else p.mod(quarters + size, size * 4), size, inner)
    if inverse:
        scale: Any = p.cast(_frequency_weights(rows, length) if onesided else lift(1), inner) / p.cast(
            lift(length), inner
        )
        cosine, sine = cosine * scale, sine * scale
    blocks = [[cosine, sine], [-sine, cosine]][:parts]
    if inverse and onesided:
        blocks = [row[:1] for row in blocks]
    matrix = p.stack([p.stack(row, 2) for row in blocks], 1)  # [rows, parts, columns, parts of a result]
    return p.cast(p.reshape(matrix, (rows * parts, columns * len(blocks[0]))), dtype)


def _cosine(quarters: Tensor, length: Tensor, dtype: DType) -> Tensor:
    """The cosine of that many parts of a turn that is cut in 4 * length: as a sine near zero, so that what is zero there
    is zero here, and what has one size there has it here too.
    """
    nearest: Any = p.minimum(quarters, length * 4 - quarters)
    return p.sin(p.cast(length - nearest, dtype) * (math.pi / 2) / p.cast(length, dtype))


def _frequency_weights(rows: Extent, length: Extent) -> Tensor:
    """How often each of the first half of the frequencies counts: those that mirror themselves once, the others twice."""
    places = p.unsqueeze(p.iota(rows), [1])
    alone = p.equal(p.mod(places * 2, lift(length)), 0)
    return p.where(alone, lift(1), lift(2))
