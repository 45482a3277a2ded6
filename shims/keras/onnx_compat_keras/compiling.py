"""From a program to something that runs, and to a Keras model of it.

What runs is the program itself, compiled: keras.ops computes too much in 32 bits, and its layers are slow when they are
called one by one. The Keras model is made when somebody asks for it.
"""

from typing import Any, List, Optional, Sequence

import keras

from onnx_compat.shim import Compiled, OnnxCompatError, Program, UnsupportedError
from onnx_compat_keras.emitted_program import Emitted
from onnx_compat_keras.features import back_end, wide
from onnx_compat_keras.functional import functional
from onnx_compat_keras.running import Body, running

__all__ = ["Functional", "compiled", "model_of"]


class Functional(Body):
    """A Keras model as a body; its variables are its weights, as they are when it runs."""

    def __init__(self, model: Any) -> None:
        self.model = model

    def weights(self) -> List[Any]:
        return [variable.value for variable in self.model.variables]

    def compute(self, weights: Sequence[Any], inputs: Sequence[Any], entropy: Any) -> List[Any]:
        inputs = list(inputs)
        if back_end() == "jax":
            held = dict(zip(map(id, self.model.variables), weights))
            trainable = [held[id(variable)] for variable in self.model.trainable_variables]
            others = [held[id(variable)] for variable in self.model.non_trainable_variables]
            outputs, _ = self.model.stateless_call(trainable, others, inputs, training=False)
        else:
            outputs = self.model(inputs, training=False)
        return list(outputs) if isinstance(outputs, (list, tuple)) else [outputs]


class Emission(keras.Model):  # type: ignore[misc]
    """A program that no functional model can express, as a Keras model that computes it; it cannot be saved."""

    def __init__(self, body: Emitted) -> None:
        super().__init__(name="emission", autocast=False)
        self.body = body

    def call(self, inputs: Any, training: Any = None) -> Any:
        inputs = inputs if isinstance(inputs, (list, tuple)) else [inputs]
        with wide():
            outputs = self.body.compute(self.body.weights(), inputs, None)
        return outputs[0] if len(outputs) == 1 else outputs

    def get_config(self) -> Any:
        raise NotImplementedError("the model is no functional one: it cannot be saved as a Keras file")


def model_of(program: Program, body: Emitted) -> Any:
    """The program as a Keras model: functional if it can be."""
    try:
        return functional(program)
    except OnnxCompatError:
        return Emission(body)


def compiled(program: Program, device: Optional[str] = None) -> Compiled:
    """The program on the back end at hand."""
    for port in (*program.inputs, *program.outputs):
        if port.dtype.kind == "s" and back_end() != "tensorflow":
            raise UnsupportedError("'%s' is text, which Keras on %s does not have" % (port.name, back_end()))
    body = Emitted(program, device)
    made = running(body, lambda: model_of(program, body), program.inputs, program.outputs, device)
    made.for_empty = lambda: running(
        Emitted(program, device, empty=True), None, program.inputs, program.outputs, device
    )
    return made
