"""Nodes that are written by a few other operators: with run-time sizes, and where a trace would give more nodes."""

from typing import Any, Dict, List

import numpy as np
import onnx
import pytest
from building import FLOAT, INT64, model, node, require_opset, value
from onnx import TensorProto, helper

import onnx_compat
from onnx_compat.errors import UnsupportedError
from onnx_compat.ir.dtypes import DType
from onnx_compat.retarget.conversion import plan, retarget

X = (np.arange(48, dtype=np.float32).reshape(1, 2, 4, 6) % 7) - 3


def agree(source: Any, target: int, feed: Dict[str, Any], exact: bool = True) -> Any:
    """Bring a model to a target, and assert that the checker accepts it and that the reference gives equal outputs."""
    result = retarget(source, target)
    onnx.checker.check_model(result, full_check=True)
    pairs = zip(*(onnx_compat.run(proto, feed, shim="reference") for proto in (result, source)))
    for got, want in pairs:
        np.testing.assert_allclose(got, want, rtol=0 if exact else 1e-5, atol=0 if exact else 1e-6)
    return result


def operators(proto: Any) -> List[str]:
    return [entry.op_type for entry in proto.graph.node]


RESIZES: List[Any] = [
    ({"mode": mode, "coordinate_transformation_mode": coordinates, **more}, bounds)
    for bounds in ({"scales": [1, 1, 1.5, 0.6]}, {"sizes": [1, 2, 3, 8]})
    for mode, more in (("nearest", {}), ("linear", {}), ("cubic", {"exclude_outside": 1}))
    for coordinates in ("half_pixel", "asymmetric", "align_corners", "half_pixel_symmetric", "pytorch_half_pixel")
]
RESIZES += [
    ({"axes": [3, 2], "nearest_mode": "floor"}, {"scales": [2, 0.5]}),
    ({"axes": [-1], "mode": "linear"}, {"scales": [1.7]}),
    ({"axes": [2, 3], "keep_aspect_ratio_policy": "not_larger"}, {"sizes": [7, 8]}),
    ({"axes": [2, 3], "keep_aspect_ratio_policy": "not_smaller", "mode": "linear"}, {"sizes": [7, 8]}),
]


@pytest.mark.parametrize("target", [9, 17])
@pytest.mark.parametrize(("attributes", "bounds"), RESIZES)
def test_the_scales_and_sizes_of_a_resize_may_be_inputs(attributes: Any, bounds: Any, target: int) -> None:
    require_opset(19)
    ((name, numbers),) = bounds.items()
    kind, dtype = (FLOAT, np.float32) if name == "scales" else (INT64, np.int64)
    inputs = ["x", "", "b"] if name == "scales" else ["x", "", "", "b"]
    ports = [value("x", [1, 2, "h", 6]), value("b", [len(numbers)], kind)]
    source = model([node("Resize", inputs, ["y"], **attributes)], ports, [value("y", [None] * 4)], opset=19)
    agree(source, target, {"x": X, "b": np.asarray(numbers, dtype)}, exact=False)


def test_a_resize_that_crops_to_scales_of_a_run_is_refused() -> None:
    require_opset(18)
    ports = [value("x", [1, 2, 4, 6]), value("b", [4])]
    roi = {"r": np.float32([0, 0, 0, 0, 1, 1, 1, 1])}
    resize = node("Resize", ["x", "r", "b"], ["y"], coordinate_transformation_mode="tf_crop_and_resize")
    with pytest.raises(UnsupportedError, match="must be known"):
        retarget(model([resize], ports, [value("y", [None] * 4)], roi, opset=18), 9)


def test_hard_swish_is_two_nodes() -> None:
    source = model([node("HardSwish", ["x"], ["y"])], [value("x", [1, 2, 4, 6])], [value("y", [1, 2, 4, 6])], opset=14)
    result = agree(source, 13, {"x": X}, exact=False)
    assert operators(result) == ["HardSigmoid", "Mul"]
    double = model(
        [node("HardSwish", ["x"], ["y"])], [value("x", [2], TensorProto.DOUBLE)], [value("y", [2], TensorProto.DOUBLE)], opset=14
    )  # fmt: skip
    assert "HardSigmoid" not in operators(retarget(double, 13))  # its attribute is no float64


