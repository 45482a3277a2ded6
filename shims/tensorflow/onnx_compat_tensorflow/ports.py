"""What a file of TensorFlow's cannot say about inputs and outputs: their ONNX names, types and order, as JSON beside it."""

import json
from typing import Any, Dict, List, Sequence, Tuple

from onnx_compat.shim import DType, Port

__all__ = ["described", "port_of", "ports_of", "text_of"]


def described(port: Port) -> Dict[str, Any]:
    """A port as plain data."""
    return {"name": port.name, "dtype": port.dtype.name, "shape": list(port.shape)}


def port_of(data: Dict[str, Any]) -> Port:
    return Port(data["name"], DType.of(data["dtype"]), tuple(data["shape"]))


def ports_of(text: str) -> Tuple[List[Tuple[str, Port]], List[Tuple[str, Port]]]:
    """The inputs and the outputs of a file, each with its name there."""
    data = json.loads(text)
    inputs, outputs = ([(one["key"], port_of(one)) for one in data[kind]] for kind in ("inputs", "outputs"))
    return list(inputs), list(outputs)


def text_of(inputs: Sequence[Tuple[str, Port]], outputs: Sequence[Tuple[str, Port]]) -> str:
    data = {
        kind: [dict(described(port), key=key) for key, port in pairs]
        for kind, pairs in (("inputs", inputs), ("outputs", outputs))
    }
    return json.dumps(data, indent=1)
