"""`load` of valid models: graphs, types, initializers, metadata."""

import pathlib

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from onnx_compat.errors import InputError, UnsupportedError
from onnx_compat.ir import dtypes
from onnx_compat.model import (
    Constant,
    Empty,
    MapType,
    OptionalType,
    SequenceType,
    SparseTensorType,
    TensorType,
    ValueInfo,
    load,
    versions,
)


def tensor(name, shape=(2,), kind=TensorProto.FLOAT):
    return helper.make_tensor_value_info(name, kind, shape)


def model_of(nodes, inputs=("x",), outputs=("y",), opset=17, **graph):
    graph_proto = helper.make_graph(
        nodes, "g", [tensor(name) for name in inputs], [tensor(name) for name in outputs], **graph
    )
    return helper.make_model(graph_proto, opset_imports=[helper.make_opsetid("", opset)], ir_version=8)


def node(operator, inputs, outputs, **attributes):
    return helper.make_node(operator, inputs.split(), outputs.split(), **attributes)


def test_all_sources_give_the_same_model(tmp_path):
    weights = numpy_helper.from_array(np.ones(2, np.float32), "w")
    proto = model_of([node("Add", "x w", "y", name="sum")], initializer=[weights])
    proto.metadata_props.add(key="author", value="me")
    path = tmp_path / "m.onnx"
    onnx.save(proto, str(path))
    before = proto.SerializeToString()
    for source in (path, str(path), path.read_bytes(), bytearray(before), proto):
        model = load(source)
        assert (model.opset, model.opsets, model.ir_version, model.metadata) == (17, {"": 17}, 8, {"author": "me"})
        assert model.inputs == model.graph.inputs == (ValueInfo("x", TensorType(dtypes.float32, (2,))),)
        assert [port.name for port in model.outputs] == ["y"]
        (add,) = model.graph.nodes
        assert (add.name, add.operator, add.inputs, add.outputs, add.opset) == ("sum", "Add", ("x", "w"), ("y",), 17)
        assert model.graph.initializers["w"].array().tolist() == [1, 1]
        assert model.proto.graph.node[0].name == "sum"
        assert load(model) is model
    assert proto.SerializeToString() == before
    assert load(path).path == str(path) and load(proto).path is None
    for wrong in (3, None, onnx.GraphProto(), ["m.onnx"]):
        with pytest.raises(InputError, match="path of an"):
            load(wrong)


def test_attributes():
    inner = helper.make_graph([node("Identity", "x", "z")], "inner", [], [tensor("z")])
    custom = node(
        "Custom",
        "x",
        "y",
        domain="my.domain",
        f=1.5,
        i=-3,
        s="text",
        b=b"\xff\x00",
        floats=[1.0, 2.5],
        ints=[1, -(2**60)],
        strings=["a", "b"],
        t=numpy_helper.from_array(np.arange(3, dtype=np.int64), "t"),
        g=inner,
        graphs=[inner],
        tp=helper.make_tensor_type_proto(TensorProto.FLOAT, None),
    )
    custom.attribute.add(name="none", type=onnx.AttributeProto.INTS)
    proto = model_of([custom])
    proto.opset_import.add(domain="my.domain", version=0)
    (custom_node,) = load(proto).graph.nodes
    attributes = custom_node.attributes
    assert {key: attributes[key] for key in ("f", "i", "s", "b", "floats", "ints", "strings")} == {
        "f": 1.5,
        "i": -3,
        "s": "text",
        "b": b"\xff\x00",
        "floats": (1.0, 2.5),
        "ints": (1, -(2**60)),
        "strings": ("a", "b"),
    }
    assert (
        attributes["none"] == ()
        and isinstance(attributes["none"], Empty)
        and attributes["none"].kind == onnx.AttributeProto.INTS
    )
    assert (
        isinstance(attributes["t"], Constant)
        and attributes["t"].dtype is dtypes.int64
        and attributes["t"].array.tolist() == [0, 1, 2]
    )
    assert attributes["tp"] == TensorType(dtypes.float32, None)
    assert attributes["g"].free_names() == ("x",) and len(attributes["graphs"]) == 1
    assert (
        custom_node.captures() == ["x"]
        and [inner.operator for inner in load(proto).graph.walk()] == ["Custom"] + ["Identity"] * 2
    )
    assert (custom_node.domain, custom_node.opset) == ("my.domain", 0)


