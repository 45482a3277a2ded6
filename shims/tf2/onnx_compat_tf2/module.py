"""A recorded program as a tf.Module with one tf.function: traced once, for every size that the model leaves open."""

import re
from typing import Any, Dict, List, Optional

import tensorflow as tf
from onnx_compat_tensorflow.devices import placement
from onnx_compat_tensorflow.emitter import GraphEmitter
from onnx_compat_tensorflow.features import Features
from onnx_compat_tensorflow.names import argument_names, operation_names
from onnx_compat_tensorflow.tensors import tf_dtype
from onnx_compat_tensorflow.weights import GRAPH_LIMIT, constants, size

from onnx_compat.shim import Program, emit

__all__ = ["OnnxModule"]

#: Smaller constants stay in the graph even of a model whose weights do not fit there.
_SMALL = 1 << 16


class OnnxModule(tf.Module):  # type: ignore[misc]
    """Callable with the model's inputs, in order or by name; gives a list of its outputs, in order.

    Weights are constants of the graph, which TensorFlow optimises best; variables where a graph cannot hold them.
    With `empty` it also takes inputs of size zero, which kernels may not.
    """

    def __init__(self, program: Program, features: Features, device: Optional[str] = None, empty: bool = False) -> None:
        super().__init__(name="model_" + re.sub(r"\W", "_", program.name))  # tf.Module takes identifiers only
        self.traces = 0
        self.arguments = argument_names(port.name for port in program.inputs)
        self._device = device
        with placement(tf, device):
            stored = _variables(program) if size(program) > GRAPH_LIMIT else {}
        self._weights = list(stored.values())  # a list that TensorFlow tracks and saves
        self.specs = [
            tf.TensorSpec(port.sizes, tf_dtype(tf, port.dtype), self.arguments[port.name]) for port in program.inputs
        ]
        names = operation_names(port.name for port in program.outputs)

        def run(*inputs: Any) -> List[Any]:
            self.traces += 1
            emitter = GraphEmitter(features, lambda array: _read(stored.get(id(array))))
            emitter.fed = frozenset() if empty else frozenset(program.region.inputs)
            with placement(tf, self._device):
                handles = emit(program.region, emitter, inputs)
                return [tf.identity(handle, names[port.name]) for port, handle in zip(program.outputs, handles)]

        function = tf.function(run, input_signature=self.specs, autograph=False)
        self.function = function.get_concrete_function()

    def __call__(self, *inputs: Any, **named: Any) -> List[Any]:
        given = dict(zip(self.arguments, inputs), **named)
        tensors = [tf.convert_to_tensor(given[name], spec.dtype) for name, spec in zip(self.arguments, self.specs)]
        outputs: List[Any] = self.function(*tensors)
        return outputs


def _variables(program: Program) -> Dict[int, Any]:
    """The large constants as variables, by the identity of their arrays."""
    large = {key: array for key, array in constants(program).items() if array.nbytes > _SMALL and array.dtype != object}
    return {key: tf.Variable(array, trainable=False) for key, array in large.items()}


def _read(variable: Any) -> Any:
    return None if variable is None else variable.read_value()
