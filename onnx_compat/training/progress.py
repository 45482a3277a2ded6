"""The progress of a training: results of steps, means over examples, and callbacks."""

from typing import Any, Callable, Dict, Mapping, NamedTuple, Optional, Sequence

import numpy as np

__all__ = ["Callback", "Mean", "Progress", "call_back", "number_of"]


class Progress(NamedTuple):
    """The state of `Trainer.fit` after a step or an epoch.

    Attributes:
        epoch: The number of the epoch, from 1 on.
        step: The number of steps of this epoch so far.
        results: After a step: its results. After an epoch: the mean of each result over its examples.
        validation: After an epoch with validation data: the mean of each result over these data. Otherwise None.
        is_epoch_end: Whether the epoch is complete.

    Examples:
        >>> from onnx_compat.training import Progress
        >>> Progress(1, 20, {"loss": 0.5}, None, True).results["loss"]
        0.5
    """

    epoch: int
    step: int
    results: Dict[str, Any]
    validation: Optional[Dict[str, Any]]
    is_epoch_end: bool


#: A function that `fit` calls after each step and each epoch. If it returns True, `fit` ends.
Callback = Callable[[Progress], Optional[bool]]


class Mean:
    """The mean of results over examples."""

    def __init__(self) -> None:
        self._totals: Dict[str, Any] = {}
        self._count = 0

    def add(self, results: Mapping[str, Any], examples: int) -> None:
        """Add the results of a batch, as the means of its examples."""
        for name, value in results.items():
            self._totals[name] = self._totals.get(name, 0) + value * examples
        self._count += examples

    def results(self) -> Dict[str, Any]:
        return {name: total / max(self._count, 1) for name, total in self._totals.items()}


def call_back(callbacks: Sequence[Callback], progress: Progress) -> bool:
    """Call every callback. Return whether one of them ends the training."""
    answers = [callback(progress) for callback in callbacks]
    return any(answers)


def number_of(array: np.ndarray) -> Any:
    """Return a scalar array as a float; another array as it is."""
    return float(array) if array.ndim == 0 else array
