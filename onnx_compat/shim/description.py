"""The description of a converted file by a shim: facts and tables, and the intermediate values of a run."""

import abc
from typing import Any, Dict, List, Mapping, NamedTuple, Sequence, Tuple

import numpy as np

__all__ = ["KERAS_PORT_NAMES", "Description", "OpenedFile", "Step"]

#: The member of a .keras file that has the names of the model's inputs and outputs, if Keras has other names for some:
#: {"inputs": [...], "outputs": [...]}, in the order of the Keras model. Keras does not read it, and drops it when it saves.
KERAS_PORT_NAMES = "onnx_compat.json"


class Description(NamedTuple):
    """The description of a file in plain JSON values: facts and tables.

    facts: name -> value. tables: name -> list of rows, which are dicts with equal keys.

    Names come from the file unchecked: escape them before they are printed.
    """

    facts: Dict[str, Any]
    tables: Dict[str, List[Dict[str, Any]]]


class Step(NamedTuple):
    """An operator of a converted file, with the names of its input tensors (without constants) and of its output tensors."""

    operator: str
    inputs: Tuple[str, ...]
    outputs: Tuple[str, ...]


class OpenedFile(abc.ABC):
    """A converted file that is opened to run it and to read its intermediate values.

    A tensor that holds a value of the model has the name of that value. Its axes can be in another order than in the
    model.
    """

    #: The operators, in the order in which they run.
    steps: Sequence[Step] = ()
    #: Remarks for a user who reads the values.
    notes: Sequence[str] = ()

    @abc.abstractmethod
    def values(self, inputs: Mapping[str, np.ndarray]) -> Dict[str, np.ndarray]:
        """Run the file on `inputs`. Return tensor name -> array for every tensor; a quantised tensor is dequantised."""

    @abc.abstractmethod
    def alone(self, name: str, given: Mapping[str, np.ndarray]) -> np.ndarray:
        """Compute the tensor `name` from the tensors `given`, by the operators between them. No other operator runs.

        `given` maps names of tensors to arrays, with their axes in the file's order.
        """
