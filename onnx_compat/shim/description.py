"""What a shim can tell of a converted file: what the file is, and which values come about inside it when it runs."""

import abc
from typing import Any, Dict, List, Mapping, NamedTuple, Sequence, Tuple

import numpy as np

__all__ = ["Description", "OpenedFile", "Step"]


class Description(NamedTuple):
    """A file in plain JSON values: single facts, and tables whose rows have the same keys. Names in it are the file's own,
    which nobody has looked at.
    """

    facts: Dict[str, Any]
    tables: Dict[str, List[Dict[str, Any]]]


class Step(NamedTuple):
    """An operator of a file, by the names of the tensors that it computes from, constants left out, and computes."""

    operator: str
    inputs: Tuple[str, ...]
    outputs: Tuple[str, ...]


class OpenedFile(abc.ABC):
    """A file that is run to look at it. A tensor that holds a value of the model has that value's name, but not always the
    value's order of axes.
    """

    #: The operators, in the order in which they run.
    steps: Sequence[Step] = ()
    #: What a reader of the values should know.
    notes: Sequence[str] = ()

    @abc.abstractmethod
    def values(self, inputs: Mapping[str, np.ndarray]) -> Dict[str, np.ndarray]:
        """Every tensor that comes about, by name; quantised ones as the numbers that they stand for."""

    @abc.abstractmethod
    def alone(self, name: str, given: Mapping[str, np.ndarray]) -> np.ndarray:
        """One tensor, computed from these (each in the file's order of axes) by no more operators than that takes."""
