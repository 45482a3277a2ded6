"""int64 values at run time that int32 cannot hold: bounds are clamped, sizes and indices refused, and nothing wraps."""

from pathlib import Path
from typing import Any, Dict, List, Tuple

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper
from onnx_compat_tflite import features
from onnx_compat_tflite import flatbuffer as fb

import onnx_compat
from onnx_compat.errors import OnnxCompatError

LEAST, MOST = -(2**63), 2**63 - 1
X = np.arange(1, 5, dtype=np.float32)
Values = Dict[str, Any]


def model(nodes: List[Any], feed: Values, constants: Values, opens: bool = False) -> bytes:
    inputs = [
        helper.make_tensor_value_info(
            name,
            helper.np_dtype_to_tensor_dtype(array.dtype),
            ["n"] if opens and name == "x" else list(array.shape),
        )
        for name, array in feed.items()
    ]
    held = [numpy_helper.from_array(np.asarray(array), name) for name, array in constants.items()]
    outputs = [helper.make_empty_tensor_value_info("y")]
    graph = helper.make_graph(nodes, "g", inputs, outputs, held)
    model_spec = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=8)
    return bytes(model_spec.SerializeToString())


def file_result(content: bytes, feed: Values, path: Path) -> Any:
    file = onnx_compat.convert(content, path / "m.tflite", shim="tflite")
    return onnx_compat.load_converted(str(file)).run(feed)[0]


BOUNDS = [LEAST, -(2**40), -(2**32) - 1, -(2**31), -3, 0, 2, 2**31 - 1, 2**31, 2**32 + 1, 2**40, MOST]


@pytest.mark.parametrize("opens", [False, True])
@pytest.mark.parametrize("step", [1, -1, 2])
def test_bounds_of_a_slice_are_clamped(step: int, opens: bool, tmp_path: Path) -> None:
    constants = {"axes": np.array([0]), "steps": np.array([step])}
    feed = {"x": X, "starts": np.array([0]), "ends": np.array([0])}
    nodes = [helper.make_node("Slice", ["x", "starts", "ends", "axes", "steps"], ["y"])]
    content = model(nodes, feed, constants, opens)
    runnable = onnx_compat.prepare(content, shim="tflite", fallback=False)
    file = onnx_compat.load_converted(str(onnx_compat.convert(content, tmp_path / "m.tflite", shim="tflite")))
    for start in BOUNDS:
        for end in BOUNDS:
            feed = {"x": X, "starts": np.array([start]), "ends": np.array([end])}
            for result in (runnable.run(feed)[0], file.run(feed)[0]):
                np.testing.assert_array_equal(result, X[start:end:step], err_msg="%d:%d:%d" % (start, end, step))


@pytest.mark.parametrize("limit", [0, 1, 3, 2**31 - 1, 2**31, 2**32, 2**32 + 1, MOST])
@pytest.mark.parametrize("given", ["input", "constant"])
def test_the_limit_of_a_suppression_is_clamped(given: str, limit: int, tmp_path: Path) -> None:
    """torchvision writes sys.maxsize as the limit. No runtime loaded the file for one class of one image."""
    boxes = np.array([[[-1, 0, 1, 1], [0.5, 0.5, 1.5, 1.5], [5, 5, 6, 6]]], np.float32)
    feed = {"boxes": boxes, "scores": np.array([[[0.9, 0.8, 0.7]]], np.float32)}
    constants = {"overlap": np.array([0.5], np.float32), "threshold": np.array([0], np.float32)}
    (feed if given == "input" else constants)["limit"] = np.array([limit])
    names = ["boxes", "scores", "limit", "overlap", "threshold"]
    content = model([helper.make_node("NonMaxSuppression", names, ["y"])], feed, constants)
    expected = [[0, 0, box] for box in range(min(limit, 3))]
    assert onnx_compat.run(content, feed, shim="tflite")[0].tolist() == expected
    assert file_result(content, feed, tmp_path).tolist() == expected