def layer_normalization(shape: Any, axis: int = -1, inputs: int = 3, outputs: int = 1, dtype: int = FLOAT) -> Any:
    names, results = ["x", "s", "b"][:inputs], ["y", "m"][:outputs]
    sizes = [4, 6] if axis == 2 else [6]
    numbers = np.linspace(0.5, 1.5, np.prod(sizes)).reshape(sizes).astype(DType.of(dtype).numpy)
    constants = {name: numbers * factor for name, factor in zip(names[1:], (1, -2))}
    ports = [value(name, [None] * len(shape), dtype) for name in results]
    normal = node("LayerNormalization", names, results, axis=axis, epsilon=0.5)
    return model([normal], [value("x", shape, dtype)], ports, constants, opset=17)


def check_rows(source: Any, target: int, x: np.ndarray) -> List[str]:
    """Compare a model at a target with its source, and the shape of its result in onnxruntime. Return its operators."""
    result = agree(source, target, {"x": x}, exact=False)
    session = pytest.importorskip("onnxruntime").InferenceSession(result.SerializeToString())
    assert session.run(None, {"x": x})[0].shape == x.shape
    return operators(result)


@pytest.mark.parametrize("shape", [[1, 2, 4, 6], [1, "n", 4, 6], ["n", 2, 4, 6]])
@pytest.mark.parametrize(("axis", "inputs"), [(-1, 3), (3, 2), (2, 3)])
@pytest.mark.parametrize("target", [9, 13])
def test_layer_normalization_is_an_instance_normalization_of_rows(
    shape: Any, axis: int, inputs: int, target: int
) -> None:
    expected = ["Reshape", "InstanceNormalization", "Reshape", "Mul", "Add"][: inputs + 2]
    assert check_rows(layer_normalization(shape, axis, inputs), target, X) == expected
    if shape[0] == "n":
        check_rows(layer_normalization(shape, axis, inputs), target, X[:0])


@pytest.mark.parametrize(("target", "count"), [(9, 7), (13, 7), (15, 6)])
@pytest.mark.parametrize("sizes", [(2, 4), (2, 0), (0, 4)])
def test_layer_normalization_of_two_open_sizes_may_be_empty(target: int, count: int, sizes: Any) -> None:
    operators = check_rows(layer_normalization(["n", "m", 6]), target, np.resize(X, (*sizes, 6)))
    assert "InstanceNormalization" in operators
    assert len(operators) == count


@pytest.mark.parametrize(
    "source",
    [
        layer_normalization([1, 2, 4, "m"]),
        layer_normalization(["n", "m", 4, 6]),
        layer_normalization([1, 2, 4, 6], dtype=TensorProto.DOUBLE),
        layer_normalization([1, 2, 4, 6], outputs=2),
    ],
    ids=["open row", "two open sizes of rank 4", "float64", "the mean is read"],
)
def test_another_layer_normalization_is_composed_of_reductions(source: Any) -> None:
    dtype = DType.of(source.graph.input[0].type.tensor_type.elem_type).numpy
    result = agree(source, 13, {"x": X.astype(dtype)}, exact=False)
    assert "ReduceMean" in operators(result)
    assert "InstanceNormalization" not in operators(result)


@pytest.mark.parametrize(("bounds", "target"), [({"start": 1}, 13), ({"start": -3, "end": -1}, 9), ({"end": 2}, 11)])
def test_a_part_of_a_shape_is_two_nodes(bounds: Any, target: int) -> None:
    require_opset(15)
    source = model(
        [node("Shape", ["x"], ["y"], **bounds)], [value("x", ["n", 2, "h", 6])], [value("y", [None], INT64)], opset=15
    )
    result = agree(source, target, {"x": X})
    assert operators(result) == ["Shape", "Slice"]


@pytest.mark.parametrize("size", [6, 7, 2, 9])
def test_parts_of_an_unknown_size_are_slices(size: int) -> None:
    require_opset(18)
    outputs = ["a", "b", "c", "d"]
    split = node("Split", ["x"], outputs, axis=-1, num_outputs=4)
    source = model([split], [value("x", [2, "n"])], [value(name, [2, None]) for name in outputs], opset=18)
    for target in (9, 13):
        agree(source, target, {"x": np.arange(2 * size, dtype=np.float32).reshape(2, size)})


