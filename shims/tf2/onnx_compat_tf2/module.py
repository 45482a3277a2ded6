"""Build a tf.Module of a recorded program. Its tf.function is traced once, with None for symbolic sizes."""

import re
from typing import Any, Dict, List, Optional

import tensorflow as tf
from onnx_compat_tensorflow.devices import placement
from onnx_compat_tensorflow.emitter import GraphEmitter
from onnx_compat_tensorflow.features import Features
from onnx_compat_tensorflow.framework_types import TfTensor, TfVariable
from onnx_compat_tensorflow.names import argument_names, operation_names
from onnx_compat_tensorflow.tensors import tf_dtype
from onnx_compat_tensorflow.weights import GRAPH_LIMIT, constant_bytes, constants

from onnx_compat.shim import Program, emit

__all__ = ["OnnxModule"]

#: A constant of at most this many bytes stays in the graph, even if larger weights become variables.
_SMALL = 1 << 16


class OnnxModule(tf.Module):  # type: ignore[misc]  # TensorFlow ships no types, so the base class is Any
    """A tf.Module of a program. Call it with the model's inputs, by position or by ONNX name.

    A call returns a list of the outputs, as tensors, in the order of the model. A missing input raises KeyError.

    Weights are constants of the graph, because TensorFlow optimises constants best. If the constants exceed
    `GRAPH_LIMIT` (1.9 GB), weights over 64 KB are variables.

    device: the device to compute on. For None, TensorFlow chooses it.
    empty: the module must accept inputs without elements. If the convolution kernels fail for an empty batch,
    convolutions append an image of zeros to the batch.
    """

    def __init__(self, program: Program, features: Features, device: Optional[str] = None, empty: bool = False) -> None:
        super().__init__(
            name="model_" + re.sub(r"\W", "_", program.name)
        )  # tf.Module refuses a name that is no identifier
        self.traces = 0
        self.arguments = argument_names(port.name for port in program.inputs)
        self._device = device
        with placement(tf, device):
            variables = _create_variables(program) if constant_bytes(program) > GRAPH_LIMIT else {}
        self._weights = list(variables.values())  # a list that TensorFlow tracks and saves
        self.specs = [
            tf.TensorSpec(port.sizes, tf_dtype(tf, port.dtype), self.arguments[port.name]) for port in program.inputs
        ]
        names = operation_names(port.name for port in program.outputs)

        def run(*inputs: TfTensor) -> List[Any]:
            self.traces += 1
            emitter = GraphEmitter(features, lambda array: _read(variables.get(id(array))))
            emitter.device = self._device
            emitter.model_inputs = frozenset() if empty else frozenset(program.region.inputs)
            with placement(tf, self._device):
                handles = emit(program.region, emitter, inputs)
                return [tf.identity(handle, names[port.name]) for port, handle in zip(program.outputs, handles)]

        function = tf.function(run, input_signature=self.specs, autograph=False)
        self.function = function.get_concrete_function()

    def __call__(self, *inputs: TfTensor, **named: TfTensor) -> List[Any]:
        values = dict(zip(self.arguments, inputs), **named)
        tensors = [tf.convert_to_tensor(values[name], spec.dtype) for name, spec in zip(self.arguments, self.specs)]
        outputs: List[Any] = self.function(*tensors)
        return outputs


def _create_variables(program: Program) -> Dict[int, Any]:
    """Return {id(array): tf.Variable} of the program's constants over 64 KB; strings stay constants."""
    large = {key: array for key, array in constants(program).items() if array.nbytes > _SMALL and array.dtype != object}
    return {key: tf.Variable(array, trainable=False) for key, array in large.items()}


def _read(variable: TfVariable) -> Optional[TfTensor]:
    return None if variable is None else variable.read_value()
