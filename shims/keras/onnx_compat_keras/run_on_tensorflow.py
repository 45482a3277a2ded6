"""The runner for TensorFlow: the body is a tf.function, traced once with None for symbolic sizes."""

from typing import Any, List, Sequence

import numpy as np
import tensorflow as tf
from onnx_compat_tensorflow.run_errors import run_errors
from onnx_compat_tensorflow.tensors import decode, encode, tf_dtype

from onnx_compat_keras.devices import scope
from onnx_compat_keras.framework_types import Array
from onnx_compat_keras.runners import Runner

__all__ = ["RUNNER"]


class _TensorFlowRunner(Runner):
    def __init__(self, *args: Any) -> None:
        super().__init__(*args)
        specs = [tf.TensorSpec(port.sizes, tf_dtype(tf, port.dtype)) for port in self.inputs]
        self._function = tf.function(self._trace, input_signature=specs, autograph=False).get_concrete_function()

    def _trace(self, *inputs: Array) -> List[Array]:
        self.trace_count += 1
        with scope(self.device):
            return [tf.identity(output) for output in self.body.compute(self.body.weights(), inputs, None)]

    def execute(self, arrays: Sequence[np.ndarray]) -> List[np.ndarray]:
        with run_errors(tf):
            outputs = self._function(*[tf.constant(encode(array)) for array in arrays])
        return [decode(output.numpy()) for output in outputs]


RUNNER = _TensorFlowRunner
