"""Types and attributes that are written to protobuf: each is read back, or refused with the node that has it."""

from typing import Any, Dict

import numpy as np
import onnx
import pytest

from onnx_compat.errors import ConversionError, UnsupportedError
from onnx_compat.ir import dtypes
from onnx_compat.model import (
    Constant,
    MapType,
    OptionalType,
    SequenceType,
    TensorType,
    ValueInfo,
    extract,
    load,
    to_proto,
)
from onnx_compat.model.attributes import Empty
from onnx_compat.model.graph import Graph, GraphNode, Model
from onnx_compat.model.types import OpaqueType, SparseTensorType

FLOATS = TensorType(dtypes.float32, ("n",))


def one_node(attributes: Dict[str, Any], overload: str = "", kind: Any = FLOATS) -> Model:
    """Return a model of one custom operator."""
    node = GraphNode("Mine", ["x"], ["y"], attributes, "own", 1, "mine", overload)
    graph = Graph("g", [ValueInfo("x", kind)], [ValueInfo("y", kind)], [node])
    return Model(graph, {"": 17, "own": 1}, 8)


@pytest.mark.parametrize(
    "kind",
    [
        FLOATS,
        TensorType(None, None),
        SparseTensorType(dtypes.int64, (3, None)),
        SequenceType(FLOATS),
        SequenceType(None),
        OptionalType(FLOATS),
        OptionalType(SequenceType(FLOATS)),
        MapType(dtypes.string, FLOATS),
        MapType(dtypes.int64, None),
        OpaqueType("their.domain", "Handle"),
    ],
    ids=str,
)
def test_a_type_is_read_back(kind: Any) -> None:
    again = load(to_proto(one_node({}, kind=kind)))
    assert again.inputs[0].type == kind and again.outputs[0].type == kind


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (3, 3),
        (True, 1),
        (0.5, 0.5),
        ("text", "text"),
        (np.int64(4), 4),
        (np.float32(0.25), 0.25),
        ((1, 2), (1, 2)),
        ([1, 0.5], (1.0, 0.5)),
        (("a", "b"), ("a", "b")),
        (FLOATS, FLOATS),
        ((FLOATS, MapType(dtypes.int64, FLOATS)), (FLOATS, MapType(dtypes.int64, FLOATS))),
    ],
    ids=str,
)
def test_an_attribute_is_read_back(value: Any, expected: Any) -> None:
    """A list with a float has floats only: protobuf has a field for each type of a list."""
    (node,) = load(to_proto(one_node({"a": value}))).graph.nodes
    assert node.attributes["a"] == expected
    assert type(node.attributes["a"]) is type(expected)


def test_an_empty_list_keeps_the_type_of_its_elements() -> None:
    proto = to_proto(one_node({"a": Empty(onnx.AttributeProto.FLOATS)}))
    (attribute,) = proto.graph.node[0].attribute
    assert attribute.type == onnx.AttributeProto.FLOATS and not attribute.floats
    (node,) = load(proto).graph.nodes
    assert node.attributes["a"] == () and node.attributes["a"].kind == onnx.AttributeProto.FLOATS


def test_a_list_of_graphs_is_read_back() -> None:
    graphs = tuple(
        Graph(name, [], [ValueInfo("y", FLOATS)], [GraphNode("Neg", ["x"], ["y"], {}, "", 17, name)])
        for name in ("first", "second")
    )
    (node,) = load(to_proto(one_node({"bodies": graphs}))).graph.nodes
    assert [graph.name for graph in node.attributes["bodies"]] == ["first", "second"]
    assert [graph.nodes[0].operator for graph in node.attributes["bodies"]] == ["Neg", "Neg"]


@pytest.mark.parametrize("value", [object, (1, "a"), (object,)], ids=str)
def test_an_attribute_that_onnx_has_no_type_for_is_refused(value: Any) -> None:
    with pytest.raises(ConversionError, match="attribute 'a' cannot be written") as error:
        to_proto(one_node({"a": value}))
    assert error.value.node == "mine" and error.value.operator == "own::Mine"


def test_a_call_of_an_overload_is_refused() -> None:
    with pytest.raises(UnsupportedError, match="a call of overload 'wide' is not written") as error:
        to_proto(one_node({}, overload="wide"))
    assert error.value.node == "mine"


def test_a_part_without_nodes_keeps_the_version_of_the_model() -> None:
    model = one_node({})
    proto = extract(model, [], [ValueInfo("x", FLOATS)], [ValueInfo("x", FLOATS)])
    assert [(opset.domain, opset.version) for opset in proto.opset_import] == [("", 17)]


def test_a_copy_of_a_constant_survives_the_release_of_the_other() -> None:
    constant = Constant(np.float32([1, 2]), dtypes.float32, "c")
    copy = constant.copy()
    constant.release()
    assert copy.array.tolist() == [1, 2] and (copy.dtype, copy.name) == (dtypes.float32, "c")
    assert constant.array.tolist() == [1, 2]  # an array is kept; only the bytes of a file are dropped