def test_attributes_of_the_first_files_have_no_types():
    transpose = node("Transpose", "x", "y", perm=[1, 0])
    transpose.attribute[0].ClearField("type")
    assert load(model_of([transpose])).graph.nodes[0].attributes == {"perm": (1, 0)}


def test_types():
    kinds = {
        "tensor": TensorType(dtypes.float16, (2, "n", None)),
        "unranked": TensorType(dtypes.string, None),
        "scalar": TensorType(dtypes.bool_, ()),
        "sparse": SparseTensorType(dtypes.float32, (3,)),
        "sequence": SequenceType(TensorType(dtypes.int64, ("n",))),
        "optional": OptionalType(SequenceType(TensorType(dtypes.int64, None))),
        "map": MapType(dtypes.int64, TensorType(dtypes.float32, None)),
        "nothing": None,
    }
    proto = model_of([node("Identity", "tensor", "y")], inputs=())
    from onnx_compat.model.write import _Writer

    proto.graph.input.extend(_Writer().value(name, kind) for name, kind in kinds.items())
    model = load(proto)
    assert {port.name: port.type for port in model.inputs} == kinds
    assert str(kinds["tensor"]) == "float16[2, n, ?]" and not kinds["tensor"].static and kinds["scalar"].static
    assert (kinds["tensor"].rank, kinds["unranked"].rank) == (3, None)
    assert str(kinds["optional"]) == "optional(sequence(int64[…]))" and str(kinds["map"]) == "map(int64, float32[…])"


def test_a_negative_size_is_an_unknown_one():
    proto = model_of([node("Identity", "x", "y")], inputs=())
    proto.graph.input.add().CopyFrom(tensor("x", (-1, 3)))
    assert load(proto).inputs[0].type == TensorType(dtypes.float32, (None, 3))


def test_a_size_named_with_a_question_mark_is_an_unknown_one():
    proto = model_of([node("Identity", "x", "y")], inputs=())
    proto.graph.input.add().CopyFrom(tensor("x", ("?", "?")))
    assert load(proto).inputs[0].type == TensorType(dtypes.float32, (None, None))


def test_defaults_of_inputs():
    weights = numpy_helper.from_array(np.ones(2, np.float32), "w")
    model = load(model_of([node("Add", "x w", "y")], inputs=("x", "w"), initializer=[weights]))
    assert [port.name for port in model.inputs] == ["x"]
    assert [port.name for port in model.graph.inputs] == ["x", "w"]


def test_nodes_are_sorted_only_where_they_must_be():
    proto = model_of([node("Neg", "b", "y"), node("Abs", "x", "side"), node("Relu", "x", "a"), node("Abs", "a", "b")])
    model = load(proto)
    assert [graph_node.operator for graph_node in model.graph.nodes] == ["Abs", "Relu", "Abs", "Neg"]
    assert [graph_node.name for graph_node in model.graph.nodes] == ["Abs_1", "Relu_2", "Abs_3", "Neg_0"]
    inner = helper.make_graph([node("Identity", "late", "z")], "inner", [], [tensor("z")])
    choose = node("If", "c", "y", then_branch=inner, else_branch=inner)
    proto = model_of([choose, node("Abs", "x", "late")], inputs=("x", "c"))
    assert [graph_node.operator for graph_node in load(proto).graph.nodes] == ["Abs", "If"]


