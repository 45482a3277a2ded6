"""Discrete Fourier transforms as products with a matrix of cosines and sines."""

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
    """Return the discrete Fourier transform along the attribute `axis`, by default 1; its inverse if `inverse`.

    The last axis of the input has the real part, or the real and the imaginary part. The last axis of the result has
    the real and the imaginary part. The transformed axis is truncated or zero-padded to `dft_length`, by default its
    own size.

    With `onesided`, the result has the frequencies 0 to length // 2 only. A one-sided inverse reads these frequencies,
    and returns the real part only; its default length is 2 * (size - 1).

    Raises InvalidModelError if `axis` is the last axis or out of range. Raises NeedsKnownError if the size of the last
    axis is not known.
    """
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
    """Return the discrete Fourier transform along the axis `axis`, by default -2; the inverse if `inverse` is nonzero.

    The last axis of the input has the real part, or the real and the imaginary part. The last axis of the result has
    the real and the imaginary part. The transformed axis is truncated or zero-padded to `dft_length`, by default its
    own size.

    With `onesided`, the result has the frequencies 0 to length // 2 only. A one-sided inverse reads these frequencies,
    and returns the real part only; its default length is 2 * (size - 1).

    Raises InvalidModelError if `axis` is the last axis or out of range. Raises NeedsKnownError if `axis` or the size of
    the last axis is not known.
    """
    axis_index = -2 if axis is None else known_number(axis, "the axis of a DFT")
    return _transform(input, axis_index, dft_length, bool(inverse), bool(onesided))


@op("STFT", since=17)
def stft(
    signal: Tensor,
    frame_step: Tensor,
    window: Optional[Tensor] = None,
    frame_length: Optional[Tensor] = None,
    *,
    onesided: int = 1,
) -> Tensor:
    """Return the short-time Fourier transform: the transform of each frame of the signal times the window.

    The signal is [batch, samples, 1 or 2], the result [batch, frames, frequencies, 2]. If `onesided`, the default, the
    frequencies are 0 to length // 2.

    Frames start every `frame_step` samples. A frame is as long as `frame_length`, by default as the window, else as the
    signal. Without a window, frames are transformed as they are. Samples after the last full frame are left out.

    Raises NeedsKnownError if the size of the signal's last axis is not known.
    """
    length, (step,) = signal.shape[1], as_sizes(frame_step, 1)
    size = (
        as_sizes(frame_length, 1)[0] if frame_length is not None else window.shape[0] if window is not None else length
    )
    starts = p.iota(floordiv(length - size, step) + 1) * lift(step)
    frames = p.take(signal, p.unsqueeze(starts, [1]) + p.iota(size), 1)
    if window is not None:
        frames = frames * p.unsqueeze(window, [1])
    return _spectrum(frames, 2, size, False, bool(onesided))


def _transform(x: Tensor, axis: int, length: Optional[Tensor], inverse: bool, onesided: bool) -> Tensor:
    axis = p.axis_of(axis, x.rank)
    if axis == x.rank - 1:
        raise InvalidModelError(
            "the axis of a DFT is the last, which holds the parts of complex numbers; it must be another axis"
        )
    if length is not None:
        return _spectrum(x, axis, as_sizes(length, 1)[0], inverse, onesided)
    return _spectrum(x, axis, (x.shape[axis] - 1) * 2 if inverse and onesided else x.shape[axis], inverse, onesided)


def _spectrum(x: Tensor, axis: int, length: Extent, inverse: bool, onesided: bool) -> Tensor:
    """Return the discrete Fourier transform, or its inverse, along an axis, truncated or zero-padded to `length`.

    The last axis of x holds the real part, or the real and the imaginary part. If `onesided`, the result has only the
    first length // 2 + 1 frequencies. For a one-sided inverse, x has only these frequencies, and the result only the
    real part.

    The result has the dtype of x; float16 is computed in float32. Raises NeedsKnownError if the size of the last axis
    is symbolic, and InvalidModelError for another size.
    """
    if not is_static(x.shape[-1]):
        raise NeedsKnownError("whether the input of a DFT is real or complex is not known", lift([x.shape[-1]]))
    if x.shape[-1] not in (1, 2):
        raise InvalidModelError("the last axis of a DFT has the size 1 or 2, not %d" % x.shape[-1])
    wide = x if x.dtype.bits >= 32 else p.cast(x, float32)
    rows = minimum(x.shape[axis], _onesided_length(length) if inverse and onesided else length)
    batch_axes = [k for k in range(x.rank - 1) if k != axis]
    lines = p.transpose(p.slice_axis(wide, axis, 0, rows), [*batch_axes, axis, x.rank - 1])
    lead = tuple(lines.shape[:-2])
    transform = (
        _transform_in_two_steps if is_static(length) and _split_factor(int(length)) > 1 else _transform_by_matrix
    )
    transformed = transform(p.reshape(lines, (product(lead), rows, x.shape[-1])), length, inverse, onesided)
    out = p.reshape(transformed, (*lead, *transformed.shape[1:]))
    inverse_permutation = [*range(axis), x.rank - 2, *range(axis, x.rank - 2), x.rank - 1]
    return p.cast(p.transpose(out, inverse_permutation), x.dtype)


def _onesided_length(length: Extent) -> Extent:
    """Return length // 2 + 1, the number of one-sided frequencies.

    For a real signal, each remaining frequency is the complex conjugate of a one-sided frequency.
    """
    return floordiv(length, 2) + 1


