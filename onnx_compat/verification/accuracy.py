"""Accuracy of a quantised file or model: figures for each output, and the verdict without a tolerance.

Quantisation changes the numbers, so the elements do not agree within the default tolerance. A floating point output is
judged by its signal-to-noise ratio, 10 log10(sum expected^2 / sum (got - expected)^2). The ratio must reach a value in
dB: see `criterion`. Any other output is judged by the share of equal elements. A tolerance replaces both criteria.
"""

import math
from typing import Any, Dict, NamedTuple, Optional, Tuple

import numpy as np

from onnx_compat.verification.compare import MATCH, MISMATCH, Comparison, OutputValue

__all__ = ["EQUAL", "Accuracy", "format_accuracy", "judge_accuracy", "measure_accuracy", "signal_to_noise"]

#: The least share of equal elements of an accurate output of integers or bools.
EQUAL = 0.9
#: The exponent of the least positive float64.
_LEAST_EXPONENT = -1073
#: The factor 2 in dB.
_TWICE = 20 * math.log10(2)


class Accuracy(NamedTuple):
    """Figures of an output of a quantised file, or of a model that quantises as it runs, against the expected output.

    A figure that is not defined has the value `None`.
    """

    snr: Optional[float] = None  # the signal-to-noise ratio in dB; infinite if the outputs are equal
    cosine: Optional[float] = None  # the cosine similarity
    range_error: Optional[float] = None  # the largest error as a share of the range of the expected output
    top1: Optional[float] = None  # for an output [samples, classes]: the share of samples with the same largest element
    equal: Optional[float] = None  # the share of equal elements, for an output that is not floating point

    def to_dict(self) -> Dict[str, Any]:
        """Return figure name -> value as JSON values. An infinity is the string "inf" or "-inf", NaN is "nan"."""
        return {
            name: str(value) if value is not None and not math.isfinite(value) else value
            for name, value in self._asdict().items()
        }


def measure_accuracy(comparison: Comparison, got: OutputValue, want: OutputValue) -> Comparison:
    """Return `comparison`, the comparison of `got` with `want`, with its field `accuracy` set.

    - float16, float32 and float64: the figures of `_measure_floats`.
    - Other dtypes: the share of equal elements.

    The comparison is returned unchanged for a sequence, None, an empty tensor, and different dtypes or shapes.
    """
    if comparison.verdict not in (MATCH, MISMATCH) or want is None or isinstance(want, (list, tuple)):
        return comparison
    expected = np.asarray(want)
    if not expected.size:
        return comparison
    if expected.dtype.kind != "f":
        equal = float(np.count_nonzero(np.asarray(got) == expected)) / expected.size
        return comparison._replace(accuracy=Accuracy(equal=equal))
    accuracy = _measure_floats(np.asarray(got).astype(np.float64), expected.astype(np.float64))
    return comparison._replace(accuracy=accuracy)


def signal_to_noise(got: np.ndarray, want: np.ndarray) -> float:
    """Return the signal-to-noise ratio of `got` in dB: 10 log10(sum want^2 / sum (got - want)^2).

    `got` and `want` are float64 arrays of one shape. Equal elements and two NaN are no error. Elements of `want` that
    are not finite are no signal.

    Return infinity without an error. Return minus infinity for an error without a signal, and for an error that is not
    finite. No square overflows or vanishes: numbers near 1e200 or 1e-200 give the ratio of the same numbers near 1.
    """
    exponent = max(_exponent(got), _exponent(want))
    with np.errstate(all="ignore"):
        noise = _errors(np.ldexp(got, -exponent), np.ldexp(want, -exponent))
    if not np.isfinite(noise).all():
        return -math.inf
    if not noise.any():
        return math.inf
    signal = np.where(np.isfinite(want), want, 0.0)
    if not signal.any():
        return -math.inf
    (signal_sum, signal_exponent), (noise_sum, noise_exponent) = _sum_squares(signal), _sum_squares(noise)
    return 10 * math.log10(signal_sum / noise_sum) + _TWICE * (signal_exponent - noise_exponent - exponent)


