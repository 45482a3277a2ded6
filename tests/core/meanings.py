"""Apply operators to known values; or record them for unknown values, and run the program on the reference."""

from typing import Any, Callable, List, Sequence

import numpy as np

from onnx_compat.ir.dtypes import DType
from onnx_compat.ops import lookup
from onnx_compat.reference.shim import SHIM
from onnx_compat.shim.emission import emit
from onnx_compat.shim.interface import Port
from onnx_compat.tracing.recording import record_program
from onnx_compat.tracing.values import Tensor, lift

__all__ = ["apply_operator", "meaning", "primitives", "record_function"]


def meaning(name: str, opset: int, domain: str = "") -> Callable[..., Any]:
    """Return the meaning of an operator as a function of Tensors, arrays and attributes."""
    function = lookup(domain, name, opset).function
    return lambda *inputs, **attributes: function(*map(_lift, inputs), **attributes)


def _lift(value: Any) -> Any:
    if isinstance(value, (list, int, float, bool, str)):
        value = np.asarray(value)
        value = value.astype(np.float32) if value.dtype == np.float64 else value
        value = value.astype(object) if value.dtype.kind == "U" else value
    return lift(value) if isinstance(value, np.ndarray) else value


def apply_operator(name: str, opset: int, *inputs: Any, **attributes: Any) -> Any:
    """Return the first result of an operator as an array. All its inputs are known."""
    result = meaning(name, opset)(*inputs, **attributes)
    return _array(result[0] if isinstance(result, (list, tuple)) and not isinstance(result, Tensor) else result)


def _array(result: Tensor) -> np.ndarray:
    assert result.known, "%r is not known" % (result,)
    assert result.value is not None
    return result.value


class Recorded:
    """A recorded function. Call it with arrays to run it on the reference."""

    def __init__(self, function: Callable[..., Any], shapes: Sequence[Sequence[Any]], dtype: str, emitter: Any) -> None:
        ports = [Port("x%d" % k, DType.of(dtype), tuple(shape)) for k, shape in enumerate(shapes)]
        self.emitter = emitter or SHIM.emitter()
        self.program = record_program(lambda *xs: _to_list(function(*xs)), ports, self.emitter)

    def __call__(self, *arrays: Any) -> Any:
        results = emit(self.program.region, self.emitter, [np.asarray(array) for array in arrays])
        return results[0] if len(results) == 1 else results


def _to_list(results: Any) -> List[Tensor]:
    return [result for result in results if result is not None] if isinstance(results, (list, tuple)) else [results]


def record_function(
    function: Callable[..., Any], *shapes: Sequence[Any], dtype: str = "float32", emitter: Any = None
) -> Recorded:
    """Record a function for inputs of these shapes. A size of None or a name is symbolic."""
    return Recorded(function, shapes, dtype, emitter)


def primitives(record: Recorded) -> List[str]:
    """Return the names of the primitives of a recorded function whose results are used, in order."""
    return [node.primitive for node in record.program.region.live()]
