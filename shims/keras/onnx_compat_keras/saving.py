"""Write and read `.keras` files. They have only layers and operations of Keras, so they load without onnx-compat."""

import os
import shutil
import tempfile
from pathlib import Path
from typing import Any, Sequence, Tuple

import keras

from onnx_compat.shim import Compiled, ConversionError, DType, InvalidModelError, Port, Program, UnsupportedError
from onnx_compat_keras.causes import cause_of
from onnx_compat_keras.compiling import Functional
from onnx_compat_keras.features import wide
from onnx_compat_keras.functional import functional
from onnx_compat_keras.runners import make_runner

__all__ = ["load", "save"]


def save(program: Program, path: str) -> None:
    """Write the functional Keras model of a program to the `.keras` file `path`, and replace an old file.

    Raises ConversionError if a functional model cannot express the program. If a node is the cause, the error names the
    node.
    """
    try:
        model = functional(program)
    except UnsupportedError as error:
        raise ConversionError(
            "the model cannot be written as a Keras file: " + error.reason,
            hint=error.hint or "give its inputs fixed sizes, or convert it to a SavedModel or a TF Lite file",
            node=error.node,
            operator=error.operator,
            opset=error.opset,
            shim="keras",
        ) from error
    with tempfile.TemporaryDirectory(dir=os.path.dirname(os.path.abspath(path))) as folder:
        file = Path(folder) / "model.keras"  # Keras insists on the suffix
        with wide():
            model.save(file)
        shutil.move(str(file), path)


def load(path: str) -> Tuple[Compiled, Tuple[Port, ...], Tuple[Port, ...]]:
    """Load a `.keras` file in safe mode, which runs no code of the file. Return (compiled model, input ports, output ports).

    `native` of the compiled model is the loaded Keras model. Keras chooses the device. Raises InvalidModelError if
    Keras cannot load the file, or if it has no functional model.
    """
    try:
        with wide():
            model = keras.saving.load_model(path, compile=False, safe_mode=True)
    except (ValueError, TypeError, OSError, KeyError) as error:
        raise InvalidModelError("Keras does not load '%s': %s" % (path, cause_of(error)), shim="keras") from error
    if not isinstance(model, keras.Model) or not hasattr(model, "inputs"):
        raise InvalidModelError("'%s' does not hold a functional Keras model" % path, shim="keras")
    inputs = _ports([tensor.name for tensor in model.inputs], model.inputs)
    outputs = _ports(model.output_names, model.outputs)
    return make_runner(Functional(model), lambda: model, inputs, outputs), inputs, outputs


def _ports(names: Sequence[str], tensors: Sequence[Any]) -> Tuple[Port, ...]:
    return tuple(Port(name, DType.of(tensor.dtype), tuple(tensor.shape)) for name, tensor in zip(names, tensors))
