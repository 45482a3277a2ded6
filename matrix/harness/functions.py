"""Run functions over Tensors: record them for the types of arrays, and run the program on a shim."""

from typing import Any, Callable, List, Sequence

import numpy as np

from onnx_compat import autodiff
from onnx_compat.ir.dtypes import DType
from onnx_compat.shim.interface import Port
from onnx_compat.tracing.recording import record_program

__all__ = ["compile_function", "run_function", "run_with_derivative"]

Function = Callable[..., Any]


def compile_function(
    function: Function, arrays: Sequence[Any], shim: Any = None, is_symbolic: bool = False
) -> Callable[[Sequence[Any]], List[np.ndarray]]:
    """Return a compiled function of Tensors: it takes a list of arrays, and returns the list of the results.

    - arrays: examples of the arguments, for their types.
    - shim: what compiles the program; None: the reference.
    - is_symbolic: whether the first axis of each array has a symbolic size; equal sizes become one symbol.
    """
    from onnx_compat.reference.shim import SHIM

    shim = shim or SHIM
    ports = []
    for k, array in enumerate(map(np.asarray, arrays)):
        shape: List[Any] = list(array.shape)
        if is_symbolic and shape:
            shape[0] = "n%d" % shape[0]
        ports.append(Port("x%d" % k, DType.of(array.dtype), tuple(shape)))

    def results(*xs: Any) -> List[Any]:
        result = function(*xs)
        return list(result) if isinstance(result, (list, tuple)) else [result]

    compiled = shim.compile(record_program(results, ports, shim.emitter()))
    return lambda values: [np.asarray(array) for array in compiled.run([np.asarray(value) for value in values])]


def run_function(
    function: Function, arrays: Sequence[Any], shim: Any = None, is_symbolic: bool = False
) -> List[np.ndarray]:
    """Return the results of a function of Tensors for arrays, as a list of arrays.

    `shim` and `is_symbolic`: see `compile_function`.
    """
    return compile_function(function, arrays, shim, is_symbolic)(arrays)


def run_with_derivative(
    function: Function, arrays: Sequence[Any], by: int, shim: Any = None, is_symbolic: bool = False
) -> List[np.ndarray]:
    """Return [result of a function, derivative of the sum of its elements with respect to argument `by`].

    `shim` and `is_symbolic`: see `compile_function`.
    """

    def derive(*xs: Any) -> List[Any]:
        variable = autodiff.variable(xs[by])
        result = function(*xs[:by], variable, *xs[by + 1 :])
        return [result, *autodiff.gradients(result, [variable])]

    return run_function(derive, arrays, shim, is_symbolic)
