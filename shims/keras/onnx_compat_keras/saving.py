"""Write and read `.keras` files. They have only layers and operations of Keras, so they load without onnx-compat."""

import json
import lzma
import os
import shutil
import tempfile
import zipfile
import zlib
from pathlib import Path
from typing import Any, Dict, Sequence, Tuple

import keras

from onnx_compat.shim import Compiled, DType, InvalidModelError, Port, Preview, Program, UnsupportedError
from onnx_compat.shim.description import KERAS_PORT_NAMES
from onnx_compat_keras.causes import cause_of
from onnx_compat_keras.compiling import Functional
from onnx_compat_keras.features import wide
from onnx_compat_keras.framework_types import KerasModel
from onnx_compat_keras.functional import build_functional, other_errors, preview_model
from onnx_compat_keras.functional.names import Names
from onnx_compat_keras.runners import make_runner

__all__ = ["load", "preview", "save"]

_LARGEST = 1 << 24  # bytes of the names of inputs and outputs


def save(program: Program, path: str) -> None:
    """Write the functional Keras model of a program to the `.keras` file `path`, and replace an old file.

    If Keras has another name for an input or output, the file also stores the names of the program, which `load` reads.

    Raises UnsupportedError if a functional model cannot express the program. The error names the node, if a node is the
    cause. Its `other_errors` is a dict {name of another node that the model cannot express: its error}.
    """
    model, _ = _build(program)
    with tempfile.TemporaryDirectory(dir=os.path.dirname(os.path.abspath(path))) as folder:
        file = Path(folder) / "model.keras"  # Keras insists on the suffix
        with wide():
            model.save(file)
        _add_port_names(file, model, program)
        shutil.move(str(file), path)


def preview(program: Program) -> Preview:
    """Build the model of a file as `save` does, and return its layers and operations. Raise the errors of `save`."""
    return preview_model(*_build(program))


def _build(program: Program) -> Tuple[KerasModel, Names]:
    """Return the functional Keras model of a program, and its names. Raise the UnsupportedError that `save` describes."""
    try:
        return build_functional(program)
    except UnsupportedError as error:
        refusal = UnsupportedError(
            "the model cannot be written as a Keras file: " + error.reason,
            hint=error.hint or "give its inputs fixed sizes, or convert it to a SavedModel or a TF Lite file",
            node=error.node,
            operator=error.operator,
            opset=error.opset,
            shim="keras",
        )
        errors = {**error.other_errors, **other_errors(program)}
        errors.pop(error.node or "", None)
        refusal.other_errors = errors
        raise refusal from error


def _add_port_names(file: Path, model: KerasModel, program: Program) -> None:
    """Store the names of all inputs and outputs in a `.keras` file, if Keras has another name for any of them.

    The member `KERAS_PORT_NAMES` of the file has the JSON object {"inputs": [names], "outputs": [names]}.
    """
    names = {
        "inputs": [port.name for port in program.inputs],
        "outputs": [port.name for port in program.outputs],
    }
    if names != {"inputs": [tensor.name for tensor in model.inputs], "outputs": list(model.output_names)}:
        with zipfile.ZipFile(file, "a") as archive:
            archive.writestr(KERAS_PORT_NAMES, json.dumps(names))


def load(path: str) -> Tuple[Compiled, Tuple[Port, ...], Tuple[Port, ...]]:
    """Load a `.keras` file in safe mode, which runs no code of the file.

    Returns (compiled model, input ports, output ports). `native` of the compiled model is the loaded Keras model. Keras
    chooses the device. The ports have the names of the ONNX model if `save` stored them, else Keras' names.

    Raises InvalidModelError in these cases:

    - Keras cannot load the file.
    - The model is not functional.
    - The stored names are damaged.
    """
    try:
        with wide():
            model = keras.saving.load_model(path, compile=False, safe_mode=True)
    except MemoryError:
        raise
    except Exception as error:  # Keras, h5py and zipfile raise unrelated classes for damaged files
        raise InvalidModelError("Keras does not load '%s': %s" % (path, cause_of(error)), shim="keras") from error
    if not isinstance(model, keras.Model) or not hasattr(model, "inputs"):
        raise InvalidModelError("'%s' does not hold a functional Keras model" % path, shim="keras")
    names = _port_names(path)
    inputs = _ports(names.get("inputs"), [tensor.name for tensor in model.inputs], model.inputs)
    outputs = _ports(names.get("outputs"), model.output_names, model.outputs)
    return make_runner(Functional(model), lambda: model, inputs, outputs), inputs, outputs


def _port_names(path: str) -> Dict[str, Any]:
    """Return the JSON object that `_add_port_names` stored in a file.

    Returns {} if the file has no such member, or if its JSON is no object. Raises InvalidModelError if the member is no
    JSON, damaged, or larger than 16 MB.
    """
    try:
        with zipfile.ZipFile(path) as archive:
            if KERAS_PORT_NAMES not in archive.namelist():
                return {}
            if archive.getinfo(KERAS_PORT_NAMES).file_size > _LARGEST:
                raise ValueError("it has more than %d bytes" % _LARGEST)
            names = json.loads(archive.read(KERAS_PORT_NAMES).decode("utf-8"))
    except (ValueError, RuntimeError, EOFError, zipfile.BadZipFile, zlib.error, lzma.LZMAError) as error:
        raise InvalidModelError(
            "the names in '%s' (%s) are damaged: %s" % (path, KERAS_PORT_NAMES, error),
            hint="convert the model again, or copy the file again",
            shim="keras",
        ) from error
    return names if isinstance(names, dict) else {}


def _ports(names: Any, keras_names: Sequence[str], tensors: Sequence[Any]) -> Tuple[Port, ...]:
    """Return the ports of tensors, in order, with the dtypes and shapes of the tensors.

    The ports are named by `names`, if it is a list of distinct strings, one for each tensor. Otherwise they are named
    by `keras_names`.
    """
    if not isinstance(names, list) or len(names) != len(tensors) or not all(isinstance(name, str) for name in names):
        names = list(keras_names)
    if len(set(names)) != len(names):
        names = list(keras_names)
    return tuple(Port(name, DType.of(tensor.dtype), tuple(tensor.shape)) for name, tensor in zip(names, tensors))
