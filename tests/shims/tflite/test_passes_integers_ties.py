"""Integers that are rescaled from one scale to another: numbers midway between two integers are rounded to even."""

from pathlib import Path
from typing import Any, List

import numpy as np
import pytest
from onnx import helper, numpy_helper
from onnx_compat_tflite import SHIM
from onnx_compat_tflite import flatbuffer as fb
from onnx_compat_tflite.passes.integers.parameters import QuantParams, has_ties

import onnx_compat


def rescale(dtype: str, first: float, second: float, operators: List[str]) -> Any:
    """Return a model that changes the scale of its input from `first` to `second`, with these operators in between."""
    scales = {"a": np.float32(first), "b": np.float32(second)}
    zeros = {"za": np.dtype(dtype).type(3 if dtype != "int16" else 0), "zb": np.dtype(dtype).type(0)}
    nodes, value = [helper.make_node("DequantizeLinear", ["x", "a", "za"], ["f"])], "f"
    for position, operator in enumerate(operators):
        given = {"perm": [1, 0]} if operator == "Transpose" else {}
        nodes.append(helper.make_node(operator, [value], ["t%d" % position], **given))
        value = "t%d" % position
    nodes.append(helper.make_node("QuantizeLinear", [value, "b", "zb"], ["y"]))
    kind = helper.np_dtype_to_tensor_dtype(np.dtype(dtype))
    info = np.iinfo(dtype)
    shape = [2, (int(info.max) - int(info.min) + 1) // 2]
    outer = shape[::-1] if "Transpose" in operators else shape
    held = [numpy_helper.from_array(array, name) for name, array in {**scales, **zeros}.items()]
    x, y = (helper.make_tensor_value_info(name, kind, sizes) for name, sizes in (("x", shape), ("y", outer)))
    graph = helper.make_graph(nodes, "rescale", [x], [y], held)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)], ir_version=10)


def concatenation(dtype: str, first: float, second: float, operators: List[str]) -> Any:
    """Return a model that concatenates two inputs of the scales `first` and `second` to a result of the scale `second`.

    `operators` are applied to the first input.
    """
    model = rescale(dtype, first, second, operators)
    graph = model.graph
    value = graph.node[-1].input[0]
    graph.node[-1].CopyFrom(helper.make_node("DequantizeLinear", ["w", "b", "zb"], ["g"]))
    graph.node.append(helper.make_node("Concat", [value, "g"], ["both"], axis=0))
    graph.node.append(helper.make_node("QuantizeLinear", ["both", "b", "zb"], ["y"]))
    graph.input.append(graph.input[0])
    graph.input[1].name = "w"
    graph.output[0].type.tensor_type.shape.dim[0].dim_value *= 2
    return model


def every_integer(dtype: str) -> Any:
    info = np.iinfo(dtype)
    return np.arange(int(info.min), int(info.max) + 1).astype(dtype).reshape(2, -1)


def convert(model: Any, folder: Path) -> Any:
    """Return (names of the operators, the runnable file)."""
    path = onnx_compat.convert(model, folder / "model.tflite", shim="tflite")
    names = [op.builtin for op in fb.read(str(path)).subgraphs[0].operators]
    return names, SHIM.load_converted(str(path), "tflite")[0]


@pytest.mark.parametrize("operators", [[], ["Relu"], ["Transpose"], ["Transpose", "Relu"]], ids="-".join)
@pytest.mark.parametrize("ratio", [0.5, 0.25, 1.5, 2.5])
@pytest.mark.parametrize("dtype", ["int8", "uint8", "int16"])
def test_a_tie_is_rounded_to_even(dtype: str, ratio: float, operators: List[str], tmp_path: Path) -> None:
    model = rescale(dtype, 0.125 * ratio, 0.125, operators)
    wanted = onnx_compat.prepare(model, shim="reference").run([every_integer(dtype)])["y"]
    _, compiled = convert(model, tmp_path)
    np.testing.assert_array_equal(compiled.run([every_integer(dtype)])[0], wanted)


@pytest.mark.parametrize("operators", [[], ["Relu"]], ids="-".join)
@pytest.mark.parametrize("ratio", [0.5, 0.25, 1.5, 2.5])
@pytest.mark.parametrize("dtype", ["int8", "uint8", "int16"])
def test_a_tie_in_a_part_of_a_concatenation_is_rounded_to_even(
    dtype: str, ratio: float, operators: List[str], tmp_path: Path
) -> None:
    model = concatenation(dtype, 0.125 * ratio, 0.125, operators)
    feed = [every_integer(dtype), every_integer(dtype)]
    wanted = onnx_compat.prepare(model, shim="reference").run(feed)["y"]
    _, compiled = convert(model, tmp_path)
    np.testing.assert_array_equal(compiled.run(feed)[0], wanted)


@pytest.mark.parametrize("ratio", [1, 2, 0.7071, 0.123])
def test_without_a_tie_the_parts_of_a_concatenation_are_rescaled(ratio: float, tmp_path: Path) -> None:
    names, _ = convert(concatenation("int8", 0.125 * ratio, 0.125, []), tmp_path)
    assert "CONCATENATION" in names and set(names) <= {"QUANTIZE", "CONCATENATION"}


@pytest.mark.parametrize("ratio", [1, 2, 0.7071, 0.123])
def test_without_a_tie_the_kernel_rescales(ratio: float, tmp_path: Path) -> None:
    names, compiled = convert(rescale("int8", 0.125 * ratio, 0.125, []), tmp_path)
    assert set(names) <= {"QUANTIZE", "RESHAPE"}
    wanted = np.clip(np.round((every_integer("int8").astype(np.float32) - 3) * np.float32(ratio)), -128, 127)
    assert np.abs(compiled.run([every_integer("int8")])[0] - wanted).max() <= 1


def test_only_numbers_that_the_result_can_store_tie() -> None:
    source = QuantParams(64.5, -128, "int8")  # 0, 64.5, 129, ...
    assert has_ties(source, QuantParams(1.0, 0, "int8"))
    assert not has_ties(source, QuantParams(1.0, 64, "int8"))  # 128.5 is clipped
    assert not has_ties(QuantParams(0.25, 0, "int8"), QuantParams(0.25, 9, "int8"))
