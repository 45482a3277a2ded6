"""Convert inputs and outputs of a file that has other dtypes than the model.

Such a file has integers with a scale in place of floats, or float32 in place of float64.
"""

from typing import Any, Dict, Mapping, Sequence

import numpy as np

from onnx_compat.ir.dtypes import DType
from onnx_compat.shim.interface import Port

__all__ = ["from_port", "to_ports"]


def to_ports(values: Mapping[str, Any], ports: Sequence[Port]) -> Dict[str, Any]:
    """Return a copy of `values` (input name -> array), with arrays converted to the dtypes of the ports.

    - A float array for an integer port with a quantization: round(real / scale) + zero point, clipped to the dtype.
    - A float64 array for a float32 port: a float32 array.
    - Any other value, and the value of a name without a port: the value itself.
    """
    converted = dict(values)
    for port in ports:
        array = converted.get(port.name)
        if not isinstance(array, np.ndarray) or array.dtype.kind != "f":
            continue
        if port.quantization is not None and port.dtype.kind in "iu":
            scale, zero = port.quantization
            integers = np.clip(np.round(array / np.float32(scale)) + zero, port.dtype.min, port.dtype.max)
            converted[port.name] = integers.astype(port.dtype.numpy)
        elif array.dtype == np.float64 and port.dtype.numpy == np.float32:
            converted[port.name] = array.astype(np.float32)
    return converted


def from_port(value: Any, port: Port, dtype: DType) -> Any:
    """Return the value of an output as `dtype`, the dtype that the model declares.

    - `dtype` is floating point, and `value` has the integers of a port with a quantization: the real numbers that they
      stand for.
    - `dtype` is float64, and `value` is a float32 array: a float64 array.
    - Any other case: the value itself.
    """
    if dtype.kind != "f" or not isinstance(value, np.ndarray):
        return value
    if port.quantization is not None and value.dtype.kind in "iu":
        scale, zero = port.quantization
        return ((value.astype(np.float32) - zero) * np.float32(scale)).astype(dtype.numpy)
    is_narrowed = value.dtype == np.float32 and dtype.numpy == np.float64
    return value.astype(np.float64) if is_narrowed else value