def sizes() -> List[Tuple[str, List[Any], Values]]:
    """Return (operator, its nodes, its feed) for operators with a size input `s`, whose value the test sets."""
    node = helper.make_node
    return [
        ("ConstantOfShape", [node("ConstantOfShape", ["s"], ["y"])], {}),
        ("Expand", [node("Expand", ["x", "s"], ["y"])], {"x": X[:1]}),
        ("Tile", [node("Tile", ["x", "s"], ["y"])], {"x": X}),
        ("Range", [node("Squeeze", ["s"], ["t"]), node("Range", ["z", "t", "one"], ["y"])], {}),
        ("TopK", [node("TopK", ["x", "s"], ["y", ""])], {"x": X}),
    ]


CONSTANTS = {"z": np.int64(0), "one": np.int64(1)}
SIZES = {name: (nodes, feed) for name, nodes, feed in sizes()}


@pytest.mark.parametrize("size", [2**31, 2**32 + 2, 2**32 + 4, 2**40, MOST])
@pytest.mark.parametrize("name", list(SIZES))
def test_sizes_that_do_not_fit_are_refused(name: str, size: int, tmp_path: Path) -> None:
    nodes, feed = SIZES[name]
    content = model(nodes, dict(feed, s=np.array([4])), CONSTANTS)
    assert file_result(content, dict(feed, s=np.array([4])), tmp_path).size
    with pytest.raises(OnnxCompatError):
        file_result(content, dict(feed, s=np.array([size])), tmp_path)


INDEXED = {
    "GatherElements": ("GatherElements", np.array([[0, 1], [1, 0]]), {}),
    "GatherND": ("GatherND", np.array([[0], [1]]), {}),
    "GatherND of batches": ("GatherND", np.array([[0], [1]]), {"batch_dims": 1}),
    "ScatterND": ("ScatterND", np.array([[0], [1]]), {}),
    "ScatterND, add": ("ScatterND", np.array([[0], [1]]), {"reduction": "add"}),
    "ScatterElements": ("ScatterElements", np.array([[0, 1], [1, 0]]), {}),
}


def checks_indices(operator: str) -> bool:
    """Whether the kernels refuse indices out of range: gathers from 2.13 on, scatters from LiteRT 2.0 on."""
    runtime, _ = features.find_runtime()
    assert runtime is not None
    if operator.startswith("Scatter"):
        return runtime.name == "ai-edge-litert" and int(runtime.version.split(".")[0]) >= 2
    return features.kernels().has("BITCAST")


@pytest.mark.parametrize("name", list(INDEXED))
def test_indices_are_not_wrapped(name: str, tmp_path: Path) -> None:
    operator, indices, attributes = INDEXED[name]
    x = np.arange(4, dtype=np.float32).reshape(2, 2)
    constants = {"u": np.full((2, 2), 7, np.float32)} if operator.startswith("Scatter") else {}
    content = model(
        [helper.make_node(operator, ["x", "i", *constants], ["y"], **attributes)], {"x": x, "i": indices}, constants
    )
    feed = {"x": x, "i": indices}
    expected = onnx_compat.run(content, feed, shim="reference")[0]
    np.testing.assert_array_equal(file_result(content, feed, tmp_path), expected)
    if not checks_indices(operator):
        return  # the kernel reads and writes what lies at an index out of range: docs/usage.md lists the runtimes
    for far in (2**32, 2**32 + 1, 2**40, -(2**32)):
        with pytest.raises(OnnxCompatError):
            file_result(content, {"x": x, "i": np.full_like(indices, far)}, tmp_path)


def test_indices_that_provably_fit_are_cast_alone(tmp_path: Path) -> None:
    """The bounds come from int32 and the indices from a kernel that counts, so no clamp is written before the cast."""
    nodes = [
        helper.make_node("Cast", ["s"], ["start"], to=TensorProto.INT64),
        helper.make_node("Slice", ["x", "start", "end"], ["part"]),
        helper.make_node("ArgMax", ["part"], ["i"], axis=0, keepdims=1),
        helper.make_node("GatherElements", ["part", "i"], ["y"]),
    ]
    feed = {"x": X, "s": np.array([1], np.int32)}
    content = model(nodes, feed, {"end": np.array([MOST])})
    assert file_result(content, feed, tmp_path).tolist() == [4]
    main = fb.read(str(tmp_path / "m.tflite")).subgraphs[0]
    wide = {op.builtin for op in main.operators if "int64" in [main.tensors[i or 0].dtype for i in op.inputs]}
    assert wide and not {"MAXIMUM", "MINIMUM", "EQUAL"} & wide, wide


