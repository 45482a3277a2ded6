"""Write and read `.keras` files. They have only layers and operations of Keras, so they load without onnx-compat."""

import json
import lzma
import os
import shutil
import tempfile
import zipfile
import zlib
from pathlib import Path
from typing import Any, Dict, List, Sequence, Tuple

import keras

from onnx_compat.shim import Compiled, DType, InvalidModelError, Port, Preview, Program, UnsupportedError, dtypes
from onnx_compat.shim.description import KERAS_PORTS
from onnx_compat_keras.causes import cause_of
from onnx_compat_keras.compiling import Functional
from onnx_compat_keras.features import wide
from onnx_compat_keras.framework_types import KerasModel
from onnx_compat_keras.functional import build_functional, other_errors, preview_model
from onnx_compat_keras.functional.base import carrier
from onnx_compat_keras.functional.names import Names
from onnx_compat_keras.runners import make_runner

__all__ = ["load", "preview", "save"]

_LARGEST = 1 << 24  # bytes of the names and dtypes of inputs and outputs
_KEYS = ("inputs", "input_types", "outputs", "output_types")


def save(program: Program, path: str) -> None:
    """Write the functional Keras model of a program to the `.keras` file `path`, and replace an old file.

    If Keras has another name or dtype for an input or output, the file also stores those of the program, which `load`
    reads.

    Raises UnsupportedError if a functional model cannot express the program. The error names the node, if a node is the
    cause. Its `other_errors` is a dict {name of another node that the model cannot express: its error}.
    """
    model, _ = _build(program)
    with tempfile.TemporaryDirectory(dir=os.path.dirname(os.path.abspath(path))) as folder:
        file = Path(folder) / "model.keras"  # Keras insists on the suffix
        with wide():
            model.save(file)
        _add_ports(file, model, program)
        shutil.move(str(file), path)


def preview(program: Program) -> Preview:
    """Return a `Preview` of the file that `save` would write: its layers and operations. Nothing is written.

    Raises UnsupportedError if a functional model cannot express the program (see `save`).
    """
    return preview_model(*_build(program))


def _build(program: Program) -> Tuple[KerasModel, Names]:
    """Return (functional Keras model of a program, its `Names`).

    Raises UnsupportedError if a functional model cannot express the program, with the errors of other nodes in
    `other_errors` (see `save`).
    """
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


def _add_ports(file: Path, model: KerasModel, program: Program) -> None:
    """Store the names and dtypes of all inputs and outputs in a `.keras` file, if Keras has others for any of them.

    The member `KERAS_PORTS` of the file has a JSON object with the keys of `_KEYS`: lists of names and of dtypes.
    """
    ports = dict(zip(_KEYS, (*_describe(program.inputs), *_describe(program.outputs))))
    tensors = [*model.inputs, *model.outputs]
    names = [tensor.name for tensor in model.inputs] + list(model.output_names)
    if [*ports["inputs"], *ports["outputs"]] == names and [*ports["input_types"], *ports["output_types"]] == [
        tensor.dtype for tensor in tensors
    ]:
        return
    with zipfile.ZipFile(file, "a") as archive:
        archive.writestr(KERAS_PORTS, json.dumps(ports))


def _describe(ports: Sequence[Port]) -> Tuple[List[str], List[str]]:
    """Return (the names of ports, the names of their dtypes)."""
    return [port.name for port in ports], [port.dtype.name for port in ports]


def load(path: str) -> Tuple[Compiled, Tuple[Port, ...], Tuple[Port, ...]]:
    """Load a `.keras` file in safe mode, which runs no code of the file.

    Returns (compiled model, input ports, output ports). `native` of the compiled model is the loaded Keras model. Keras
    chooses the device. The ports have the names and dtypes of the ONNX model if `save` stored them, else those of the
    Keras model.

    Raises InvalidModelError in these cases:

    - Keras cannot load the file.
    - The model is not functional.
    - The stored names and dtypes are damaged.
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
    stored = _stored_ports(path)
    inputs = _ports([tensor.name for tensor in model.inputs], model.inputs)
    outputs = _ports(model.output_names, model.outputs)
    compiled = make_runner(Functional(model), lambda: model, inputs, outputs)
    inputs = _restore(inputs, stored.get("inputs"), stored.get("input_types"))
    return compiled, inputs, _restore(outputs, stored.get("outputs"), stored.get("output_types"))


def _stored_ports(path: str) -> Dict[str, Any]:
    """Return the JSON object that `_add_ports` stored in a file.

    Returns {} if the file has no such member, or if its JSON is no object. Raises InvalidModelError if the member is no
    JSON, damaged, or larger than 16 MB.
    """
    try:
        with zipfile.ZipFile(path) as archive:
            if KERAS_PORTS not in archive.namelist():
                return {}
            if archive.getinfo(KERAS_PORTS).file_size > _LARGEST:
                raise ValueError("it has more than %d bytes" % _LARGEST)
            names = json.loads(archive.read(KERAS_PORTS).decode("utf-8"))
    except (ValueError, RuntimeError, EOFError, zipfile.BadZipFile, zlib.error, lzma.LZMAError) as error:
        raise InvalidModelError(
            "the names in '%s' (%s) are damaged: %s" % (path, KERAS_PORTS, error),
            hint="convert the model again, or copy the file again",
            shim="keras",
        ) from error
    return names if isinstance(names, dict) else {}


def _ports(names: Sequence[str], tensors: Sequence[Any]) -> Tuple[Port, ...]:
    """Return the ports of tensors, in order, with these names and the dtypes and shapes of the tensors."""
    return tuple(Port(name, DType.of(tensor.dtype), tuple(tensor.shape)) for name, tensor in zip(names, tensors))


def _restore(ports: Sequence[Port], names: Any, types: Any) -> Tuple[Port, ...]:
    """Return the ports with the names and dtypes that a file stores, which are not yet checked.

    - `names`: used if it is a list of distinct strings, one for each port.
    - `types`: read if it is a list of strings, one for each port. A port gets the dtype if this is a carried dtype
      (such as bfloat16), and the dtype of the port is its carrier.
    """
    count = len(ports)
    if _are_strings(names, count) and len(set(names)) == count:
        ports = [port._replace(name=name) for port, name in zip(ports, names)]
    if _are_strings(types, count):
        carried = {dtype.name: dtype for dtype in dtypes.ALL if not dtype.native}
        restored = [carried.get(name, port.dtype) for port, name in zip(ports, types)]
        ports = [
            port._replace(dtype=dtype) if carrier(dtype) == port.dtype else port for port, dtype in zip(ports, restored)
        ]
    return tuple(ports)


def _are_strings(values: Any, count: int) -> bool:
    """Whether `values` is a list of `count` strings."""
    return isinstance(values, list) and len(values) == count and all(isinstance(value, str) for value in values)
