"""Nodes whose rule holds for some values, shapes or types only: masks, joined types, negative indices, odd padding."""

from typing import Any, Dict, List

import numpy as np
import onnx
import pytest
from building import model, node, require_opset, value
from onnx import TensorProto, helper

import onnx_compat
from onnx_compat.ir.dtypes import DType
from onnx_compat.retarget.conversion import plan, retarget
from onnx_compat.retarget.outcomes import COMPOSED, KEPT, REFUSED, RESPELLED
from onnx_compat.retarget.retargeting import retarget_in_place

Arrays = Dict[str, np.ndarray]


def single(built: Any, opset: int, feeds: Arrays, constants: Any = None, outputs: Any = None, sizes: Any = None) -> Any:
    """Return a model of one node. `sizes` replaces the shapes of inputs."""
    require_opset(opset)
    ports = [
        value(name, (sizes or {}).get(name, list(array.shape)), DType.of(array.dtype).onnx)
        for name, array in feeds.items()
    ]
    outputs = outputs or [onnx.ValueInfoProto(name=name) for name in built.output if name]
    return model([built], ports, outputs, constants, opset)


def check_numbers(result: Any, source: Any, feeds: Arrays) -> None:
    for got, want in zip(*(onnx_compat.run(proto, feeds, shim="reference") for proto in (result, source))):
        assert got.dtype == want.dtype
        np.testing.assert_allclose(got, want, 1e-5, 1e-6)


def run_in_onnxruntime(result: Any, feeds: Arrays) -> List[np.ndarray]:
    onnxruntime = pytest.importorskip("onnxruntime")
    session = onnxruntime.InferenceSession(result.SerializeToString(), providers=["CPUExecutionProvider"])
    return session.run(None, feeds)


def attention(entries: int, past: bool = False) -> Any:
    draw = np.random.default_rng(0).standard_normal
    feeds = {name: draw((1, 2, 4, 8)).astype(np.float32) for name in "qkv"}
    feeds["m"] = draw((4, entries)).astype(np.float32)
    inputs = ["q", "k", "v", "m"]
    outputs = ["y"]
    if past:
        feeds.update((name, draw((1, 2, 3, 8)).astype(np.float32)) for name in ("pk", "pv"))
        inputs, outputs = [*inputs, "pk", "pv"], ["y", "present_k", "present_v"]
    return node("Attention", inputs, outputs), feeds


@pytest.mark.parametrize(("source", "target"), [(23, 24), (24, 23), (23, 25)])
@pytest.mark.parametrize(("entries", "past", "outcome"), [(4, False, KEPT), (1, False, COMPOSED), (7, True, KEPT)])
def test_a_mask_of_one_entry_differs_between_versions(
    source: int, target: int, entries: int, past: bool, outcome: str
) -> None:
    require_opset(max(source, target))
    built, feeds = attention(entries, past)
    proto = single(built, source, feeds)
    assert plan(proto, target).nodes[0].outcome == outcome
    check_numbers(retarget(proto, target), proto, feeds)


def test_equal_symbolic_sizes_of_a_mask_are_equal() -> None:
    require_opset(24)
    built, feeds = attention(4)
    sizes = {"k": [1, 2, "keys", 8], "v": [1, 2, "keys", 8], "m": [4, "keys"]}
    assert plan(single(built, 23, feeds, sizes=sizes), 24).counts[KEPT] == 1
    sizes["m"] = [4, "other"]
    assert plan(single(built, 23, feeds, sizes=sizes), 24).counts[KEPT] == 0


HALF, SINGLE, DOUBLE = np.float16, np.float32, np.float64
X = np.linspace(0.5, 4, 8).reshape(1, 2, 2, 2)
TWO = np.asarray([1, 2])