def _measure_floats(got: np.ndarray, want: np.ndarray) -> Accuracy:
    """Return the accuracy of a float output: SNR, cosine similarity, range error, top-1 share.

    `got` and `want` are float64 arrays of one shape, and not empty. A figure is None in these cases:

    - cosine similarity: a tensor is all zeros, or the quotient is not finite
    - range error: `want` is all zeros, or its range is not finite
    - top-1 share: the rank is not 2, or there are fewer than three classes

    The range error is the largest error divided by the range of `want`. If all elements of `want` are equal, it is
    divided by their magnitude.
    """
    snr, exponent = signal_to_noise(got, want), max(_exponent(got), _exponent(want))
    got, want = np.ldexp(got, -exponent), np.ldexp(want, -exponent)  # the other figures do not depend on the scale
    with np.errstate(all="ignore"):
        error = _errors(got, want)
        spread = float(want.max() - want.min()) or float(np.abs(want).max())
        norms = float(np.linalg.norm(got) * np.linalg.norm(want))
        cosine = float(np.vdot(got, want)) / norms if norms else None
    return Accuracy(
        snr=snr,
        cosine=cosine if cosine is not None and math.isfinite(cosine) else None,
        range_error=float(np.abs(error).max()) / spread if spread and math.isfinite(spread) else None,
        top1=float((got.argmax(axis=1) == want.argmax(axis=1)).mean())
        if want.ndim == 2 and want.shape[1] > 2
        else None,
    )


def _errors(got: np.ndarray, want: np.ndarray) -> np.ndarray:
    """Return got - want, with 0 for equal elements and for two NaN."""
    return np.where((got == want) | (np.isnan(got) & np.isnan(want)), 0.0, got - want)


def _exponent(values: np.ndarray) -> int:
    """Return the least exponent for which all finite magnitudes are below 2^exponent.

    If all finite elements are 0, or no element is finite, return `_LEAST_EXPONENT`.
    """
    largest = float(np.abs(values[np.isfinite(values)]).max(initial=0.0))
    return math.frexp(largest)[1] if largest else _LEAST_EXPONENT


def _sum_squares(values: np.ndarray) -> Tuple[float, int]:
    """Return (sum, exponent) of finite values: sum values^2 = sum * 4^exponent. No square overflows or vanishes."""
    exponent = _exponent(values)
    return float(np.square(np.ldexp(values, -exponent)).sum()), exponent


def judge_accuracy(comparison: Comparison, fidelity: float) -> Comparison:
    """Return the comparison with the verdict "match" or "mismatch", judged by its accuracy.

    - The accuracy has a share of equal elements: 90 % or more is a match.
    - The accuracy has an SNR: `fidelity` dB or more is a match.
    - The comparison has no accuracy: it is returned unchanged.
    """
    accuracy = comparison.accuracy
    if accuracy is None:
        return comparison
    if accuracy.equal is not None:
        is_accurate = accuracy.equal >= EQUAL
    else:
        is_accurate = accuracy.snr is not None and accuracy.snr >= fidelity
    return comparison._replace(verdict=MATCH if is_accurate else MISMATCH)


def format_accuracy(accuracy: Accuracy) -> str:
    """Format the defined figures as text: `SNR 34.0 dB, cosine 0.99950`, or only `95.0 % of the elements equal`."""
    if accuracy.equal is not None:
        return "%.1f %% of the elements equal" % (100 * accuracy.equal)
    parts = [] if accuracy.snr is None else ["SNR %.1f dB" % accuracy.snr]
    if accuracy.cosine is not None:
        parts.append("cosine %.5f" % accuracy.cosine)
    if accuracy.range_error is not None:
        parts.append("max error %.2g of the range" % accuracy.range_error)
    if accuracy.top1 is not None:
        parts.append("top-1 %.0f %%" % (100 * accuracy.top1))
    return ", ".join(parts)
