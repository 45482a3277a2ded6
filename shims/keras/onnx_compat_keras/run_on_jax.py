"""Running on JAX: jit, once for each set of shapes."""

from typing import Any, List, Sequence

import jax
import numpy as np

from onnx_compat_keras.devices import scope
from onnx_compat_keras.features import wide
from onnx_compat_keras.on_jax import JaxArrays, fresh
from onnx_compat_keras.running import Running

__all__ = ["RUNNING"]


class _Jitted(Running):
    def __init__(self, *args: Any) -> None:
        super().__init__(*args)
        self._io = JaxArrays(concrete=False)
        self._function = jax.jit(self._traced)

    def _traced(self, weights: Any, entropy: Any, inputs: Any) -> Any:
        self.counted += 1  # runs only while JAX traces
        return self.body.compute(weights, inputs, entropy)

    def execute(self, arrays: Sequence[np.ndarray]) -> List[np.ndarray]:
        entropy = fresh()
        with wide(), scope(self.device):
            inputs = [self._io.array(array, port.dtype) for array, port in zip(arrays, self.inputs)]
            outputs = self._function(self.body.weights(), entropy, inputs)
            return [self._io.values(output, port.dtype) for output, port in zip(outputs, self.outputs)]


RUNNING = _Jitted