@pytest.mark.parametrize(
    ("built", "source", "target", "types"),
    [
        (node("Pow", ["x", "s"], ["y"]), 13, 11, (SINGLE, DOUBLE)),
        (node("BatchNormalization", ["x", "s", "s", "s", "s"], ["y"]), 15, 13, (HALF, SINGLE)),
        (node("QuantizeLinear", ["x", "s"], ["y"]), 23, 21, (HALF, SINGLE)),
    ],
    ids=lambda part: getattr(part, "op_type", None),
)
def test_types_that_the_target_joins(built: Any, source: int, target: int, types: Any) -> None:
    scale = TWO if built.op_type == "BatchNormalization" else np.asarray(2)
    feeds = {"x": X.astype(types[0]), "s": scale.astype(types[1])}
    proto = single(built, source, feeds)
    result = retarget(proto, target)
    onnx.checker.check_model(result)
    onnx.shape_inference.infer_shapes(result, strict_mode=True)
    assert plan(proto, target).counts[COMPOSED] == 1
    tolerance = 1e-2 if HALF in types else 1e-5
    for got, want in zip(*(onnx_compat.run(entry, feeds, shim="reference") for entry in (result, proto))):
        np.testing.assert_allclose(got, want, tolerance)


def image(*shape: int) -> np.ndarray:
    return np.random.default_rng(1).standard_normal(shape).astype(np.float32)


W = image(1, 1, 3, 3)
DATA: Arrays = {"x": image(1, 1, 4, 5)}
SMALL: Arrays = {"x": image(3, 4)}
LETTERS = np.asarray([0, 1], np.float32)


@pytest.mark.parametrize(
    ("built", "feeds", "constants", "attributes", "indices"),
    [
        (node("ConvTranspose", ["x", "w"], ["y"], output_shape=[5, 6]), DATA, {"w": W}, {"pads": [1, 1, 0, 0]}, None),
        (node("ConvTranspose", ["x", "w"], ["y"], output_shape=[5, 6], auto_pad="SAME_UPPER"), DATA, {"w": W},
         {"pads": [0, 0, 1, 1]}, None),
        (node("ConvTranspose", ["x", "w"], ["y"], strides=[2, 2], auto_pad="SAME_LOWER"), DATA, {"w": W},
         {"strides": [2, 2], "pads": [1, 1, 0, 0]}, None),
        (node("ConvTranspose", ["x", "w"], ["y"], output_shape=[6, 7]), DATA, {"w": W}, {"output_shape": [6, 7]}, None),
        (node("ConvTranspose", ["x", "w"], ["y"], output_shape=[4, 6]), DATA, {"w": W}, {"pads": [1, 1, 1, 0]}, None),
        (node("Gather", ["x", "i"], ["y"], axis=1), SMALL, {"i": np.asarray([-1, 2])}, {"axis": 1}, [3, 2]),
        (node("ScatterElements", ["x", "i", "u"], ["y"]), SMALL, {"i": np.asarray([[-1]]), "u": np.float32([[9]])}, {}, [[2]]),
        (node("OneHot", ["i", "d", "v"], ["y"]), {}, {"i": np.asarray([-1, 1, -9]), "d": np.asarray(3), "v": LETTERS}, {}, [2, 1, -9]),
    ],
    ids=lambda part: getattr(part, "op_type", None),
)  # fmt: skip
def test_forms_that_versions_before_11_treat_otherwise(
    built: Any, feeds: Any, constants: Any, attributes: Any, indices: Any
) -> None:
    proto = single(built, 11, feeds, constants)
    result = retarget_copy(proto, 9)
    (written,) = result.graph.node
    assert {entry.name: helper.get_attribute_value(entry) for entry in written.attribute} == attributes
    stored = {tensor.name: onnx.numpy_helper.to_array(tensor).tolist() for tensor in result.graph.initializer}
    position = 0 if built.op_type == "OneHot" else 1
    assert indices is None or stored[written.input[position]] == indices
    check_numbers(result, proto, feeds)


