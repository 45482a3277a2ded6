"""Models of float64 become files of float32 by choice. Their verification compares with the model of float64."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from onnx import TensorProto, helper, numpy_helper

import onnx_compat
from onnx_compat.errors import UnsupportedError

DOUBLE = TensorProto.DOUBLE


def regression() -> Any:
    """Return a linear model of float64, as scikit-learn exports it, with its inputs scaled by a weight."""
    random = np.random.RandomState(0)
    held = {"mean": random.randn(4), "w": random.randn(4, 3)}
    nodes = [
        helper.make_node("Sub", ["x", "mean"], ["c"]),
        helper.make_node("MatMul", ["c", "w"], ["m"]),
        helper.make_node("Exp", ["m"], ["y"]),
    ]
    graph = helper.make_graph(
        nodes,
        "regression",
        [helper.make_tensor_value_info("x", DOUBLE, ["n", 4])],
        [helper.make_tensor_value_info("y", DOUBLE, ["n", 3])],
        [numpy_helper.from_array(array, name) for name, array in held.items()],
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


def test_float64_is_refused_without_the_choice(tmp_path: Path) -> None:
    with pytest.raises(UnsupportedError) as caught:
        onnx_compat.convert(regression(), tmp_path / "m.tflite", shim="tflite")
    assert "float64_as_float32" in str(caught.value.hint)


@pytest.mark.parametrize("layers", [False, True])
def test_the_file_has_float32_and_agrees(tmp_path: Path, layers: bool) -> None:
    path = onnx_compat.convert(regression(), tmp_path / "m.tflite", shim="tflite", float64_as_float32=True)
    loaded = onnx_compat.load_converted(path)
    assert [str(info.type.dtype) for info in (*loaded.inputs, *loaded.outputs)] == ["float32", "float32"]
    report = onnx_compat.verify(regression(), converted=path, shim="tflite", layers=layers)
    assert report.ok, report
    assert report.outputs[0].dtype == "float64" and report.outputs[0].max_rel_error < 1e-5
