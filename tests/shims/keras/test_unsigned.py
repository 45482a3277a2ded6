"""uint64 with the highest bit set, on every back end: a signed carrier would give wrong results."""

from typing import Any, Callable, List

import numpy as np
import pytest
from onnx_compat_keras import SHIM

from onnx_compat import primitives
from onnx_compat.ir import dtypes
from onnx_compat.ir.dtypes import DType
from onnx_compat.reference.shim import SHIM as REFERENCE
from onnx_compat.shim.interface import Port
from onnx_compat.tracing.recording import record_program

EDGES = [1, 2, 3, 2**32 + 1, 2**53 + 1, 2**63 - 1, 2**63, 2**63 + 1024, 2**63 + 1025, 2**64 - 1025, 2**64 - 1]
#: Each with each.
X, Y = (np.array(grid, np.uint64).reshape(-1) for grid in zip(*[(x, y) for x in EDGES for y in EDGES]))


def run(shim: Any, apply: Callable[..., Any], arrays: List[np.ndarray]) -> np.ndarray:
    ports = [Port("i%d" % k, DType.of(array), (None,)) for k, array in enumerate(arrays)]
    program = record_program(lambda *tensors: [apply(*tensors)], ports, shim.emitter())
    (result,) = shim.compile(program).run([array.copy() for array in arrays])
    return np.asarray(result)


@pytest.mark.parametrize(
    "name", ["div", "floordiv", "mod", "fmod", "pow", "less", "maximum", "shift_left", "shift_right"]
)
def test_of_two_equals_the_reference(name: str) -> None:
    wanted = run(REFERENCE, getattr(primitives, name), [X, Y])
    np.testing.assert_array_equal(run(SHIM, getattr(primitives, name), [X, Y]), wanted)


@pytest.mark.parametrize("name", ["float16", "bfloat16", "float32", "float64", "int64", "int32", "bool"])
def test_cast_to_another_type(name: str) -> None:
    wanted = run(REFERENCE, lambda x: primitives.cast(x, DType.of(name)), [X])
    np.testing.assert_array_equal(run(SHIM, lambda x: primitives.cast(x, DType.of(name)), [X]), wanted)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_cast_of_floats(dtype: Any) -> None:
    x = np.array([0, 1.5, 2**31, 2**62, 2**63, 2**63 + 2**41, 2**64 - 2**41], dtype)
    wanted = run(REFERENCE, lambda x: primitives.cast(x, dtypes.uint64), [x])
    np.testing.assert_array_equal(run(SHIM, lambda x: primitives.cast(x, dtypes.uint64), [x]), wanted)


def test_along_an_axis() -> None:
    for name in ("reduce_max", "reduce_min", "reduce_mean"):
        wanted = run(REFERENCE, lambda x, name=name: getattr(primitives, name)(x, [0]), [X])
        np.testing.assert_array_equal(run(SHIM, lambda x, name=name: getattr(primitives, name)(x, [0]), [X]), wanted)
