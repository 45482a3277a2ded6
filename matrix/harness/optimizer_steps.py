"""Run steps of an optimizer on a shim: its step is recorded once as a program, and its state stays outside."""

from typing import Any, Dict, List, Optional, Sequence, Tuple

import numpy as np

from onnx_compat.ir.dtypes import DType
from onnx_compat.shim.interface import Port
from onnx_compat.tracing.recording import record_program
from onnx_compat.training.optimizers import Optimizer

__all__ = ["OptimizerRun"]


class OptimizerRun:
    """Parameters with the state of an optimizer, and the compiled program of a step."""

    def __init__(
        self,
        optimizer: Optimizer,
        parameters: Sequence[np.ndarray],
        shim: Any = None,
        decayed: Optional[Sequence[bool]] = None,
    ) -> None:
        from onnx_compat.reference.shim import SHIM

        self.parameters = [np.asarray(parameter) for parameter in parameters]
        self.state: Dict[str, List[np.ndarray]] = {
            slot: [optimizer.initial(slot, parameter) for parameter in self.parameters] for slot in optimizer.slots()
        }
        self.state.update((name, [value]) for name, value in optimizer.shared_state().items())
        self.calls = 0
        shim = shim or SHIM
        arrays = self._arrays(self.parameters)
        ports = [Port("x%d" % k, DType.of(array.dtype), array.shape) for k, array in enumerate(arrays)]

        def step(*tensors: Any) -> List[Any]:
            values, gradients, slots, calls = self._unflatten(tensors)
            new, after = optimizer.apply(values, gradients, slots, calls, decayed)
            assert list(after) == list(slots)
            return [*new, *(tensor for name in after for tensor in after[name])]

        self.program = record_program(step, ports, shim.emitter())
        self.compiled = shim.compile(self.program)

    def _arrays(self, gradients: Sequence[np.ndarray]) -> List[np.ndarray]:
        state = [array for arrays in self.state.values() for array in arrays]
        return [*self.parameters, *gradients, *state, np.array(self.calls, np.int64)]

    def _unflatten(self, tensors: Sequence[Any]) -> Tuple[List[Any], List[Any], Dict[str, List[Any]], Any]:
        """Return (parameters, gradients, state by name, number of calls) of the inputs of the program, in its order."""
        remaining = iter(tensors)
        parameters, gradients = ([next(remaining) for _ in self.parameters] for _ in range(2))
        slots = {name: [next(remaining) for _ in arrays] for name, arrays in self.state.items()}
        return parameters, gradients, slots, next(remaining)

    def step(self, gradients: Sequence[np.ndarray]) -> List[np.ndarray]:
        """Run a step. Return the new parameters, which are stored with the new state."""
        results = iter([np.asarray(array) for array in self.compiled.run(self._arrays(gradients))])
        self.parameters = [next(results) for _ in self.parameters]
        self.state = {name: [next(results) for _ in arrays] for name, arrays in self.state.items()}
        self.calls += 1
        return self.parameters
