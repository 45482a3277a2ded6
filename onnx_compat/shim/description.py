"""The description of a converted file by a shim: facts and tables, the intermediate values of a run, and its ops.

A `Preview` lists the ops of a file before the file is written.
"""

import abc
from typing import AbstractSet, Any, Dict, List, Mapping, NamedTuple, Sequence, Set, Tuple

import numpy as np

__all__ = ["KERAS_PORTS", "Description", "OpenedFile", "Preview", "Step", "steps_between"]

#: The member of a .keras file that has the names and dtypes of the model's inputs and outputs, if Keras has others for some:
#: {"inputs": [names], "input_types": [dtypes], "outputs": [...], "output_types": [...]}, in the order of the Keras model.
#: Keras does not read it, and drops it when it saves.
KERAS_PORTS = "onnx_compat.json"


class Description(NamedTuple):
    """The description of a file in plain JSON values: facts and tables.

    facts: name -> value. tables: name -> list of rows, which are dicts with equal keys.

    Names come from the file unchecked: escape them before they are printed.
    """

    facts: Dict[str, Any]
    tables: Dict[str, List[Dict[str, Any]]]


class Step(NamedTuple):
    """An operator of a converted file, with the names of its input tensors (without constants) and output tensors."""

    operator: str
    inputs: Tuple[str, ...]
    outputs: Tuple[str, ...]


def steps_between(steps: Sequence[Step], held: AbstractSet[str]) -> Dict[str, List[Step]]:
    """Return tensor name -> the operators that compute it from other held tensors, in running order.

    - steps: the operators of a file, in running order.
    - held: the names of the tensors that hold values of the model. Each of them that an operator writes is a key of the
      result.
    """
    writers = {name: position for position, step in enumerate(steps) for name in step.outputs}
    between: Dict[str, List[Step]] = {}
    for name in held:
        needed: Set[int] = set()
        pending = [name] if name in writers else []
        while pending:
            position = writers.get(pending.pop())
            if position is not None and position not in needed:
                needed.add(position)
                pending += [source for source in steps[position].inputs if source not in held]
        if needed:
            between[name] = [steps[position] for position in sorted(needed)]
    return between


class Preview(NamedTuple):
    """The ops of a file that is not written yet.

    - ops: op -> its number in the whole file, such as {"CONV_2D": 3}.
    - nodes: name of an ONNX node -> the ops that compute its results, in running order.
    - fuses: whether an op may compute several ONNX nodes. It then belongs to the last of them, and the others have no
      entry in `nodes`.
    """

    ops: Mapping[str, int] = {}
    nodes: Mapping[str, Tuple[str, ...]] = {}
    fuses: bool = False


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
