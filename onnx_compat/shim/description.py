"""The description of a converted file by a shim: its facts, and its intermediate values when it runs."""

import abc
from typing import Any, Dict, List, Mapping, NamedTuple, Sequence, Tuple

import numpy as np

__all__ = ["Description", "OpenedFile", "Step"]


class Description(NamedTuple):
    """A file in plain JSON values: facts, and tables whose rows have the same keys.

    Names come from the file unchecked: escape them before they are printed.
    """

    facts: Dict[str, Any]
    tables: Dict[str, List[Dict[str, Any]]]


class Step(NamedTuple):
    """An operator of a file, with the names of its inputs, without constants, and of its outputs."""

    operator: str
    inputs: Tuple[str, ...]
    outputs: Tuple[str, ...]


class OpenedFile(abc.ABC):
    """A file that is opened to read the intermediate values of a run.

    A tensor that holds a value of the model has the name of that value. Its order of axes can differ.
    """

    #: The operators, in the order in which they run.
    steps: Sequence[Step] = ()
    #: Remarks for a reader of the values.
    notes: Sequence[str] = ()

    @abc.abstractmethod
    def values(self, inputs: Mapping[str, np.ndarray]) -> Dict[str, np.ndarray]:
        """Run the file. Return every tensor by name; a quantised tensor is dequantised."""

    @abc.abstractmethod
    def alone(self, name: str, given: Mapping[str, np.ndarray]) -> np.ndarray:
        """Compute a tensor from `given` tensors, in the file's order of axes, by the operators between them alone."""
