"""Tensors that share a buffer and are read after an operator has overwritten it, in a plain interpreter."""

from pathlib import Path
from typing import Any, List

import numpy as np
import pytest
from onnx_compat_tflite import SHIM, features
from onnx_compat_tflite.build import build

from onnx_compat import primitives as p
from onnx_compat.ir.dtypes import DType
from onnx_compat.reference import Reference
from onnx_compat.shim.emission import emit
from onnx_compat.shim.interface import Port
from onnx_compat.tracing.recording import record_program

X = np.arange(1, 21).reshape(5, 4)


def residual(x: Any) -> List[Any]:
    product = p.mul(p.add(x, x), x)
    return [p.mul(p.add(p.reshape(product, (1, *x.shape)), 3), product)]


def shares(x: Any) -> List[Any]:
    scores = p.softmax(p.mul(p.add(x, x), x), 1)
    return [p.sub(p.div(p.reshape(scores, (1, *x.shape)), 3.0), scores)]


def file(function: Any, dtype: str, rows: Any, folder: Path) -> Path:
    recorded_program = record_program(function, [Port("x", DType.of(dtype), (rows, 4))], SHIM.emitter(), ["y"])
    SHIM.export(recorded_program, str(folder / "m.tflite"), "tflite")
    return folder / "m.tflite"


def expect_result(function: Any, dtype: str, x: Any) -> Any:
    recorded_program = record_program(function, [Port("x", DType.of(dtype), x.shape)], Reference(), ["y"])
    return emit(recorded_program.region, Reference(), [x])[0]


@pytest.mark.parametrize("plain", [False, True])
@pytest.mark.parametrize("rows", [5, None])
@pytest.mark.parametrize(
    ("function", "dtype"), [(residual, "float32"), (residual, "int32"), (residual, "int64"), (shares, "float32")]
)
def test_a_tensor_that_is_read_later_is_copied(
    function: Any, dtype: str, rows: Any, plain: bool, tmp_path: Path
) -> None:
    runtime, reason = features.find_runtime()
    assert runtime is not None, reason
    interpreter = runtime.interpreter(plain, model_path=str(file(function, dtype, rows, tmp_path)))
    (given,), (used,) = interpreter.get_input_details(), interpreter.get_output_details()
    interpreter.resize_tensor_input(given["index"], X.shape)
    interpreter.allocate_tensors()
    x = (X / 20 if dtype == "float32" else X).astype(dtype)
    interpreter.set_tensor(given["index"], x)
    interpreter.invoke()
    np.testing.assert_allclose(interpreter.get_tensor(used["index"]), expect_result(function, dtype, x), rtol=1e-5)


def operators(function: Any, rows: Any = 5) -> List[str]:
    recorded_program = record_program(function, [Port("x", DType.of("float32"), (rows, 4))], SHIM.emitter(), ["y"])
    return [op.builtin for op in build(recorded_program, features.kernels()).subgraphs[0].operators]


def test_no_copy_is_added_without_a_hazard() -> None:
    def ahead(x: Any) -> List[Any]:
        product = p.mul(p.add(x, x), x)
        return [p.add(p.reshape(p.tanh(product), (1, *x.shape)), p.mul(product, 3.0))]

    def input_(x: Any) -> List[Any]:
        return [p.mul(p.add(p.reshape(x, (1, *x.shape)), 3.0), x)]

    def first(x: Any) -> List[Any]:
        curve = p.tanh(x)
        return [p.mul(p.add(p.reshape(curve, (1, *x.shape)), 3.0), curve)]

    assert "SHAPE" in operators(residual)
    for function in (ahead, input_, first):
        assert "SHAPE" not in operators(function), function.__name__
