"""Build a tf.Module of a recorded program. Its tf.function is traced once, with None for symbolic sizes."""

import re
from typing import Any, Dict, FrozenSet, List, Optional

import numpy as np
import tensorflow as tf
from onnx_compat_tensorflow.devices import placement
from onnx_compat_tensorflow.emitter import GraphEmitter
from onnx_compat_tensorflow.features import Features
from onnx_compat_tensorflow.framework_types import TfFunction, TfTensor, TfVariable
from onnx_compat_tensorflow.names import argument_names, operation_names
from onnx_compat_tensorflow.tensors import tf_dtype
from onnx_compat_tensorflow.weights import (
    GRAPH_LIMIT,
    constant_bytes,
    constants,
    filters_to_swap,
    trainable_weights,
)

from onnx_compat.shim import Program, emit

__all__ = ["SIGNATURE", "OnnxModule", "exceeds_graph"]

#: The name of the signature of a module and of a SavedModel.
SIGNATURE = "serving_default"
#: A constant of at most this many bytes stays in the graph, even if larger constants become variables.
_SMALL = 1 << 16


def exceeds_graph(program: Program) -> bool:
    """Whether the constants of a program exceed `GRAPH_LIMIT` (1.9 GB), so that they cannot all be in a graph."""
    return constant_bytes(program) > GRAPH_LIMIT


class OnnxModule(tf.Module):  # type: ignore[misc]  # TensorFlow ships no types, so the base class is Any
    """A tf.Module of a program. Call it with the model's inputs, by position or by ONNX name.

    A call returns a list of the outputs, as tensors, in the order of the model. A missing input raises KeyError.

    The float weights of the model are the trainable variables, named as the model names them (see `trainable_weights`).
    Filters of some transposed convolutions are stored with their last two axes swapped (see `filters_to_swap`). All
    other constants are in the graph. Exception: if the constants exceed `GRAPH_LIMIT`, other constants over 64 KB are
    variables that are not trainable.

    device: the device to compute on. None: TensorFlow chooses it.
    trainable: False for a module without trainable variables. It computes faster, because TensorFlow optimises
    constants best.
    empty: True if an input may be without elements. Convolutions then append an image of zeros to the batch, if their
    kernels fail for an empty batch. False: a run with an empty input may fail.
    """

    #: In place of the properties of tf.Module: lists, which a SavedModel stores. A loaded SavedModel has them too.
    variables: Any = ()
    trainable_variables: Any = ()

    def __init__(
        self,
        program: Program,
        features: Features,
        device: Optional[str] = None,
        trainable: bool = True,
        empty: bool = False,
    ) -> None:
        super().__init__(
            name="model_" + re.sub(r"\W", "_", program.name)
        )  # tf.Module refuses a name that is no identifier
        self.traces = 0
        self.arguments = argument_names(port.name for port in program.inputs)
        self.results = [port.name for port in program.outputs]
        self._device = device
        swapped = filters_to_swap(program) if trainable else frozenset()
        with placement(tf, device):
            variables = _create_variables(program, trainable, swapped)
        self.variables = list(variables.values())  # lists that TensorFlow tracks and saves
        self.trainable_variables = [variable for variable in self.variables if variable.trainable]
        self.specs = [
            tf.TensorSpec(port.sizes, tf_dtype(tf, port.dtype), self.arguments[port.name]) for port in program.inputs
        ]
        names = operation_names(port.name for port in program.outputs)

        def run(*inputs: TfTensor) -> List[Any]:
            self.traces += 1
            with placement(tf, self._device):
                # Read once, outside of branches and loops, which capture the values.
                values = {key: variable.read_value() for key, variable in variables.items()}
                emitter = GraphEmitter(features, lambda array: values.get(id(array)))
                emitter.device = self._device
                emitter.swapped_filters = swapped
                emitter.model_inputs = frozenset() if empty else frozenset(program.region.inputs)
                handles = emit(program.region, emitter, inputs)
                return [tf.identity(handle, names[port.name]) for port, handle in zip(program.outputs, handles)]

        function = tf.function(run, input_signature=self.specs, autograph=False)
        self.function = function.get_concrete_function()
        # `native(x)` calls the method of the class. A SavedModel stores this function, which its loaded object calls.
        # TensorFlow 2.0 saves no function with annotations.
        self.__dict__["__call__"] = tf.function(
            lambda *inputs: list(self.function(*inputs)), input_signature=self.specs, autograph=False
        )

    def __call__(self, *inputs: TfTensor, **named: TfTensor) -> List[Any]:
        values = dict(zip(self.arguments, inputs), **named)
        tensors = [tf.convert_to_tensor(values[name], spec.dtype) for name, spec in zip(self.arguments, self.specs)]
        outputs: List[Any] = self.function(*tensors)
        return outputs

    @property
    def signatures(self) -> Dict[str, TfFunction]:
        """The signatures for tf.saved_model.save: {"serving_default": function of named tensors that returns a dict}.

        The name of an input is that of the model, or a similar name that Python accepts for an argument. The keys of
        the returned dict are the names of the model's outputs.
        """
        arguments = list(self.arguments.values())

        def serve(**inputs: TfTensor) -> Dict[str, TfTensor]:
            return dict(zip(self.results, self.function(*[inputs[name] for name in arguments])))

        specs = {spec.name: spec for spec in self.specs}
        return {SIGNATURE: tf.function(serve, autograph=False).get_concrete_function(**specs)}


def _create_variables(program: Program, trainable: bool, swapped: FrozenSet[int]) -> Dict[int, Any]:
    """Return {id(array): tf.Variable} for the constants of a program that are stored in variables.

    - If `trainable`: the trainable weights. Their variables are trainable.
    - If the constants exceed `GRAPH_LIMIT`: all other constants over 64 KB that are no strings. Their variables are not
      trainable.

    The variable of an array with its id in `swapped` has the last two axes swapped.
    """

    def create(array: np.ndarray, name: Optional[str]) -> TfVariable:
        value = np.swapaxes(array, -1, -2) if id(array) in swapped else array
        return tf.Variable(value, trainable=name is not None, name=name)

    weights = trainable_weights(program) if trainable else {}
    variables = {id(array): create(array, name) for name, array in weights.items()}
    if exceeds_graph(program):
        for key, array in constants(program).items():
            if key not in variables and array.nbytes > _SMALL and array.dtype != object:
                variables[key] = create(array, None)
    return variables
