"""The runner for JAX: the body is compiled by jax.jit, once for each set of input shapes."""

from typing import Any, List, Sequence

import jax
import numpy as np

from onnx_compat_keras.devices import scope
from onnx_compat_keras.features import wide
from onnx_compat_keras.framework_types import Array
from onnx_compat_keras.on_jax import JaxArrays, new_entropy
from onnx_compat_keras.runners import Runner

__all__ = ["RUNNER"]


class _JaxRunner(Runner):
    def __init__(self, *args: Any) -> None:
        super().__init__(*args)
        self._io = JaxArrays(concrete=False)
        self._function = jax.jit(self._trace)

    def _trace(self, weights: Sequence[Array], entropy: Array, inputs: Sequence[Array]) -> Any:
        self.trace_count += 1  # this line runs only while JAX traces
        return self.body.compute(weights, inputs, entropy)

    def execute(self, arrays: Sequence[np.ndarray]) -> List[np.ndarray]:
        entropy = new_entropy()
        with wide(), scope(self.device):
            inputs = [self._io.array(array, port.dtype) for array, port in zip(arrays, self.inputs)]
            outputs = self._function(self.body.weights(), entropy, inputs)
            return [self._io.values(output, port.dtype) for output, port in zip(outputs, self.outputs)]


RUNNER = _JaxRunner
