"""Transforms into the domain of frequencies, as products with a matrix of cosines and sines."""

import math
from typing import Any, Optional

from onnx_compat import primitives as p
from onnx_compat.dims import Extent, floordiv, is_known, minimum
from onnx_compat.dtypes import DType, float32, float64
from onnx_compat.errors import InvalidModelError, NeedsKnownError
from onnx_compat.ops.common import numbers, product
from onnx_compat.ops.registry import op
from onnx_compat.value import Tensor, ints, lift


@op("DFT", since=17)
def dft_17(
    input: Tensor, dft_length: Optional[Tensor] = None, *, axis: int = 1, inverse: int = 0, onesided: int = 0
) -> Tensor:
    return _transformed(input, axis, dft_length, bool(inverse), bool(onesided))


@op("DFT", since=20)
def dft(
    input: Tensor,
    dft_length: Optional[Tensor] = None,
    axis: Optional[Tensor] = None,
    *,
    inverse: int = 0,
    onesided: int = 0,
) -> Tensor:
    place = -2 if axis is None else numbers(axis, "the axis of a DFT")[0]
    return _transformed(input, place, dft_length, bool(inverse), bool(onesided))


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
    length, (step,) = signal.shape[1], ints(frame_step)
    size = ints(frame_length)[0] if frame_length is not None else window.shape[0] if window is not None else length
    starts = p.iota(floordiv(length - size, step) + 1) * lift(step)
    frames = p.take(signal, p.unsqueeze(starts, [1]) + p.iota(size), 1)
    if window is not None:
        frames = frames * p.unsqueeze(window, [1])
    return _spectrum(frames, 2, size, False, bool(onesided))


def _transformed(x: Tensor, axis: int, length: Optional[Tensor], inverse: bool, onesided: bool) -> Tensor:
    axis = p.axis_of(axis, x.rank)
    if axis == x.rank - 1:
        raise InvalidModelError("the last axis of a DFT's input holds the parts of a number: it cannot be transformed")
    if length is not None:
        return _spectrum(x, axis, ints(length)[0], inverse, onesided)
    return _spectrum(x, axis, (x.shape[axis] - 1) * 2 if inverse and onesided else x.shape[axis], inverse, onesided)


def _spectrum(x: Tensor, axis: int, length: Extent, inverse: bool, onesided: bool) -> Tensor:
    """What is beyond the length is cut off, and what is missing there is zero: both are rows that the matrix lacks."""
    parts = x.shape[-1]
    if not is_known(parts):
        raise NeedsKnownError("whether the input of a DFT is real or complex is not known", lift([parts]))
    wide = x if x.dtype.bits >= 32 else p.cast(x, float32)
    half = floordiv(length, 2) + 1
    rows = minimum(x.shape[axis], half if inverse and onesided else length)
    columns = half if onesided and not inverse else length
    matrix = _matrix(rows, columns, length, int(parts), inverse, onesided, wide.dtype)  # type: ignore[arg-type]
    others = [k for k in range(x.rank - 1) if k != axis]
    kept = p.transpose(p.slice_axis(wide, axis, 0, rows), [*others, axis, x.rank - 1])
    joined = p.matmul(p.reshape(kept, (product(kept.shape[:-2]), rows * parts)), matrix)
    shape = tuple(kept.shape[:-2])
    out = p.reshape(joined, (*shape, columns, 1 if inverse and onesided else 2))
    back = [*range(axis), x.rank - 2, *range(axis, x.rank - 2), x.rank - 1]
    return p.cast(p.transpose(out, back), x.dtype)


def _matrix(
    rows: Extent, columns: Extent, length: Extent, parts: int, inverse: bool, onesided: bool, dtype: DType
) -> Tensor:
    """From the parts of each number to the parts of each result: [rows * parts, columns * parts of a result]."""
    inner = float64 if all(map(is_known, (rows, columns, length))) else dtype
    size: Any = lift(length)
    quarters = p.mod(p.unsqueeze(p.iota(rows), [1]) * p.iota(columns), size) * 4
    cosine = _cosine(quarters, size, inner)
    sine = _cosine(p.mod(quarters - size, size * 4) if inverse else p.mod(quarters + size, size * 4), size, inner)
    if inverse:
        scale: Any = p.cast(_weights(rows, length) if onesided else lift(1), inner) / p.cast(lift(length), inner)
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


def _weights(rows: Extent, length: Extent) -> Tensor:
    """How often each of the first half of the frequencies counts: those that mirror themselves once, the others twice."""
    places = p.unsqueeze(p.iota(rows), [1])
    alone = p.equal(p.mod(places * 2, lift(length)), 0)
    return p.where(alone, lift(1), lift(2))
