"""Compare derivatives of functions over Tensors with finite differences, and evaluate such functions."""

import itertools
from typing import Any, Callable, List, Optional, Sequence

import numpy as np
import pytest

from onnx_compat import autodiff
from onnx_compat import primitives as p
from onnx_compat.ir import dtypes
from onnx_compat.reference import Reference
from onnx_compat.shim.emission import emit
from onnx_compat.shim.interface import Emitter, Port
from onnx_compat.tracing.recording import record_program
from onnx_compat.tracing.values import lift


def evaluate(function: Callable[..., Any], arrays: Sequence[np.ndarray], emitter: Optional[Emitter] = None) -> Any:
    """Return the results of a function over Tensors for these float64 arrays, as a list of arrays."""
    ports = [Port("x%d" % k, dtypes.float64, array.shape) for k, array in enumerate(arrays)]
    emitter = emitter or Reference()
    return emit(record_program(function, ports, emitter).region, emitter, list(arrays))


def check(
    function: Callable[..., Any], *shapes: Sequence[int], offset: float = 0.1, emitter: Optional[Emitter] = None
) -> None:
    """Assert that each derivative of a weighted sum of the results is close to a central finite difference."""
    random = np.random.RandomState(7)
    arrays = [random.rand(*shape) * 0.8 + offset for shape in shapes]
    weights = random.rand(*evaluate(lambda *xs: [function(*xs)], arrays)[0].shape)

    def derive(*xs: Any) -> Any:
        variables = [autodiff.variable(x) for x in xs]
        return autodiff.gradients(p.mul(function(*variables), lift(weights)), variables)

    def total() -> float:
        return float((evaluate(lambda *xs: [function(*xs)], arrays)[0] * weights).sum())

    for array, derivative in zip(arrays, evaluate(derive, arrays, emitter)):
        for index in list(itertools.islice(np.ndindex(*array.shape), 0, None, 3)):
            kept = array[index]
            array[index] = kept + 1e-5
            above = total()
            array[index] = kept - 1e-5
            assert derivative[index] == pytest.approx((above - total()) / 2e-5, rel=1e-4, abs=1e-5)
            array[index] = kept


def check_second_order(
    function: Callable[..., Any], *shapes: Sequence[int], offset: float = 0.1, emitter: Optional[Emitter] = None
) -> None:
    """Assert that the derivatives of a derivative are close to finite differences, as `check` does.

    The derivative is that of the sum of the squared results by the first argument.
    """

    def first_order(*xs: Any) -> Any:
        variables = [autodiff.variable(x) for x in xs]
        y = function(*variables)
        return autodiff.gradients(p.mul(y, y), variables)[0]

    check(first_order, *shapes, offset=offset, emitter=emitter)


def derivatives(function: Callable[..., Any], *arrays: Any) -> List[Any]:
    """Return the derivatives of the sum of the results with respect to each array, as nested lists."""

    def derive(*xs: Any) -> Any:
        variables = [autodiff.variable(x) for x in xs]
        return autodiff.gradients(function(*variables), variables)

    return [result.tolist() for result in evaluate(derive, [np.array(array, np.float64) for array in arrays])]