def test_reductions_of_run_time_axes_have_their_axes_as_inputs_from_opset_18_on() -> None:
    """ReduceMax takes bools from opset 20 on; at 18 it is composed."""
    require_opset(20)
    source = model(
        [node("ReduceMax", ["x", "a"], ["y"], keepdims=0)],
        [value("x", [2, 3], TensorProto.BOOL), value("a", [1], INT64)],
        [value("y", [None], TensorProto.BOOL)],
        opset=20,
    )
    for target in (18, 17):
        agree(source, target, {"x": np.eye(2, 3) > 0, "a": np.asarray([0])})


@pytest.mark.parametrize(
    ("size", "ceil_mode"),
    [(3, 0), (4, 1)],
    ids=["the last window begins in the padding", "the last window has elements"],
)
@pytest.mark.parametrize("operator", ["AveragePool", "MaxPool"])
def test_windows_in_the_padding_do_not_count(size: int, ceil_mode: int, operator: str) -> None:
    require_opset(22)
    pool = node(operator, ["x"], ["y"], kernel_shape=[2], strides=[3], pads=[0, 1], ceil_mode=1)
    source = model([pool], [value("x", [1, 1, size])], [value("y", [1, 1, size - 2])], opset=22)
    result = agree(source, 21, {"x": np.arange(size, dtype=np.float32).reshape(1, 1, size)})
    given = {entry.name: helper.get_attribute_value(entry) for entry in result.graph.node[0].attribute}
    assert given["ceil_mode"] == ceil_mode


def sequence_map(further: Any, opset: int = 17) -> Any:
    """Return a model that adds a further value to each tensor of a sequence, and doubles the sum."""
    body = helper.make_graph(
        [node("Add", ["e", "f"], ["sum"]), node("HardSwish", ["sum"], ["act"]), node("Add", ["sum", "sum"], ["twice"])],
        "body", [value("e"), value("f")], [value("twice"), value("act")],
    )  # fmt: skip
    nodes = [
        node("SequenceConstruct", ["x", "y"], ["s"]),
        node("SequenceMap", ["s", further], ["t", "u"], body=body, name="map"),
        node("ConcatFromSequence", ["t"], ["all"], axis=0),
        node("ConcatFromSequence", ["u"], ["acts"], axis=0),
    ]
    proto = model(nodes, [value("x", [2]), value("y", [3])], [value("all", [None]), value("acts", [None])], opset=opset)
    for name in ("s", "t", "u"):
        proto.graph.value_info.append(helper.make_tensor_sequence_value_info(name, FLOAT, None))
    return proto


@pytest.mark.parametrize("further", ["s", "one"])
def test_a_sequence_map_becomes_a_loop_whose_nodes_are_converted(further: str) -> None:
    require_opset(17)
    source = sequence_map(further)
    source.graph.initializer.append(onnx.numpy_helper.from_array(np.float32([10]), "one"))
    source.graph.value_info.append(value("one", [1]))
    result = agree(source, 13, {"x": np.float32([1, 2]), "y": np.float32([3, 4, 5])}, exact=False)
    (loop,) = [entry for entry in result.graph.node if entry.op_type == "Loop"]
    assert loop.name == "map"
    inner = {entry.op_type for entry in loop.attribute[0].g.node}
    assert "HardSwish" not in inner  # of opset 14
    assert any("'map' (SequenceMap): written as a Loop" in note for note in plan(source, 13).notes)
    assert "SequenceMap" in operators(retarget(source, 17))


def in_training(source: Any, main: Any) -> Any:
    """Return a model whose training graphs have the nodes of `source`; the algorithm reads values of the graph `main`."""
    proto = model([node("Relu", ["x"], ["h"])], [value("x", [2])], [value("h", [2])], opset=17)
    proto.graph.value_info.extend(main)
    info = proto.training_info.add()
    for graph, fed in ((info.initialization, "seed"), (info.algorithm, "h")):
        graph.name = "of " + fed
        graph.node.extend(source.graph.node)
        graph.node[0].input[:] = [fed, fed]
        graph.value_info.extend(source.graph.value_info)
        graph.output.extend(source.graph.output)
        graph.initializer.append(onnx.numpy_helper.from_array(np.float32([10, 20]), "one"))
    info.initialization.initializer.append(onnx.numpy_helper.from_array(np.float32([1, 2]), "seed"))
    return proto


