"""Run functions over Tensors: record them for the types of arrays, and run the program on a shim."""

from typing import Any, Callable, List, Sequence

import numpy as np

from onnx_compat import autodiff
from onnx_compat.ir.dtypes import DType
from onnx_compat.shim.interface import Port
from onnx_compat.tracing.recording import record_program

__all__ = ["run_function", "run_with_derivative"]


def run_function(
    function: Callable[..., Any], arrays: Sequence[Any], shim: Any = None, is_symbolic: bool = False
) -> List[np.ndarray]:
    """Return the results of a function of Tensors for arrays, as a list of arrays.

    - shim: what compiles the program; None: the reference.
    - is_symbolic: whether the first axis of each array has a symbolic size; equal sizes become one symbol.
    """
    from onnx_compat.reference.shim import SHIM

    shim = shim or SHIM
    arrays = [np.asarray(array) for array in arrays]
    ports = []
    for k, array in enumerate(arrays):
        shape: List[Any] = list(array.shape)
        if is_symbolic and shape:
            shape[0] = "n%d" % shape[0]
        ports.append(Port("x%d" % k, DType.of(array.dtype), tuple(shape)))

    def results(*xs: Any) -> List[Any]:
        result = function(*xs)
        return list(result) if isinstance(result, (list, tuple)) else [result]

    program = record_program(results, ports, shim.emitter())
    return [np.asarray(array) for array in shim.compile(program).run(arrays)]


def run_with_derivative(
    function: Callable[..., Any], arrays: Sequence[Any], by: int, shim: Any = None, is_symbolic: bool = False
) -> List[np.ndarray]:
    """Return [result of a function, derivative of the sum of its elements with respect to argument `by`]."""

    def derive(*xs: Any) -> List[Any]:
        variable = autodiff.variable(xs[by])
        result = function(*xs[:by], variable, *xs[by + 1 :])
        return [result, *autodiff.gradients(result, [variable])]

    return run_function(derive, arrays, shim, is_symbolic)
