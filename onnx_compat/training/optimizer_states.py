"""The states of an optimizer as initializers of an algorithm."""

from typing import Dict, List, Mapping, Sequence, Tuple

import numpy as np

from onnx_compat import primitives as p
from onnx_compat.ir.dtypes import from_public
from onnx_compat.model.names import Names
from onnx_compat.shim.interface import Port
from onnx_compat.tracing.values import Tensor
from onnx_compat.training.optimizers import Optimizer

__all__ = ["OptimizerStates", "ports_of"]


class OptimizerStates:
    """The states of an optimizer for some parameters, with their names in the model.

    - parameters: parameter name -> array.
    - arrays: state name -> first value, of each state: the slots of each parameter, the shared states, the step.
    - step: the name of the number of steps.
    """

    def __init__(self, optimizer: Optimizer, parameters: Mapping[str, np.ndarray], names: Names) -> None:
        self.optimizer = optimizer
        self.parameters = list(parameters)
        self.arrays: Dict[str, np.ndarray] = {}
        self._slots: Dict[str, List[str]] = {}
        for slot in optimizer.slots():
            self._slots[slot] = [names.fresh("%s/%s" % (name, slot)) for name in parameters]
            for state, array in zip(self._slots[slot], parameters.values()):
                self.arrays[state] = np.asarray(optimizer.initial(slot, array))
        for slot, array in optimizer.shared_state().items():
            self._slots[slot] = [names.fresh("training/" + slot)]
            self.arrays[self._slots[slot][0]] = np.asarray(array)
        self.step = names.fresh("training/step")
        self.arrays[self.step] = np.zeros((), np.int64)

    @property
    def shared(self) -> List[str]:
        """The names of the states that all parameters share, without the step."""
        return [self._slots[slot][0] for slot in self.optimizer.shared_state()]

    def ports(self) -> List[Port]:
        """Return a port for each state."""
        carriers = [(name, *from_public(array)) for name, array in self.arrays.items()]
        return [Port(name, dtype, tuple(array.shape)) for name, array, dtype in carriers]

    def _values(self, states: Mapping[str, Tensor]) -> Dict[str, List[Tensor]]:
        return {
            slot: [states[name] for name in names]
            for slot, names in self._slots.items()
            if all(name in states for name in names)
        }

    def scale_loss(self, loss: Tensor, shared: Mapping[str, Tensor]) -> Tensor:
        """Return the loss to differentiate. `shared`: state name -> tensor, of the shared states."""
        return self.optimizer.scale_loss(loss, self._values(shared))

    def apply(
        self, parameters: List[Tensor], gradients: List[Tensor], states: Mapping[str, Tensor]
    ) -> Tuple[List[str], List[Tensor]]:
        """Return (names of the parameters and states that change, their next values).

        A state that a user may set, such as the learning rate, counts as changing: it is a state of the model.
        `states`: state name -> tensor.
        """
        values = self._values(states)
        following, slots = self.optimizer.apply(parameters, gradients, values, states[self.step])
        updates = dict(zip(self.parameters, following))
        settable = self.optimizer.hyperparameters()
        for slot, names in self._slots.items():
            changes = zip(names, values[slot], slots[slot])
            updates.update((name, new) for name, old, new in changes if new is not old or slot in settable)
        updates[self.step] = p.add(states[self.step], 1)
        return list(updates), list(updates.values())


def ports_of(parameters: Mapping[str, np.ndarray]) -> Sequence[Port]:
    """Return a port for each parameter."""
    carriers = [(name, *from_public(array)) for name, array in parameters.items()]
    return [Port(name, dtype, tuple(array.shape)) for name, array, dtype in carriers]