def retarget_copy(proto: Any, opset: int) -> Any:
    copy = onnx.ModelProto.FromString(proto.SerializeToString())
    assert retarget_in_place(copy, opset).counts[REFUSED] == 0
    return copy


def test_sizes_that_are_not_known_are_a_caveat() -> None:
    built = node("ConvTranspose", ["x", "w"], ["y"], output_shape=[5, 6])
    proto = single(built, 11, DATA, {"w": W}, sizes={"x": [1, 1, "h", "w"]})
    written = plan(proto, 9)
    assert written.counts[KEPT] == 1
    assert any("padded by an odd number" in note for note in written.notes)
    assert retarget(proto, 9).graph.node[0] == proto.graph.node[0]
    one_hot = node("OneHot", ["i", "d", "v"], ["y"])
    proto = single(one_hot, 11, {"i": np.asarray([1])}, {"d": np.asarray(3), "v": LETTERS})
    assert any("indices below 0" in note for note in plan(proto, 9).notes)


def test_negative_scan_axes() -> None:
    body = helper.make_graph(
        [node("Add", ["s", "e"], ["n"]), node("Identity", ["n"], ["o"])],
        "body", [value("s", [3]), value("e", [3])], [value("n", [3]), value("o", [3])],
    )  # fmt: skip
    built = node(
        "Scan", ["init", "x"], ["last", "y"], body=body, num_scan_inputs=1, scan_input_axes=[-1], scan_output_axes=[-1]
    )
    proto = single(built, 11, SMALL, {"init": np.zeros(3, np.float32)})
    result = retarget_copy(proto, 9)
    given = {entry.name: helper.get_attribute_value(entry) for entry in result.graph.node[0].attribute}
    assert (given["scan_input_axes"], given["scan_output_axes"]) == ([1], [1])
    check_numbers(result, proto, SMALL)


@pytest.mark.parametrize(
    ("built", "shapes", "text"),
    [
        (
            node("BatchNormalization", ["x", "s", "s", "s", "s"], ["y", "m", "v"]),
            {"x": [2, 3, 4], "s": [3]},
            "it trains",
        ),
        (node("Gemm", ["a", "b", "c"], ["y"]), {"a": [4, 2], "b": [2, 3], "c": [4, 1]}, "does not broadcast"),
    ],
)
def test_forms_that_opset_6_lacks(built: Any, shapes: Any, text: str) -> None:
    proto = single(built, 7, {name: np.zeros(shape, np.float32) for name, shape in shapes.items()})
    written = retarget_in_place(proto, 6)
    assert written.first_refusal is not None
    assert text in written.first_refusal.reason


@pytest.mark.parametrize(("shape", "added"), [([4, 3], 1), ([3], 1), ([1], 1), ([1, 1], 1)])
def test_gemm_keeps_the_forms_that_opset_6_has(shape: Any, added: int) -> None:
    feeds = {"a": image(4, 2), "b": image(2, 3), "c": image(*shape)}
    proto = single(node("Gemm", ["a", "b", "c"], ["y"]), 7, feeds)
    result = retarget_copy(proto, 6)
    assert [entry.name for entry in result.graph.node[0].attribute] == ["broadcast"] * added
    check_numbers(result, proto, feeds)


def test_a_slope_without_axes() -> None:
    proto = single(node("PRelu", ["x", "s"], ["y"]), 6, {"x": image(2, 3), "s": np.asarray(0.5, np.float32)})
    assert retarget_in_place(proto, 7).counts[KEPT] == 1


@pytest.mark.parametrize(
    ("outputs", "attributes"), [(["y", "h"], ["hidden_size", "output_sequence"]), (["", "h"], ["hidden_size"])]
)
def test_the_first_output_of_a_recurrent_network(outputs: Any, attributes: Any) -> None:
    feeds = {"x": image(5, 1, 3), "w": image(1, 2, 3), "r": image(1, 2, 2)}
    proto = single(node("RNN", ["x", "w", "r"], outputs, hidden_size=2), 7, feeds)
    result = retarget_copy(proto, 6)
    assert [entry.name for entry in result.graph.node[0].attribute] == attributes
    retarget_in_place(result, 7)
    assert result.graph.node[0] == proto.graph.node[0]


