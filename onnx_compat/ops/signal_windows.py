"""Window functions of signal processing (Hann, Hamming, Blackman), and the mel filter bank."""

import math
from typing import Any, Sequence

import numpy as np

from onnx_compat import primitives as p
from onnx_compat.ir.dims import floordiv, is_static
from onnx_compat.ir.dtypes import DType, float32, float64, int64
from onnx_compat.ops.registry import op
from onnx_compat.tracing.values import Tensor, as_sizes, lift


def _cosine_window(size: Tensor, periodic: int, dtype: int, factors: Sequence[float]) -> Tensor:
    """Return the window of `size` elements: w[n] = sum(factors[k] * cos(2 * pi * k * n / N)) over all k.

    N is `size` if `periodic`, else size - 1: the last element of a symmetric window equals the first. `dtype` is the
    ONNX number of the result's dtype.
    """
    length, result_dtype = as_sizes(size, 1)[0], DType.of(dtype)
    # With a static size the window is a constant, computed in float64 by the core.
    compute_type = float64 if result_dtype == float64 or is_static(length) else float32
    period = p.cast(lift(length if periodic else length - 1, int64), compute_type)
    angle = p.div(p.mul(p.cast(p.iota(length), compute_type), 2 * np.pi), period)
    total: Any = p.full((length,), factors[0], compute_type)
    for k, factor in reversed(list(enumerate(factors[1:], 1))):  # in this order the peak is exactly 1
        total = p.add(total, p.mul(p.cos(p.mul(angle, float(k))), factor))
    return p.cast(total, result_dtype)


@op("HannWindow", since=17)
def hann_window(size: Tensor, *, output_datatype: int = 1, periodic: int = 1) -> Tensor:
    """Return the Hann window of `size` elements: w[n] = 0.5 - 0.5 * cos(2 * pi * n / N).

    If `periodic`, the default, N is `size`. Otherwise N is size - 1, and the window is symmetric. `output_datatype` is
    the ONNX number of the result's dtype, by default float32.
    """
    return _cosine_window(size, periodic, output_datatype, [0.5, -0.5])


@op("HammingWindow", since=17)
def hamming_window(size: Tensor, *, output_datatype: int = 1, periodic: int = 1) -> Tensor:
    """Return the Hamming window of `size` elements: w[n] = 25 / 46 - 21 / 46 * cos(2 * pi * n / N).

    If `periodic`, the default, N is `size`. Otherwise N is size - 1, and the window is symmetric. `output_datatype` is
    the ONNX number of the result's dtype, by default float32.
    """
    return _cosine_window(size, periodic, output_datatype, [25 / 46, -21 / 46])


@op("BlackmanWindow", since=17)
def blackman_window(size: Tensor, *, output_datatype: int = 1, periodic: int = 1) -> Tensor:
    """Return the Blackman window of `size` elements: w[n] = 0.42 - 0.5 * cos(a) + 0.08 * cos(2 * a).

    The angle a is 2 * pi * n / N. If `periodic`, the default, N is `size`. Otherwise N is size - 1, and the window is
    symmetric. `output_datatype` is the ONNX number of the result's dtype, by default float32.
    """
    return _cosine_window(size, periodic, output_datatype, [0.42, -0.5, 0.08])


@op("MelWeightMatrix", since=17)
def mel_weight_matrix(
    num_mel_bins: Tensor,
    dft_length: Tensor,
    sample_rate: Tensor,
    lower_edge_hertz: Tensor,
    upper_edge_hertz: Tensor,
    *,
    output_datatype: int = 1,
) -> Tensor:
    """Return the mel filter bank, a matrix [dft_length // 2 + 1, num_mel_bins] from a spectrum to mel bands.

    Column m is a triangular filter with the peak 1. It begins at corner m, has its peak at corner m + 1, and ends at
    corner m + 2. With the edges `low` and `high` on the mel scale, corner k is low + k * (high - low) / (num_mel_bins +
    2). The corners are converted to hertz, and rounded down to bins of the spectrum.

    The dtype is `output_datatype`, by default float32.
    """
    bands, points = as_sizes(num_mel_bins, 1)[0], as_sizes(dft_length, 1)[0]
    low, high = (_to_mel(p.reshape(edge, ())) for edge in (lower_edge_hertz, upper_edge_hertz))
    steps: Any = p.cast(p.iota(bands + 2), float64)
    mels: Any = steps * p.div(p.sub(high, low), p.cast(lift(bands + 2, int64), float64)) + low
    hertz: Any = (p.exp(mels * (math.log(10) / 2595)) - 1.0) * 700.0
    rate = p.cast(p.reshape(sample_rate, ()), float64)
    corners = p.floor(p.div(p.mul(hertz, p.cast(lift(points + 1, int64), float64)), rate))
    left, middle, right = (p.slice_axis(corners, 0, k, bands + k) for k in range(3))
    frequency = p.unsqueeze(p.cast(p.iota(floordiv(points, 2) + 1), float64), [1])
    rising_weight = p.where(
        p.equal(left, middle), 1.0, p.div(p.sub(frequency, left), p.maximum(p.sub(middle, left), 1.0))
    )
    is_rising = p.logical_and(p.less_equal(left, frequency), p.less_equal(frequency, middle))
    falling_weight = p.div(p.sub(right, frequency), p.maximum(p.sub(right, middle), 1.0))
    is_falling = p.logical_and(p.less_equal(middle, frequency), p.less(frequency, right))
    return p.cast(
        p.where(is_falling, falling_weight, p.where(is_rising, rising_weight, 0.0)), DType.of(output_datatype)
    )


def _to_mel(hertz: Tensor) -> Tensor:
    return p.mul(p.log(p.add(p.div(p.cast(hertz, float64), 700.0), 1.0)), 2595 / math.log(10))