@pytest.mark.parametrize(("operator", "step"), [("ReduceMin", 1), ("ReduceMax", -1)])
def test_the_extreme_of_no_elements_is_clamped(operator: str, step: int, tmp_path: Path) -> None:
    """The elements come from int32, so they fit. The extreme of no elements is that of int64, and does not fit."""
    nodes = [
        helper.make_node("Cast", ["v"], ["wide"], to=TensorProto.INT64),
        helper.make_node(operator, ["wide"], ["end"], keepdims=1),
        helper.make_node("Slice", ["x", "start", "end", "axes", "step"], ["y"]),
    ]
    constants = {"start": np.array([0 if step > 0 else -1]), "axes": np.array([0]), "step": np.array([step])}
    for open_name in ("v", ""):
        feed = {"x": X, "v": np.array([2, 3], np.int32)}
        proto = onnx.load_from_string(model(nodes, feed, constants))
        if open_name:
            proto.graph.input[1].type.tensor_type.shape.dim[0].dim_param = "n"
        file = onnx_compat.convert(proto, tmp_path / "m.tflite", shim="tflite")
        main = fb.read(str(file)).subgraphs[0]
        wide = {op.builtin for op in main.operators if "int64" in [main.tensors[i or 0].dtype for i in op.inputs]}
        assert ({"MAXIMUM", "MINIMUM"} <= wide) == bool(open_name), wide
        for v in [[2, 3], *([[]] if open_name else [])]:
            feed = dict(feed, v=np.array(v, np.int32))
            expected = onnx_compat.run(proto, feed, shim="reference")[0]
            for result in (
                onnx_compat.load_converted(file).run(feed)[0],
                onnx_compat.run(proto, feed, shim="tflite")[0],
            ):
                np.testing.assert_array_equal(result, expected, err_msg=str(v))


def test_known_sizes_that_do_not_fit_are_refused(tmp_path: Path) -> None:
    content = model([helper.make_node("Tile", ["x", "s"], ["y"])], {"x": X}, {"s": np.array([2**32 + 1])})
    with pytest.raises(OnnxCompatError):
        onnx_compat.convert(content, tmp_path / "m.tflite", shim="tflite")


@pytest.mark.parametrize("upper", [0, 1])
def test_a_diagonal_far_away(upper: int) -> None:
    x = np.arange(1, 10, dtype=np.float32).reshape(3, 3)
    for offset in (5, -5, 2**31, -(2**31), 2**40, MOST, LEAST):
        content = model([helper.make_node("Trilu", ["x", "k"], ["y"], upper=upper)], {"x": x, "k": np.array(0)}, {})
        actual = onnx_compat.run(content, {"x": x, "k": np.array(offset)}, shim="tflite")[0]
        assert actual.any() == (bool(upper) == (offset < 0)), offset


@pytest.mark.parametrize("text", ["", "a", "ü"])
def test_a_string_alone(text: str, tmp_path: Path) -> None:
    """numpy stores an empty string as a zero byte, which the runtime would return as the text."""
    node = helper.make_node("Identity", ["x"], ["y"])
    x, y = (helper.make_tensor_value_info(name, TensorProto.STRING, []) for name in "xy")
    graph = helper.make_graph([node], "g", [x], [y])
    content = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 14)], ir_version=7).SerializeToString()
    for array in (np.array(text), np.array(text, object)):
        assert onnx_compat.run(content, {"x": array}, shim="tflite")[0].item() == text
        assert file_result(content, {"x": array}, tmp_path).item() == text
