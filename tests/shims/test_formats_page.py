"""docs/reference/formats.md agrees with this shim: a conversion tries each entry of its tables."""

import importlib.util
import os
from pathlib import Path
from typing import Any, Callable, Dict, List

import numpy as np
import pytest
from onnx import ModelProto, TensorProto, helper, numpy_helper

import onnx_compat
from onnx_compat.ir.dtypes import DType

SHIM = os.environ["ONNX_COMPAT_SHIM"]
PAGE = Path(__file__).parents[2] / "docs" / "reference" / "formats.md"
FORMATS = {"tflite": ["tflite"], "keras": ["keras"], "tf1": ["saved_model", "graphdef"], "tf2": ["saved_model"]}[SHIM]
TITLES = {"tflite": "`.tflite`", "keras": "`.keras`", "saved_model": "SavedModel", "graphdef": "`.pb`"}


def title_of_types(form: str) -> str:
    """Return the title of the column, in the table of dtypes, that is about this environment."""
    if form == "tflite" and importlib.util.find_spec("ai_edge_litert") is None:
        return "`.tflite` on tflite-runtime 2.7"
    if form == "keras":
        names = {"tensorflow": "TensorFlow", "jax": "JAX", "torch": "PyTorch"}
        return "`.keras` on " + names[os.environ.get("KERAS_BACKEND", "tensorflow")]
    return TITLES[form]


def table(first: str) -> Dict[str, Dict[str, str]]:
    """Return row -> column -> entry of the table whose first heading is `first`."""
    lines = PAGE.read_text(encoding="utf-8").splitlines()
    start = next(index for index, line in enumerate(lines) if line.startswith("| %s |" % first))
    cells = [[cell.strip() for cell in line.strip("|").split("|")] for line in lines[start:]]
    rows = cells[2 : next(index for index, row in enumerate(cells) if row == [""])]
    return {row[0]: dict(zip(cells[0], row)) for row in rows}


def value(name: str, shape: Any, dtype: int = TensorProto.FLOAT) -> Any:
    return helper.make_tensor_value_info(name, dtype, shape)


def model(nodes: List[Any], inputs: List[Any], outputs: List[Any], weights: Any = ()) -> ModelProto:
    graph = helper.make_graph(nodes, "model", inputs, outputs, list(weights))
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


def converts(source: ModelProto, folder: Path, form: str) -> bool:
    try:
        onnx_compat.convert(source, folder / "file", to=form)
    except onnx_compat.OnnxCompatError:
        return False
    return True


@pytest.mark.parametrize("form", FORMATS)
@pytest.mark.parametrize("name", table("type"))
def test_a_type(name: str, form: str, tmp_path: Path) -> None:
    dtype = DType.of(name).onnx
    operator = "And" if name == "bool" else "Add"
    ports = [value("x", ["n"], dtype)], [value("y", ["n"], dtype)]
    if converts(model([helper.make_node(operator, ["x", "x"], ["y"])], *ports), tmp_path, form):
        expected = "computes"
    elif converts(model([helper.make_node("Concat", ["x", "x"], ["y"], axis=0)], *ports), tmp_path, form):
        expected = "moves"
    else:
        expected = "no"
    assert table("type")[name][title_of_types(form)] == expected


def _if() -> ModelProto:
    branches = [
        helper.make_graph([helper.make_node(operator, ["x", "x"], [operator])], operator, [], [value(operator, ["n"])])
        for operator in ("Add", "Mul")
    ]
    node = helper.make_node("If", ["c"], ["y"], then_branch=branches[0], else_branch=branches[1])
    return model([node], [value("x", ["n"]), value("c", [], TensorProto.BOOL)], [value("y", ["n"])])


def _loop(known: bool) -> ModelProto:
    nodes = [helper.make_node("Add", ["v", "x"], ["w"]), helper.make_node("Identity", ["c"], ["again"])]
    inputs = [value("i", [], TensorProto.INT64), value("c", [], TensorProto.BOOL), value("v", ["n"])]
    body = helper.make_graph(nodes, "body", inputs, [value("again", [], TensorProto.BOOL), value("w", ["n"])])
    node = helper.make_node("Loop", ["steps", "", "x"], ["y"], body=body)
    if known:
        steps = numpy_helper.from_array(np.array(3), "steps")
        return model([node], [value("x", ["n"])], [value("y", ["n"])], [steps])
    return model([node], [value("x", ["n"]), value("steps", [], TensorProto.INT64)], [value("y", ["n"])])


def _scan() -> ModelProto:
    nodes = [helper.make_node("Add", ["s", "e"], ["t"]), helper.make_node("Identity", ["t"], ["u"])]
    body = helper.make_graph(nodes, "body", [value("s", [2]), value("e", [2])], [value("t", [2]), value("u", [2])])
    node = helper.make_node("Scan", ["start", "x"], ["last", "y"], body=body, num_scan_inputs=1)
    return model([node], [value("start", [2]), value("x", ["n", 2])], [value("last", [2]), value("y", ["n", 2])])


def _random() -> ModelProto:
    nodes = [helper.make_node("RandomNormalLike", ["x"], ["r"]), helper.make_node("Add", ["x", "r"], ["y"])]
    return model(nodes, [value("x", ["n"])], [value("y", ["n"])])


def _sequence() -> ModelProto:
    node = helper.make_node("ConcatFromSequence", ["x"], ["y"], axis=0)
    sequence = helper.make_tensor_sequence_value_info("x", TensorProto.FLOAT, ["n"])
    return model([node], [sequence], [value("y", ["m"])])


def _relu(shape: Any) -> ModelProto:
    return model([helper.make_node("Relu", ["x"], ["y"])], [value("x", shape)], [value("y", shape)])


STRUCTURES: Dict[str, Callable[[], ModelProto]] = {
    "symbolic sizes": lambda: _relu(["n", "m"]),
    "If": _if,
    "Loop, known number of steps": lambda: _loop(known=True),
    "Loop, computed number of steps": lambda: _loop(known=False),
    "Scan": _scan,
    "random operator": _random,
    "unknown rank of an input": lambda: _relu(None),
    "sequence input": _sequence,
}


@pytest.mark.parametrize("form", FORMATS)
@pytest.mark.parametrize("name", STRUCTURES)
def test_a_structure(name: str, form: str, tmp_path: Path) -> None:
    entry = table("the model has")[name][TITLES[form]]
    back_end = os.environ.get("KERAS_BACKEND", "tensorflow")
    back_ends = {
        "yes": [back_end], "no": [], "not on JAX": ["tensorflow", "torch"], "on TensorFlow": ["tensorflow"],
    }  # fmt: skip
    is_expected = back_end in back_ends[entry]
    assert converts(STRUCTURES[name](), tmp_path, form) == is_expected
