"""How good a quantised file is: figures for each output, and what is good enough where nobody has said.

A file whose numbers are coarser on purpose does not agree element by element. It is judged by the signal-to-noise ratio of
each output, 10 log10(sum expected^2 / sum (got - expected)^2), which must reach what its scheme declares; an output that
is not floating point by the share of equal elements. A tolerance that the user gives takes the place of both.
"""

import math
from typing import Any, Dict, NamedTuple, Optional

import numpy as np

from onnx_compat.verification.compare import MATCH, MISMATCH, Comparison

__all__ = ["EQUAL", "Accuracy", "judged", "measured", "told"]

#: The share of the elements of an output of integers or bools that must be equal.
EQUAL = 0.9


class Accuracy(NamedTuple):
    """One output of a quantised file beside the model's. What has no meaning for it is None."""

    snr: Optional[float] = None  # dB; infinite where all is equal
    cosine: Optional[float] = None
    range_error: Optional[float] = None  # the largest error as a share of the range of what was expected
    top1: Optional[float] = None  # of [samples, classes]: the share of samples with the same largest element
    equal: Optional[float] = None  # the share of equal elements, of what is not floating point

    def to_dict(self) -> Dict[str, Any]:
        """Plain JSON values, as those of the report."""
        return {
            name: str(value) if value is not None and not math.isfinite(value) else value
            for name, value in self._asdict().items()
        }


def measured(comparison: Comparison, got: Any, want: Any) -> Comparison:
    """The comparison with the accuracy of what it compared; without, where the two are not of the same form."""
    if comparison.verdict not in (MATCH, MISMATCH) or want is None or isinstance(want, (list, tuple)):
        return comparison
    want = np.asarray(want)
    if not want.size:
        return comparison
    if want.dtype.kind != "f":
        equal = float(np.count_nonzero(np.asarray(got) == want)) / want.size
        return comparison._replace(accuracy=Accuracy(equal=equal))
    return comparison._replace(accuracy=_of_floats(np.asarray(got).astype(np.float64), want.astype(np.float64)))


def _of_floats(got: Any, want: Any) -> Accuracy:
    with np.errstate(all="ignore"):
        error = np.where((got == want) | (np.isnan(got) & np.isnan(want)), 0.0, got - want)
        signal = float(np.square(np.where(np.isfinite(want), want, 0)).sum())
        noise = float(np.square(error).sum())
        spread = float(want.max() - want.min()) or float(np.abs(want).max())
        norms = float(np.linalg.norm(got) * np.linalg.norm(want))
        cosine = float(np.vdot(got, want)) / norms if norms else None
    return Accuracy(
        snr=_decibels(signal, noise),
        cosine=cosine if cosine is not None and math.isfinite(cosine) else None,
        range_error=float(np.abs(error).max()) / spread if spread and math.isfinite(spread) else None,
        top1=float((got.argmax(axis=1) == want.argmax(axis=1)).mean())
        if want.ndim == 2 and want.shape[1] > 2
        else None,
    )


def _decibels(signal: float, noise: float) -> float:
    if noise == 0:
        return math.inf
    return 10 * math.log10(signal / noise) if signal > 0 and math.isfinite(noise) else -math.inf


def judged(comparison: Comparison, fidelity: float) -> Comparison:
    """The verdict by the accuracy: `fidelity` is the least signal-to-noise ratio."""
    accuracy = comparison.accuracy
    if accuracy is None:
        return comparison
    good = accuracy.equal >= EQUAL if accuracy.equal is not None else (accuracy.snr or -math.inf) >= fidelity
    return comparison._replace(verdict=MATCH if good else MISMATCH)


def told(accuracy: Accuracy) -> str:
    """In words."""
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
