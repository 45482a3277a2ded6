"""Compile a program for the back end of Keras, and build its Keras model when `native` is read.

Runs use functions of the back end, not the Keras model: on JAX and torch, keras.ops computes some 64-bit operations in 32
bits, and layers are slow when they are called one by one.
"""

from typing import Any, List, Optional, Sequence, Union

import keras

from onnx_compat.shim import Compiled, OnnxCompatError, Program, UnsupportedError
from onnx_compat_keras.emitted_program import Emitted
from onnx_compat_keras.features import back_end, wide
from onnx_compat_keras.framework_types import Array, KerasModel
from onnx_compat_keras.functional import functional
from onnx_compat_keras.runners import Body, make_runner

__all__ = ["Functional", "build_model", "compile_program"]


class Functional(Body):
    """The body of a loaded Keras model, whose weights are the current values of the model's variables.

    On JAX, `compute` uses the weights that the caller passes. On other back ends, it uses the model's variables.
    """

    def __init__(self, model: KerasModel) -> None:
        self.model = model

    def weights(self) -> List[Array]:
        return [variable.value for variable in self.model.variables]

    def compute(self, weights: Sequence[Array], inputs: Sequence[Array], entropy: Array) -> List[Array]:
        inputs = list(inputs)
        if not isinstance(self.model.input, (list, tuple, dict)):  # Keras warns of another structure
            (inputs,) = inputs
        if back_end() == "jax":
            values = dict(zip(map(id, self.model.variables), weights))
            trainable = [values[id(variable)] for variable in self.model.trainable_variables]
            non_trainable = [values[id(variable)] for variable in self.model.non_trainable_variables]
            outputs, _ = self.model.stateless_call(trainable, non_trainable, inputs, training=False)
        else:
            outputs = self.model(inputs, training=False)
        return list(outputs) if isinstance(outputs, (list, tuple)) else [outputs]


class Emission(keras.Model):  # type: ignore[misc]  # Keras ships no types, so the base class is Any
    """A subclassed Keras model that runs an emitted program: for programs that no functional Keras model can express.

    It cannot be saved: `get_config` raises NotImplementedError.
    """

    def __init__(self, body: Emitted) -> None:
        super().__init__(name="emission", autocast=False)
        self.body = body

    def call(self, inputs: Union[Array, Sequence[Array]], training: Optional[bool] = None) -> Any:
        inputs = inputs if isinstance(inputs, (list, tuple)) else [inputs]
        with wide():
            outputs = self.body.compute(self.body.weights(), inputs, None)
        return outputs[0] if len(outputs) == 1 else outputs

    def get_config(self) -> Any:
        raise NotImplementedError("the model is not functional, so it cannot be saved as a Keras file")


def build_model(program: Program, body: Emitted) -> KerasModel:
    """Return a functional Keras model of the program, or `Emission(body)` if `functional` raises OnnxCompatError."""
    try:
        return functional(program)
    except OnnxCompatError:
        return Emission(body)


def compile_program(program: Program, device: Optional[str] = None) -> Compiled:
    """Return a runner of a program on the back end of Keras and on `device`. For None, the back end chooses the device.

    TensorFlow traces the program at once, JAX compiles it in the first run, and torch executes it eagerly. In the first
    run with an empty input, the runner builds a second runner for such inputs.

    Raises UnsupportedError if TensorFlow cannot express a node. Raises UnsupportedError if an input or output has
    strings, and the back end is not TensorFlow.
    """
    for port in (*program.inputs, *program.outputs):
        if port.dtype.kind == "s" and back_end() != "tensorflow":
            raise UnsupportedError("'%s' holds strings, which Keras on %s does not have" % (port.name, back_end()))
    body = Emitted(program, device)
    runner = make_runner(body, lambda: build_model(program, body), program.inputs, program.outputs, device)
    runner.for_empty = lambda: make_runner(
        Emitted(program, device, empty=True), None, program.inputs, program.outputs, device
    )
    return runner
