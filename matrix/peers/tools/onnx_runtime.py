"""onnxruntime on the CPU as a peer. Values of types that numpy lacks are passed as their bits."""

from __future__ import annotations

import ctypes
from typing import Any, Callable, Dict, Sequence, Union

import numpy as np
import onnx
import onnxruntime as ort  # noqa: TID253 - in the environment of the peer only

from matrix.suites.values import read_tensor

__all__ = ["LEAKS", "PACKAGES", "REFUSED", "prepare"]

LEAKS = False
PACKAGES = ("onnxruntime", "onnx", "numpy")
REFUSED = (
    "^NotImplemented",
    "Unsupported model IR version",
    "Opset [0-9]+ is under development",
    "is not a registered function/op",
    "No Op registered for",
    "Unrecognized attribute",
    "can't be converted to MLDataType",
    "are not supported",
)
# The types that numpy lacks: name in `tensor(...)` -> number of bits of an element.
_FLOATS = {
    "bfloat16": 16,
    "float8e4m3fn": 8,
    "float8e4m3fnuz": 8,
    "float8e5m2": 8,
    "float8e5m2fnuz": 8,
    "float8e8m0": 8,
}
_SMALL = {**_FLOATS, "float4e2m1": 4, "uint4": 4, "int4": 4, "uint2": 2, "int2": 2}


def prepare(model: Union[str, bytes]) -> Callable[[Dict[str, Any]], Sequence[Any]]:
    """Return a function from inputs by name to the outputs of the model. `model`: a path or bytes."""
    options = ort.SessionOptions()
    options.log_severity_level = 4  # every message is also raised
    session = ort.InferenceSession(model, options, providers=["CPUExecutionProvider"])
    types = {value.type for value in [*session.get_inputs(), *session.get_outputs()]}
    small = not types.isdisjoint("tensor(%s)" % name for name in _SMALL)

    def run(inputs: Dict[str, Any]) -> Sequence[Any]:
        if not small or any(_bits(array) < 8 for array in inputs.values()):  # onnxruntime refuses inputs below 8 bits
            plain: Sequence[Any] = session.run(None, inputs)
            return plain
        outputs = session.run_with_ort_values(None, {name: _value(array) for name, array in inputs.items()})
        return [_array(output) for output in outputs]

    return run


def _bits(array: Any) -> int:
    """Return the bits of an element, if its type is one that numpy lacks; else 64."""
    known = isinstance(array, np.ndarray) and _SMALL.get(_name(onnx.helper.np_dtype_to_tensor_dtype(array.dtype)))
    return known or 64


def _value(array: np.ndarray) -> Any:
    """Return an array as a value of onnxruntime, also if numpy lacks its type."""
    code = onnx.helper.np_dtype_to_tensor_dtype(array.dtype)
    if _name(code) not in _SMALL:
        return ort.OrtValue.ortvalue_from_numpy(array)
    codes = np.ascontiguousarray(array).view("u%d" % array.dtype.itemsize)
    return ort.OrtValue.ortvalue_from_numpy_with_onnx_type(codes, code)


def _array(value: Any) -> Any:
    """Return a value of onnxruntime as an array or a list. A type that numpy lacks is read from its bits."""
    bits = _SMALL.get(_name(value.element_type())) if value.is_tensor() else None
    if bits is None:
        return value.numpy()
    size = (int(np.prod(value.shape())) * bits + 7) // 8
    raw = bytes((ctypes.c_uint8 * size).from_address(value.data_ptr())) if size else b""
    return read_tensor(onnx.TensorProto(data_type=value.element_type(), dims=value.shape(), raw_data=raw))


def _name(code: int) -> str:
    """Return the name of a type of TensorProto in lower case, from its number."""
    return str(onnx.TensorProto.DataType.Name(code)).lower()
