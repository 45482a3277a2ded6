"""Accuracy of a quantised file: figures for each output, and the verdict without a tolerance.

Quantisation changes the numbers, so the elements do not agree within the default tolerance. A floating point output is
judged by its signal-to-noise ratio, 10 log10(sum expected^2 / sum (got - expected)^2). The ratio must reach the value that
the scheme declares. Any other output is judged by the share of equal elements. A tolerance replaces both criteria.
"""

import math
from typing import Any, Dict, NamedTuple, Optional

import numpy as np

from onnx_compat.verification.compare import MATCH, MISMATCH, Comparison, OutputValue

__all__ = ["EQUAL", "Accuracy", "format_accuracy", "judge_accuracy", "measure_accuracy"]

#: The least share of equal elements of an accurate output of integers or bools.
EQUAL = 0.9


class Accuracy(NamedTuple):
    """Figures of an output of a quantised file against the model's output.

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
    """Return a comparison of two tensors with its field `accuracy` set.

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


def _measure_floats(got: np.ndarray, want: np.ndarray) -> Accuracy:
    """Return the accuracy of a float output: SNR, cosine similarity, range error, top-1 share.

    `got` and `want` are float64 arrays of one shape, and not empty. A figure is None in these cases:

    - cosine similarity: a tensor is all zeros, or the quotient is not finite
    - range error: `want` is all zeros, or its range is not finite
    - top-1 share: the rank is not 2, or there are fewer than three classes

    The range error is the largest error divided by the range of `want`. If all elements of `want` are equal, it is
    divided by their magnitude.
    """
    with np.errstate(all="ignore"):
        error = np.where((got == want) | (np.isnan(got) & np.isnan(want)), 0.0, got - want)
        signal = float(np.square(np.where(np.isfinite(want), want, 0)).sum())
        noise = float(np.square(error).sum())
        spread = float(want.max() - want.min()) or float(np.abs(want).max())
        norms = float(np.linalg.norm(got) * np.linalg.norm(want))
        cosine = float(np.vdot(got, want)) / norms if norms else None
    return Accuracy(
        snr=_to_decibels(signal, noise),
        cosine=cosine if cosine is not None and math.isfinite(cosine) else None,
        range_error=float(np.abs(error).max()) / spread if spread and math.isfinite(spread) else None,
        top1=float((got.argmax(axis=1) == want.argmax(axis=1)).mean())
        if want.ndim == 2 and want.shape[1] > 2
        else None,
    )


def _to_decibels(signal: float, noise: float) -> float:
    """Return the ratio of signal to noise, both powers, in dB: 10 log10(signal / noise).

    Return infinity without noise, and minus infinity for noise without a signal or for noise that is not finite.
    """
    if noise == 0:
        return math.inf
    return 10 * math.log10(signal / noise) if signal > 0 and math.isfinite(noise) else -math.inf


def judge_accuracy(comparison: Comparison, fidelity: float) -> Comparison:
    """Return the comparison with the verdict "match" or "mismatch", judged by its accuracy.

    - The accuracy has a share of equal elements: 90 % or more is a match.
    - The accuracy has an SNR: `fidelity` dB or more is a match.
    - The comparison has no accuracy: it is returned unchanged.
    """
    accuracy = comparison.accuracy
    if accuracy is None:
        return comparison
    is_accurate = accuracy.equal >= EQUAL if accuracy.equal is not None else (accuracy.snr or -math.inf) >= fidelity
    return comparison._replace(verdict=MATCH if is_accurate else MISMATCH)


def format_accuracy(accuracy: Accuracy) -> str:
    """Format the defined figures as text: `SNR 34.0 dB, cosine 0.99950`, or only `95.0 % of the elements equal`."""
    if accuracy.equal is not None:
        return "%.1f %% of the elements equal" % (100 * accuracy.equal)
    parts = ["SNR %.1f dB" % (accuracy.snr or 0.0)]
    if accuracy.cosine is not None:
        parts.append("cosine %.5f" % accuracy.cosine)
    if accuracy.range_error is not None:
        parts.append("max error %.2g of the range" % accuracy.range_error)
    if accuracy.top1 is not None:
        parts.append("top-1 %.0f %%" % (100 * accuracy.top1))
    return ", ".join(parts)