def _transform_by_matrix(lines: Tensor, length: Extent, inverse: bool, onesided: bool) -> Tensor:
    """Return the transform of `lines` [batch, rows, parts] along the rows, by one product with a matrix.

    `parts` is 1 (real) or 2 (real, imaginary). The result is [batch, length, 2], or [batch, length // 2 + 1, 2] if
    `onesided`. For a one-sided inverse it is real, [batch, length, 1].

    If the lines have fewer rows than the transform reads, the missing rows count as zeros.
    """
    batch, rows, parts = lines.shape
    columns = _onesided_length(length) if onesided and not inverse else length
    matrix = _transform_matrix(rows, columns, length, int(parts), inverse, onesided, lines.dtype)  # type: ignore[arg-type]  # static: see _spectrum
    joined = p.matmul(p.reshape(lines, (batch, rows * parts)), matrix)
    return p.reshape(joined, (batch, columns, 1 if inverse and onesided else 2))


# -- long transforms ---------------------------------------------------------------------------------------------------
_LONG = 2048  # the matrix of a longer transform needs too much memory


def _split_factor(length: int) -> int:
    """Return the largest divisor of `length` up to its square root.

    Return 1 for a prime, and for a length up to `_LONG`, which one matrix product can transform.
    """
    if length <= _LONG:
        return 1
    return next(k for k in range(int(math.sqrt(length)), 0, -1) if length % k == 0)


def _transform_in_two_steps(lines: Tensor, length: Any, inverse: bool, onesided: bool) -> Tensor:
    """Return the Fourier transform of `lines` along the rows, computed as transforms of two factors of `length`.

    This is the Cooley-Tukey algorithm. The result is that of `_transform_by_matrix`: [batch, length, 2]. `length` is
    an int above `_LONG` that is no prime. `lines` is [batch, rows, parts], and is zero-padded to `length` rows. With
    `onesided` and no inverse, only the frequencies 0 to length // 2 are returned.

    For a one-sided inverse, `lines` is zero-padded to the one-sided frequencies, then completed by their conjugates.
    In this case `lines` must have the real and the imaginary part, and the result has the real part only.
    """
    batch, rows, _ = lines.shape
    first = _split_factor(length)
    second = length // first
    if inverse and onesided:  # the missing frequencies are conjugates
        lines = p.pad(lines, (0, 0, 0), (0, _onesided_length(length) - rows, 0))
        mirrored = p.reverse(p.slice_axis(lines, 1, 1, length - length // 2), [1])
        lines = p.concat([lines, mirrored * lift(np.asarray([1, -1], lines.dtype.numpy))], 1)
    else:
        lines = p.pad(lines, (0, 0, 0), (0, length - rows, 0))
    table = p.reshape(lines, (batch, first, second, lines.shape[-1]))
    inner = _spectrum(table, 1, first, inverse, False)
    twiddle = np.exp((2j if inverse else -2j) * np.pi * np.outer(np.arange(first), np.arange(second)) / length)
    cosine, sine = (lift(part[..., None].astype(lines.dtype.numpy)) for part in (twiddle.real, twiddle.imag))
    real, imaginary = (p.slice_axis(inner, 3, k, k + 1) for k in range(2))
    inner = p.concat([real * cosine - imaginary * sine, real * sine + imaginary * cosine], 3)
    transformed = p.reshape(p.transpose(_spectrum(inner, 2, second, inverse, False), [0, 2, 1, 3]), (batch, length, 2))
    if not onesided:
        return transformed
    return p.slice_axis(transformed, 2, 0, 1) if inverse else p.slice_axis(transformed, 1, 0, _onesided_length(length))


# -- the matrix --------------------------------------------------------------------------------------------------------
def _transform_matrix(
    rows: Extent, columns: Extent, length: Extent, parts: int, inverse: bool, onesided: bool, dtype: DType
) -> Tensor:
    """Return the matrix of a discrete Fourier transform.

    A row of interleaved real and imaginary parts, multiplied by the matrix, gives the transform of the row. The matrix
    has rows * parts rows. It has columns * 2 columns, or `columns` for a one-sided inverse, whose result is real.

    - rows, columns: the number of elements before and after the transform.
    - length: the length of the transform.
    - parts: 1 for a real input, 2 for a complex input.
    - inverse: whether the matrix is that of the inverse, with the factor 1 / length.
    - onesided: whether the rows of an inverse are the one-sided frequencies. Ignored without `inverse`: `columns` is
      then the number of frequencies of the result.
    - dtype: the dtype of the matrix. With static sizes, the matrix is computed in float64 and then cast.
    """
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
    """Return cos(2 * pi * quarters / (4 * length)). `quarters` has integers with 0 <= quarters < 4 * length.

    It is computed as the sine of an angle near zero. For this reason zeros are exact, and equal magnitudes stay equal.
    """
    nearest: Any = p.minimum(quarters, length * 4 - quarters)
    return p.sin(p.cast(length - nearest, dtype) * (math.pi / 2) / p.cast(length, dtype))


def _frequency_weights(rows: Extent, length: Extent) -> Tensor:
    """Return an int64 column [rows, 1] with the weight of each one-sided frequency in an inverse transform.

    The weight is 1 if the frequency is its own conjugate, else 2.
    """
    frequencies = p.unsqueeze(p.iota(rows), [1])
    is_unpaired = p.equal(p.mod(frequencies * 2, lift(length)), 0)
    return p.where(is_unpaired, lift(1), lift(2))
