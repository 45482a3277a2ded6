"""`float64_as_float32`: float64 becomes float32 in ports, weights, constants, casts, types and bodies."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from building import model, node, value
from onnx import TensorProto, helper, numpy_helper
from recorded_options import record_convert

import onnx_compat
from onnx_compat.cli import main
from onnx_compat.conversion.float64 import narrow_float64
from onnx_compat.ir.dtypes import float32, float64

DOUBLE = TensorProto.DOUBLE
W = np.arange(6, dtype=np.float64).reshape(3, 2) / 7


def branch(name: str, factor: float) -> Any:
    constant = helper.make_tensor("c", DOUBLE, [], [factor])
    nodes = [node("Constant", [], [name + "c"], value=constant), node("Mul", ["m", name + "c"], [name])]
    return helper.make_graph(nodes, name, [], [value(name, None, DOUBLE)])


def double_model() -> Any:
    """Return a model of float64 in every place: ports, weights, Constant, ConstantOfShape, Cast, EyeLike, branches."""
    filled = helper.make_tensor("v", DOUBLE, [1], [0.25])
    nodes = [
        node("MatMul", ["x", "w"], ["m"]),
        node("If", ["flag"], ["r"], then_branch=branch("t", 2.0), else_branch=branch("e", -3.0)),
        node("Cast", ["n"], ["d"], to=DOUBLE),
        node("Add", ["r", "d"], ["s"]),
        node("ConstantOfShape", ["shape"], ["f"], value=filled),
        node("Add", ["s", "f"], ["u"]),
        node("EyeLike", ["n"], ["eye"], dtype=DOUBLE),
        node("SequenceConstruct", ["u", "eye"], ["list"]),
        node("SequenceAt", ["list", "zero"], ["y"]),
    ]
    inputs = [value("x", ["n", 3], DOUBLE), value("n", [2, 2], TensorProto.INT64), value("flag", [], TensorProto.BOOL)]
    constants = {"w": W, "shape": np.asarray([2, 2]), "zero": np.asarray(0)}
    return model(nodes, inputs, [value("y", ["n", 2], DOUBLE)], constants)


def dtypes(graph: Any) -> Any:
    ports = [port.type.dtype for port in (*graph.inputs, *graph.outputs) if port.type is not None]
    held = [stored.dtype for stored in graph.initializers.values()]
    attributes = [item for node_ in graph.walk() for item in node_.attributes.values()]
    return {*ports, *held, *(getattr(item, "dtype", None) for item in attributes)}


@pytest.mark.parametrize("flag", [True, False])
def test_no_float64_is_left_and_the_results_are_those_of_the_model(flag: bool) -> None:
    original = onnx_compat.load(double_model())
    narrowed = narrow_float64(original)
    assert float64 in dtypes(original.graph) and float64 not in dtypes(narrowed.graph)
    assert narrowed.graph.initializers["w"].type.dtype == float32
    feeds = {"x": np.ones((2, 3)), "n": np.eye(2, dtype=np.int64), "flag": np.asarray(flag)}
    (wanted,) = onnx_compat.run(original, feeds, shim="reference")
    runnable = onnx_compat.prepare(narrowed, shim="reference")
    (got,) = runnable.run(dict(feeds, x=feeds["x"].astype(np.float32)))
    assert got.dtype == np.float32 and wanted.dtype == np.float64
    np.testing.assert_allclose(got, wanted, rtol=1e-6)
    kinds = {str(node_.outputs[0].spec.dtype) for node_ in runnable.native.region.live()}
    assert "float64" not in kinds


def test_operators_that_read_bits_keep_their_type() -> None:
    nodes = [node("BitCast", ["x"], ["y"], to=DOUBLE)]
    spec = model(nodes, [value("x", [2], TensorProto.INT64)], [value("y", [2], DOUBLE)], opset=26)
    (only,) = narrow_float64(onnx_compat.load(spec)).graph.nodes
    assert only.attributes["to"] == DOUBLE


def test_numbers_beyond_float32_become_infinity() -> None:
    large = numpy_helper.from_array(np.asarray([1e300, -1e300, 1.0]), "c")
    spec = model([node("Constant", [], ["y"], value=large)], [], [value("y", [3], DOUBLE)])
    (result,) = onnx_compat.run(narrow_float64(onnx_compat.load(spec)), {}, shim="reference")
    assert result.tolist() == [np.inf, -np.inf, 1.0]


def test_the_command_line_passes_the_choice(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    seen = record_convert(monkeypatch)
    (tmp_path / "m.onnx").write_bytes(double_model().SerializeToString())
    files = [str(tmp_path / "m.onnx"), str(tmp_path / "m.tflite")]
    assert main(["convert", *files]) == 0 and seen["float64_as_float32"] is False
    assert main(["convert", *files, "--float64-as-float32"]) == 0 and seen["float64_as_float32"] is True
