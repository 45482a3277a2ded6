"""Compilation of a program for the back end, and its Keras model.

The back end runs the program itself, not the Keras model: keras.ops computes in 32 bits too often, and its layers are slow
when they are called one by one. The Keras model is built when `native` is read.
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
    """A Keras model as a body; the current values of its variables are the weights of a run."""

    def __init__(self, model: KerasModel) -> None:
        self.model = model

    def weights(self) -> List[Array]:
        return [variable.value for variable in self.model.variables]

    def compute(self, weights: Sequence[Array], inputs: Sequence[Array], entropy: Array) -> List[Array]:
        inputs = list(inputs)
        if back_end() == "jax":
            values = dict(zip(map(id, self.model.variables), weights))
            trainable = [values[id(variable)] for variable in self.model.trainable_variables]
            non_trainable = [values[id(variable)] for variable in self.model.non_trainable_variables]
            outputs, _ = self.model.stateless_call(trainable, non_trainable, inputs, training=False)
        else:
            outputs = self.model(inputs, training=False)
        return list(outputs) if isinstance(outputs, (list, tuple)) else [outputs]


class Emission(keras.Model):  # type: ignore[misc]  # Keras ships no types, so the base class is Any
    """A Keras model for a program that no functional model expresses; it cannot be saved."""

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
    """Return the program as a Keras model: a functional model where stock layers express it, else an `Emission`."""
    try:
        return functional(program)
    except OnnxCompatError:
        return Emission(body)


def compile_program(program: Program, device: Optional[str] = None) -> Compiled:
    """Compile the program for the back end. Raise UnsupportedError for strings on a back end without them."""
    for port in (*program.inputs, *program.outputs):
        if port.dtype.kind == "s" and back_end() != "tensorflow":
            raise UnsupportedError("'%s' holds strings, which Keras on %s does not have" % (port.name, back_end()))
    body = Emitted(program, device)
    runner = make_runner(body, lambda: build_model(program, body), program.inputs, program.outputs, device)
    runner.for_empty = lambda: make_runner(
        Emitted(program, device, empty=True), None, program.inputs, program.outputs, device
    )
    return runner