@pytest.mark.parametrize("further", ["s", "one", "h"])
def test_a_sequence_map_of_a_training_graph_becomes_a_loop(further: str) -> None:
    require_opset(17)
    source = sequence_map(further)
    if further == "one":
        source.graph.value_info.append(value("one", [2]))
    proto = in_training(source, [value("h", [2])])
    if further == "h":  # the initialization has no value of the main graph
        proto.training_info[0].ClearField("initialization")
    result = retarget(proto, 13)
    (info,) = result.training_info
    assert sum("(SequenceMap): written as a Loop" in note for note in plan(proto, 13).notes) == 2 - (further == "h")
    for graph in (info.initialization, info.algorithm)[further == "h" :]:
        used = {entry.op_type for entry in graph.node}
        assert "Loop" in used and not used & {"SequenceMap", "HardSwish"}
    feed = {"x": np.float32([3, -4])}
    wanted, got = (
        onnx_compat.run(
            model([*graph.graph.node, *algorithm.node], [value("x", [2])], algorithm.output,
                  {"one": np.float32([10, 20])}, opset), feed, shim="reference",
        ) for graph, algorithm, opset in ((proto, proto.training_info[0].algorithm, 17), (result, info.algorithm, 13))
    )  # fmt: skip
    for name in ("all", "acts"):
        np.testing.assert_allclose(got[name], wanted[name], rtol=1e-6)


def test_a_training_graph_whose_sequence_map_has_no_types_is_left_out() -> None:
    require_opset(17)
    proto = in_training(sequence_map("one"), [])
    assert not retarget(proto, 13).training_info
    assert any(
        "training information is left out: its node 'map' (SequenceMap)" in note for note in plan(proto, 13).notes
    )


def test_values_of_one_name_in_two_branches_have_their_own_types() -> None:
    require_opset(17)
    branches = {}
    for name in ("then_branch", "else_branch"):
        source = sequence_map("g")
        first = node("SequenceConstruct" if name == "then_branch" else "Sum", ["x", "x"], ["g"])
        nodes = [source.graph.node[0], first, *source.graph.node[1:]]
        branches[name] = helper.make_graph(nodes, name, [], list(source.graph.output)[:1])
        branches[name].value_info.extend(source.graph.value_info)
        branches[name].value_info.append(
            helper.make_tensor_sequence_value_info("g", FLOAT, None) if name == "then_branch" else value("g", [2])
        )
    proto = model(
        [node("If", ["c"], ["joined"], **branches)],
        [value("c", [], TensorProto.BOOL), value("x", [2]), value("y", [2])], [value("joined", [None])], opset=17,
    )  # fmt: skip
    for condition in (True, False):
        agree(proto, 13, {"c": np.array(condition), "x": np.float32([1, 2]), "y": np.float32([3, 4])}, exact=False)


@pytest.mark.parametrize("further", ["s", "x"])
def test_a_sequence_map_of_a_function_gets_the_types_of_its_call(further: str) -> None:
    require_opset(17)
    source = sequence_map("g")
    imports = [helper.make_opsetid("", 17)]
    function = helper.make_function("own", "Map", ["q", "g"], ["t", "u"], [source.graph.node[1]], imports)
    function.node[0].input[0] = "q"
    source.graph.node[1].CopyFrom(node("Map", ["s", further], ["t", "u"], domain="own", name="call"))
    source.graph.input[1].type.tensor_type.shape.dim[0].dim_value = 2
    source.functions.append(function)
    source.opset_import.append(helper.make_opsetid("own", 1))
    source.graph.value_info.append(value("g", [2]))  # another value than that of the function
    agree(source, 13, {"x": np.float32([1, 2]), "y": np.float32([3, 4])}, exact=False)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("fmod", [0, 1])
def test_remainders_of_infinities_and_of_float64(dtype: Any, fmod: int) -> None:
    """Mod begins with opset 10: before, floats are divided step by step."""
    numbers = np.asarray([-np.inf, -7.5, -0.0, 0.0, 2.5, 1e30, np.inf, np.nan], dtype)
    kind = DType.of(np.dtype(dtype)).onnx
    if fmod == 0:
        require_opset(28)  # which defines Mod of floats by its sign
    opset = 28 if fmod == 0 else 13
    source = model(
        [node("Mod", ["x", "y"], ["z"], fmod=fmod)], [value("x", [8, 1], kind), value("y", [8], kind)],
        [value("z", [8, 8], kind)], opset=opset,
    )  # fmt: skip
    agree(source, 9, {"x": numbers[:, None], "y": numbers})
