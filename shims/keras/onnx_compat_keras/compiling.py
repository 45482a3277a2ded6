"""From a program to something that runs: a functional Keras model if it can be one, else the program itself, compiled."""

from typing import Any, List, Optional, Sequence

from onnx_compat.errors import OnnxCompatError, UnsupportedError
from onnx_compat.shim import Compiled, Program
from onnx_compat_keras.emitted import Emitted
from onnx_compat_keras.features import back_end
from onnx_compat_keras.functional import functional
from onnx_compat_keras.running import Body, running

__all__ = ["Functional", "compiled"]


class Functional(Body):
    """A Keras model as a body; its variables are its weights."""

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


def compiled(program: Program, device: Optional[str] = None) -> Compiled:
    """The program on the back end at hand."""
    for port in (*program.inputs, *program.outputs):
        if port.dtype.kind == "s" and back_end() != "tensorflow":
            raise UnsupportedError("'%s' is text, which Keras on %s does not have" % (port.name, back_end()))
    ports = (program.inputs, program.outputs, device)
    try:
        model = functional(program)
    except OnnxCompatError:
        made = running(Emitted(program, device), None, *ports)
    else:
        made = running(Functional(model), model, *ports)
    made.for_empty = lambda: running(Emitted(program, device, empty=True), made.native, *ports)
    return made
