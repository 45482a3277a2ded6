"""Store the ports (ONNX names, dtypes, shapes and order of inputs and outputs) in a JSON file of a SavedModel folder.

The formats of TensorFlow do not store them. The JSON file is in the subfolder `assets.extra`, which TensorFlow ignores.
"""

import json
import os
from typing import Any, Container, Dict, List, Mapping, Optional, Sequence, Tuple

from onnx_compat.shim import DType, InvalidModelError, Port
from onnx_compat_tensorflow.framework_types import TfTensor

__all__ = [
    "DAMAGED_PORTS",
    "KeyedPorts",
    "damaged_ports_error",
    "port_from_data",
    "port_from_tensor",
    "port_to_data",
    "read_ports",
    "write_ports",
]

#: Ports in order, each with its key in the file.
KeyedPorts = Sequence[Tuple[str, Port]]

_FILE = os.path.join("assets.extra", "onnx_compat.json")


def port_to_data(port: Port) -> Dict[str, Any]:
    """Return a port as a JSON object: {"name": ..., "dtype": ..., "shape": [...]}.

    A symbolic size is stored as its name. An unknown size without a name is None, which JSON writes as null.
    """
    return {"name": port.name, "dtype": port.dtype.name, "shape": list(port.shape)}


def port_from_data(data: Mapping[str, Any]) -> Port:
    """Return the port of a JSON object that `port_to_data` returned. Other keys are ignored.

    Raises KeyError, TypeError or ValueError for data of another form, and UnsupportedError for an unknown dtype.
    """
    name, shape = data["name"], data["shape"]
    if not isinstance(name, str) or not isinstance(shape, list):
        raise TypeError("a port has the name %r and the shape %r" % (name, shape))
    if any(size is not None and not isinstance(size, (int, str)) for size in shape):
        raise ValueError("the port '%s' has the shape %s" % (name, shape))
    return Port(name, DType.of(data["dtype"]), tuple(shape))


def port_from_tensor(name: str, tensor: TfTensor) -> Port:
    """Return a port with this name, and the dtype and shape of a tensor or `tf.TensorSpec`: for files without ports.

    An unknown size becomes None. Raises ValueError for an unknown rank, and UnsupportedError for a dtype that ONNX
    lacks.
    """
    return Port(name, DType.of(tensor.dtype.base_dtype.name), tuple(tensor.shape.as_list()))


def write_ports(folder: str, inputs: KeyedPorts, outputs: KeyedPorts) -> None:
    """Write the ports to the JSON file in a SavedModel folder. An old file is replaced.

    `inputs` and `outputs`: (key in the signature, port) pairs, in the order of the model.
    """
    path = os.path.join(folder, _FILE)
    data = {
        kind: [dict(port_to_data(port), key=key) for key, port in pairs]
        for kind, pairs in (("inputs", inputs), ("outputs", outputs))
    }
    os.makedirs(os.path.dirname(path), exist_ok=True)
    with open(path, "w", encoding="utf-8") as file:
        file.write(json.dumps(data, indent=1))


def read_ports(folder: str, inputs: Container[str], outputs: Container[str]) -> Optional[Tuple[KeyedPorts, KeyedPorts]]:
    """Return (inputs, outputs) from the port file of a SavedModel folder, which `write_ports` wrote.

    Each is a list of (key in the signature, port) pairs. Returns None if the folder has no port file.

    `inputs`, `outputs`: the keys of the signature.

    Raises InvalidModelError for a damaged file, and for a key that the signature lacks. Raises UnsupportedError for an
    unknown dtype.
    """
    path = os.path.join(folder, _FILE)
    if not os.path.exists(path):
        return None
    try:
        with open(path, encoding="utf-8") as file:
            data = json.load(file)
        ports = _keyed_ports(data["inputs"]), _keyed_ports(data["outputs"])
        for keyed, keys in zip(ports, (inputs, outputs)):
            unknown = [key for key, _ in keyed if key not in keys]
            if unknown:
                raise ValueError("the signature has no '%s'" % unknown[0])
    except DAMAGED_PORTS as error:
        raise damaged_ports_error(path, error) from error
    return ports


#: The errors of `json` and of `port_from_data` for data that this library has not written.
DAMAGED_PORTS = (ValueError, KeyError, TypeError, AttributeError, RecursionError, OSError)


def damaged_ports_error(path: str, error: Exception) -> InvalidModelError:
    """Return the error for damaged names, dtypes or shapes of inputs and outputs in the file `path`."""
    return InvalidModelError(
        "the inputs and outputs in '%s' are damaged: %s: %s" % (path, type(error).__name__, error),
        hint="convert the model again, or copy the file again",
    )


def _keyed_ports(entries: Sequence[Mapping[str, Any]]) -> List[Tuple[str, Port]]:
    return [(entry["key"], port_from_data(entry)) for entry in entries]
