"""The criterion of a verification: by a tolerance, by the accuracy of a quantised file, or by either.

A model that quantises as it runs is judged by either, because rounding turns the last digit of a value into a whole
step. The oracle then shows how much that is: onnxruntime's results without and with its optimisations differ by a
ratio, its spread.
"""

from typing import Any, Iterator, List, NamedTuple, Optional, Sequence

import numpy as np

from onnx_compat.shim.schemes import Scheme
from onnx_compat.verification.accuracy import judge_accuracy, measure_accuracy, signal_to_noise
from onnx_compat.verification.compare import Comparison, OutputValue, compare

__all__ = ["Criterion", "choose_criterion", "measure_spread"]

#: The default of the relative and of the absolute tolerance.
TOLERANCE = 1e-3
#: The lowest SNR in dB of an output of a model that quantises as it runs: its integers may be off by one scale.
FIDELITY = 20.0
#: How far below the spread of the oracle the SNR of an output may be, in dB: twice the error.
MARGIN = 6.0


class Criterion(NamedTuple):
    """The criterion that decides whether an output agrees.

    - rtol, atol: the tolerance.
    - fidelity: the lowest SNR in dB. None: the tolerance decides.
    - measured: whether the accuracy of each output is measured.
    - or_tolerance: whether an output within the tolerance agrees, whatever its accuracy.
    """

    rtol: float
    atol: float
    fidelity: Optional[float] = None
    measured: bool = False
    or_tolerance: bool = False

    def compare(self, name: str, got: OutputValue, want: OutputValue) -> Iterator[Comparison]:
        """Compare an output with the expected output. Yield a comparison, or one for each element of a sequence.

        The elements of a sequence have no accuracy: the tolerance decides on them.
        """
        for comparison in compare(name, got, want, self.rtol, self.atol):
            measured = measure_accuracy(comparison, got, want) if self.measured else comparison
            if self.fidelity is None or (self.or_tolerance and comparison.ok):
                yield measured
            else:
                yield judge_accuracy(measured, self.fidelity)

    def used_for(self, comparisons: Sequence[Comparison]) -> "Criterion":
        """Return the criterion that decided on these comparisons of all outputs.

        With `or_tolerance`, and if each output agrees within the tolerance, it is the tolerance alone: `fidelity` is
        None. Otherwise it is this criterion.
        """
        within = self.or_tolerance and all(comparison.ok and not comparison.mismatched for comparison in comparisons)
        return self._replace(fidelity=None) if within else self


def choose_criterion(
    rtol: Optional[float], atol: Optional[float], scheme: Optional[Scheme], quantises: bool, spread: Optional[float]
) -> Criterion:
    """Return the criterion of a verification.

    - rtol, atol: the tolerance of the user; None: the default. If the user gives either, the tolerance alone decides.
    - scheme: the scheme of a quantised file, or None. With a scheme, the SNR decides: the least one is its fidelity.
    - quantises: whether the model quantises as it runs. If so, and without a scheme, an output agrees within the
      tolerance, or with an SNR of at least `FIDELITY` dB.
    - spread: the lowest SNR in dB between two results of the oracle; None if unknown. The least SNR is then at most
      `spread - MARGIN`, or 0 if that is negative.

    Without a scheme, and if the model does not quantise, the tolerance alone decides.
    """
    tolerance = Criterion(
        rtol=TOLERANCE if rtol is None else rtol,
        atol=TOLERANCE if atol is None else atol,
        measured=scheme is not None or quantises,
    )
    if rtol is not None or atol is not None or not tolerance.measured:
        return tolerance
    fidelity = FIDELITY if scheme is None else scheme.fidelity
    if spread is not None:
        fidelity = min(fidelity, max(spread - MARGIN, 0.0))
    return tolerance._replace(fidelity=fidelity, or_tolerance=scheme is None)


def measure_spread(first: Sequence[Any], second: Sequence[Any]) -> Optional[float]:
    """Return the lowest SNR in dB between two lists of outputs of one model. None if no output is a tensor of numbers.

    Outputs of different dtypes or shapes are left out.
    """
    ratios: List[float] = []
    for got, want in zip(first, second):
        if not isinstance(got, np.ndarray) or not isinstance(want, np.ndarray) or got.shape != want.shape:
            continue
        if got.dtype == want.dtype and want.dtype.kind in "fiu" and want.size:
            ratios.append(signal_to_noise(got.astype(np.float64), want.astype(np.float64)))
    return min(ratios, default=None)
