"""`convert` runs a small file whose sizes depend on values, and raises an error if it does not run."""

from pathlib import Path
from typing import Any, List

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper
from onnx_compat_tflite.runtime import InterpretedModel

import onnx_compat
from onnx_compat.errors import ConversionError, UnsupportedError

FLOAT, INT64 = TensorProto.FLOAT, TensorProto.INT64


def model(nodes: List[onnx.NodeProto], size: Any = 4, **constants: np.ndarray) -> onnx.ModelProto:
    ports = [helper.make_tensor_value_info("x", FLOAT, [size])]
    initializers = [numpy_helper.from_array(array, name) for name, array in constants.items()]
    graph = helper.make_graph(nodes, "g", ports, [helper.make_tensor_value_info("y", 0, None)], initializers)
    graph.output[0].ClearField("type")
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)], ir_version=8)


BY_VALUES = [helper.make_node("NonZero", ["x"], ["y"])]
STATIC = [helper.make_node("Relu", ["x"], ["y"])]


@pytest.fixture
def runs(monkeypatch: pytest.MonkeyPatch) -> List[str]:
    """Make the run of every file fail, and list the runs."""
    calls: List[str] = []

    def run(self: Any, arrays: Any) -> Any:
        calls.append("run")
        raise UnsupportedError("the TFLite runtime could not run the model: a tensor has no buffer")

    monkeypatch.setattr(InterpretedModel, "run", run)
    return calls


def test_a_file_that_does_not_run_is_not_written(runs: List[str], tmp_path: Path) -> None:
    with pytest.raises(ConversionError, match="the written file does not run: the TFLite runtime could not"):
        onnx_compat.convert(model(BY_VALUES), tmp_path / "a.tflite")
    assert runs == ["run"] and not list(tmp_path.iterdir())


def test_inputs_that_the_model_refuses_prove_nothing(runs: List[str], tmp_path: Path) -> None:
    """The generated input does not fit the model: the reference refuses it too."""
    nodes = [
        helper.make_node("NonZero", ["x"], ["where"]),
        helper.make_node("Add", ["where", "five"], ["shifted"]),
        helper.make_node("Transpose", ["shifted"], ["rows"]),
        helper.make_node("GatherND", ["x", "rows"], ["y"]),
    ]
    onnx_compat.convert(model(nodes, five=np.array([[5]])), tmp_path / "a.tflite")
    assert runs == ["run"]


@pytest.mark.parametrize(("nodes", "size"), [(STATIC, 4), (BY_VALUES, "n")])
def test_other_files_are_not_run(nodes: Any, size: Any, runs: List[str], tmp_path: Path) -> None:
    """The sizes of the first are checked when the file is loaded; those of the second are not known."""
    onnx_compat.convert(model(nodes, size), tmp_path / "a.tflite")
    assert not runs


@pytest.mark.parametrize("count", [1, 2, 3, 9])
def test_suppressed_boxes_of_known_sizes(count: int, tmp_path: Path) -> None:
    """A NonMaxSuppression of known sizes wrote a file that did not run."""
    boxes = np.float32([[[-1, 0, 1, 1], [0.5, 0.5, 1.5, 1.5], [5, 5, 6, 6]]])
    scores = np.float32([[[0.9, 0.8, 0.7]]])
    node = helper.make_node("NonMaxSuppression", ["b", "s", "m", "i"], ["y"])
    ports = [helper.make_tensor_value_info("b", FLOAT, [1, 3, 4]), helper.make_tensor_value_info("s", FLOAT, [1, 1, 3])]
    constants = [numpy_helper.from_array(np.array([count]), "m"), numpy_helper.from_array(np.float32([0.5]), "i")]
    graph = helper.make_graph([node], "g", ports, [helper.make_tensor_value_info("y", INT64, [None, 3])], constants)
    proto = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 11)], ir_version=6)
    path = onnx_compat.convert(proto, tmp_path / "a.tflite")
    assert len(onnx_compat.load_converted(path).run({"b": boxes, "s": scores})[0]) == min(count, 3)
