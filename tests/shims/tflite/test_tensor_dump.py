"""Intermediate values of a .tflite file under their names in the model, and the search for the operator that is wrong."""

from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper
from onnx_compat_tflite import SHIM
from onnx_compat_tflite import flatbuffer as fb

import onnx_compat
from onnx_compat.errors import UnsupportedError
from onnx_compat.verification import Layers

#: Channels and sizes are equal, so that only the numbers tell the order of the axes.
SHAPE = (2, 4, 4, 4)


def network() -> Any:
    draw = np.random.RandomState(0)
    constants = {
        "w1": draw.randn(4, 4, 3, 3), "w2": draw.randn(4, 4, 1, 1), "w3": draw.randn(4, 5), "b3": draw.randn(5),
        **{name: np.abs(draw.randn(4)) + 0.5 for name in ("scale", "shift", "mean", "variance")},
    }  # fmt: skip
    nodes = [
        helper.make_node("Conv", ["x", "w1"], ["c1"], name="conv1", pads=[1] * 4),
        helper.make_node("BatchNormalization", ["c1", "scale", "shift", "mean", "variance"], ["b1"], name="norm1"),
        helper.make_node("Relu", ["b1"], ["r1"], name="relu1"),
        helper.make_node("Conv", ["r1", "w2"], ["c2"], name="conv2"),
        helper.make_node("Sigmoid", ["c2"], ["s2"], name="sigmoid"),
        helper.make_node("Mul", ["c2", "s2"], ["m2"], name="swish"),
        helper.make_node("Add", ["m2", "r1"], ["a2"], name="residual"),
        helper.make_node("GlobalAveragePool", ["a2"], ["g"], name="pool"),
        helper.make_node("Flatten", ["g"], ["f"], name="flat"),
        helper.make_node("Gemm", ["f", "w3", "b3"], ["y"], name="dense"),
    ]
    ports = [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["n", 4, 4, 4])]
    ports.append(helper.make_tensor_value_info("y", TensorProto.FLOAT, ["n", 5]))
    stored = [numpy_helper.from_array(array.astype(np.float32), name) for name, array in constants.items()]
    graph = helper.make_graph(nodes, "network", ports[:1], ports[1:], stored)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)], ir_version=8)


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> str:
    return str(onnx_compat.convert(network(), tmp_path_factory.mktemp("made") / "m.tflite", shim="tflite"))


def looked_at(path: str) -> Layers:
    inputs = {"x": np.random.RandomState(1).randn(*SHAPE).astype(np.float32)}
    report = onnx_compat.verify(network(), inputs, shim="tflite", converted=path, oracle="reference", layers=True)
    assert report.layers is not None
    return report.layers


def test_every_value_that_the_file_holds_agrees(path: str) -> None:
    result = looked_at(path)
    assert result.ok, result.verdict
    assert [layer.value for layer in result.layers] == ["r1", "c2", "s2", "m2", "a2", "g", "y"]
    first = result.layers[0]
    assert first.nodes == ("relu1", "norm1", "conv1")
    assert first.emitted == ("TRANSPOSE", "CONV_2D + RELU")
    gone = {"c1": "fused into 'relu1'", "b1": "fused into 'relu1'", "f": "fused into 'dense'"}
    assert {change.value: change.why for change in result.gone} == gone
    assert first.comparison.expected_shape == (2, 4, 4, 4)


def test_a_constant_that_was_altered_is_named(path: str, tmp_path: Path) -> None:
    model = fb.read(path)
    main = model.subgraphs[0]
    (operator,) = [op for op in main.operators if main.tensors[op.outputs[0]].name == "c2"]
    weights = main.tensors[operator.inputs[1] or 0]
    assert weights.buffer is not None
    weights.buffer = weights.buffer + np.float32(0.25) * (np.arange(weights.buffer.size) == 3).reshape(weights.shape)
    broken = str(tmp_path / "broken.tflite")
    weights.buffer = weights.buffer.astype(np.float32)
    fb.write(model, broken)
    result = looked_at(broken)
    assert result.culprit == "conv2"
    by_value = {layer.value: layer for layer in result.layers}
    assert by_value["r1"].ok
    assert not by_value["c2"].ok and by_value["c2"].alone is not None and not by_value["c2"].alone.ok


def test_a_tensor_is_computed_from_its_producers_inputs(path: str) -> None:
    inside = SHIM.look_inside(path, "tflite")
    values = inside.values({"x": np.ones(SHAPE, np.float32)})
    again = inside.alone("a2", {"m2": values["m2"] + 1, "r1": values["r1"]})
    np.testing.assert_allclose(again, values["a2"] + 1, rtol=1e-6, atol=1e-6)
    with pytest.raises(UnsupportedError, match="cannot be computed without 'x'"):
        inside.alone("a2", {"m2": values["m2"]})


def test_a_file_of_another_model_is_refused(path: str) -> None:
    with pytest.raises(UnsupportedError, match="the model has no input 'x'"):
        SHIM.look_inside(path, "tflite").values({"other": np.ones(SHAPE, np.float32)})


def test_quantised_tensors_are_the_numbers_that_they_stand_for(tmp_path: Path) -> None:
    graph = fb.SubGraph(name="main")
    x = graph.add(fb.TensorSpec("x", "float32", (2, 3)))
    q = graph.add(fb.TensorSpec("q", "int8", (2, 3), quantization=fb.Quantization([0.5], [-3])))
    y = graph.add(fb.TensorSpec("y", "float32", (2, 3)))
    graph.operators = [fb.OperatorSpec("QUANTIZE", [x], [q]), fb.OperatorSpec("DEQUANTIZE", [q], [y])]
    graph.inputs, graph.outputs = [x], [y]
    fb.write(fb.ModelSpec([graph]), str(tmp_path / "q.tflite"))
    inside = SHIM.look_inside(str(tmp_path / "q.tflite"), "tflite")
    given = np.float32([[0, 0.4, 1.1], [-2, 30, 900]])
    held = inside.values({"x": given})["q"]
    np.testing.assert_allclose(held, [[0, 0.5, 1], [-2, 30, 65]])
    np.testing.assert_allclose(inside.alone("y", {"q": np.float32([[1, 2, 3], [4, 5, 6]])}), [[1, 2, 3], [4, 5, 6]])


def test_names_that_are_no_unicode_are_left_out(tmp_path: Path) -> None:
    proto = network()
    for node in proto.graph.node:
        for names in (node.input, node.output):
            for position, name in enumerate(names):
                if name == "c2":
                    names[position] = "c2\n\x1b[31m"
    path = str(onnx_compat.convert(proto, tmp_path / "m.tflite", shim="tflite"))
    names = [tensor.name for tensor in fb.read(path).subgraphs[0].tensors]
    assert "m2" in names
    assert all(name.isprintable() for name in names)


def test_two_conversions_are_the_same_bytes(path: str, tmp_path: Path) -> None:
    again = onnx_compat.convert(network(), tmp_path / "m.tflite", shim="tflite")
    assert again.read_bytes() == Path(path).read_bytes()
    onnx.checker.check_model(network())