def test_axes_of_a_slice_keep_their_type() -> None:
    constants = {"s": np.int32([1]), "e": np.int32([3]), "a": np.int32([-1])}
    proto = single(node("Slice", ["x", "s", "e", "a"], ["y"]), 11, SMALL, constants)
    result = retarget(proto, 10)
    onnx.checker.check_model(onnx.shape_inference.infer_shapes(result, strict_mode=True))
    assert {tensor.data_type for tensor in result.graph.initializer} == {TensorProto.INT32}
    check_numbers(result, proto, SMALL)
    assert plan(proto, 10).counts[RESPELLED] == 1


@pytest.mark.parametrize("opset", [9, 12, 17])
@pytest.mark.parametrize("keepdims", [0, 1])
@pytest.mark.parametrize("operator", ["ReduceMean", "ReduceL2", "ReduceLogSum", "ReduceLogSumExp"])
@pytest.mark.parametrize("axes", [[0, 1], [1], [-1, 0], []])
def test_fractions_of_integers_are_rounded_once(operator: str, keepdims: int, opset: int, axes: Any) -> None:
    for numbers in ([[1, 1], [1, 1]], [[1, 1], [0, 2]], [[-3, 2], [-4, 1]]):
        feeds = {"x": np.abs(np.asarray(numbers, np.int32)), "a": np.asarray(axes, np.int64)}
        if operator == "ReduceMean":
            feeds["x"] = np.asarray(numbers, np.int32)
        proto = single(node(operator, ["x", "a"], ["y"], keepdims=keepdims), 18, feeds)
        result = onnx.shape_inference.infer_shapes(retarget(proto, opset))
        (want,) = onnx_compat.run(proto, feeds, shim="reference")
        np.testing.assert_array_equal(run_in_onnxruntime(result, feeds)[0], want)


@pytest.mark.parametrize("opset", [9, 12, 17, 18, 19])
@pytest.mark.parametrize("axes", [[0, -1], [1], []])
def test_an_extreme_of_bools_with_axes_that_are_known_at_run_time_only(opset: int, axes: Any) -> None:
    feeds = {"x": np.asarray([[True, False, True], [True, True, True]]), "a": np.asarray(axes, np.int64)}
    proto = single(node("ReduceMin", ["x", "a"], ["y"]), 20, feeds)
    result = onnx.shape_inference.infer_shapes(retarget(proto, opset), strict_mode=True)
    onnx.checker.check_model(result)
    (want,) = onnx_compat.run(proto, feeds, shim="reference")
    np.testing.assert_array_equal(run_in_onnxruntime(result, feeds)[0], want)


@pytest.mark.parametrize("dtype", [np.int32, np.int64])
def test_axes_of_a_pad_that_are_known_at_run_time_only(dtype: Any) -> None:
    feeds = {"x": image(2, 3), "p": np.asarray([1, 2]), "a": np.asarray([-1], dtype)}
    proto = single(node("Pad", ["x", "p", "", "a"], ["y"]), 18, feeds)
    result = retarget(proto, 17)
    onnx.shape_inference.infer_shapes(result, strict_mode=True)
    np.testing.assert_allclose(run_in_onnxruntime(result, feeds)[0], np.pad(feeds["x"], [(0, 0), (1, 2)]))
    wrapped = single(node("Pad", ["x", "p", "", "a"], ["y"], mode="wrap"), 19, feeds)
    refusal = plan(wrapped, 18).first_refusal or plan(wrapped, 17).first_refusal
    assert refusal is not None
    assert "no mode 'wrap'" in refusal.reason