def test_names_of_nodes_are_made_unique():
    proto = model_of([node("Abs", "x", "a", name="n"), node("Abs", "a", "b", name="n"), node("Abs", "b", "y")])
    assert [graph_node.name for graph_node in load(proto).graph.nodes] == ["n", "n_1", "Abs_2"]


def test_uses_are_counted_through_subgraphs():
    deep = helper.make_graph([node("Add", "x a", "z")], "deep", [], [tensor("z")])
    inner = helper.make_graph([node("If", "c", "w", then_branch=deep, else_branch=deep)], "inner", [], [tensor("w")])
    proto = model_of(
        [node("Abs", "x", "a"), node("If", "c", "b", then_branch=inner, else_branch=deep), node("Add", "b b", "y")],
        inputs=("x", "c"),
        outputs=("y", "a"),
    )
    graph = load(proto).graph
    assert dict(graph.consumers()) == {"x": 3, "a": 3, "c": 2, "b": 2, "y": 1}
    assert graph.free_names() == () and graph.nodes[1].captures() == ["x", "a", "c"]  # else_branch first
    assert load(proto).operators()[("", "If", 17)] == 2


def test_a_subgraph_may_hide_an_outer_name():
    inner = helper.make_graph([node("Abs", "x", "a")], "inner", [tensor("x")], [tensor("a")])
    proto = model_of([node("Scan", "x", "y", body=inner, num_scan_inputs=1)])
    assert load(proto).graph.nodes[0].captures() == []


def test_omitted_inputs_and_outputs():
    (clip,) = load(model_of([helper.make_node("Clip", ["x", "", "x"], ["y", ""])])).graph.nodes
    assert clip.inputs == ("x", "", "x") and clip.outputs == ("y", "")


def test_the_tables_of_versions():
    for onnx_release, ir, *opsets in helper.VERSION_TABLE:
        release = versions.release_of("", opsets[0])
        assert release is not None and release.ir <= ir and (release.ml == opsets[1] or onnx_release == "1.0"), (
            onnx_release
        )
    assert versions.NEWEST == {"": 28, "ai.onnx.ml": 5, "ai.onnx.preview.training": 1, "ai.onnx.preview": 1}
    assert versions.ir_for({"": 17}) == 8 and versions.ir_for({"": 7}) == 4 and versions.ir_for({"": 28}) == 14
    assert versions.ir_for({"": 7, "ai.onnx.ml": 5}) == 10 and versions.ir_for({"": 7}, [dtypes.int2]) == 13
    assert versions.ir_for({"mine": 99}) == 4 and versions.release_of("mine", 1) is None
    assert versions.release_of("ai.onnx", 21).onnx == "1.16.0" and versions.release_of("", 0) is None
    assert versions.reader_of({"": 17, "mine": 99}, 8).onnx == "1.12.0" and versions.reader_of({"": 29}, 8) is None
    assert versions.reader_of({"": 7, "ai.onnx.ml": 4}, 3).onnx == "1.15.0" and versions.reader_of({"": 7}, 99) is None
    assert versions.reader_of({"": 28}, 14).onnx == "1.23.0" and versions.reader_of({"": 7}, 13).onnx == "1.20.0"
    with pytest.raises(UnsupportedError, match="29"):
        versions.ir_for({"": 29})


def test_versions_are_those_of_the_newest_onnx():
    if onnx.defs.onnx_opset_version() >= versions.NEWEST[""]:
        newest = {}
        for schema in onnx.defs.get_all_schemas_with_history():
            newest[schema.domain] = max(newest.get(schema.domain, 0), schema.since_version)
        assert newest == versions.NEWEST and onnx.IR_VERSION == versions.NEWEST_IR


def test_models_of_the_onnx_test_suite_load():
    data = pathlib.Path(onnx.__file__).parent / "backend" / "test" / "data"
    paths = sorted(data.glob("**/*.onnx"))
    assert len(paths) > 100
    for path in paths:
        model = load(path)
        assert model.graph.nodes or model.graph.outputs
