"""Models written from what was read."""

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from onnx_compat.errors import InvalidModelError, UnsupportedError
from onnx_compat.ir import dtypes
from onnx_compat.model import TensorType, ValueInfo, extract, load, to_proto


def tensor(name, shape=("n", 2)):
    return helper.make_tensor_value_info(name, TensorProto.FLOAT, shape)


def node(operator, inputs, outputs, **attributes):
    return helper.make_node(operator, inputs.split(), outputs.split(), **attributes)


def sample():
    branch = helper.make_graph([node("Mul", "a w", "z")], "branch", [], [tensor("z")])
    other = helper.make_graph([node("Add", "a v", "z")], "other", [], [tensor("z")])
    nodes = [
        node("Relu", "x", "a"),
        node("If", "c", "b", then_branch=branch, else_branch=other),
        node("ReduceSum", "b", "s", axes=[1], keepdims=0),
        node("Twice", "s", "y", domain="own"),
    ]
    weights = [numpy_helper.from_array(np.array([value, 1], np.float32), name) for name, value in (("w", 2), ("v", 3))]
    inputs = [tensor("x"), helper.make_tensor_value_info("c", TensorProto.BOOL, [])]
    graph = helper.make_graph(nodes, "g", inputs, [tensor("y", ("n",))], weights)
    opsets = [helper.make_opsetid("", 11), helper.make_opsetid("own", 1)]
    proto = helper.make_model(graph, opset_imports=opsets, ir_version=8)
    body = [node("Add", "p p", "q")]
    proto.functions.add().CopyFrom(helper.make_function("own", "Twice", ["p"], ["q"], body, opsets[:1]))
    return proto


def described(graph):
    """Everything of a graph, comparable."""

    def plain(value):
        if hasattr(value, "nodes"):
            return described(value)
        if hasattr(value, "array"):
            return value.dtype, value.shape, value.array.tolist()
        return tuple(map(plain, value)) if type(value) is tuple else value

    return (
        graph.inputs,
        graph.outputs,
        {name: (one.type, one.array().tolist()) for name, one in graph.initializers.items()},
        [
            (
                one.operator,
                one.domain,
                one.opset,
                one.name,
                one.inputs,
                one.outputs,
                plain(tuple(one.attributes.items())),
            )
            for one in graph.nodes
        ],
    )


def test_the_whole_comes_back():
    model = load(sample())
    proto = to_proto(model)
    onnx.checker.check_model(proto)
    assert proto.ir_version == 6 and [(one.domain, one.version) for one in proto.opset_import] == [("", 11)]
    assert described(load(proto).graph) == described(model.graph)


def test_it_computes_the_same():
    onnxruntime = pytest.importorskip("onnxruntime")
    feeds = {"x": np.float32([[1, -2], [3, 4]]), "c": np.array(True)}

    def run(proto):
        session = onnxruntime.InferenceSession(proto.SerializeToString(), providers=["CPUExecutionProvider"])
        return session.run(None, feeds)[0]

    assert np.array_equal(run(to_proto(load(sample()))), run(sample()))


def test_a_part():
    model = load(sample())
    nodes = model.graph.nodes[1:3]
    inputs = [ValueInfo("c", TensorType(dtypes.bool_, ())), ValueInfo("a", TensorType(dtypes.float32, (None, 2)))]
    outputs = [ValueInfo("s", TensorType(dtypes.float32, (None,)))]
    proto = extract(model, nodes, inputs, outputs)
    onnx.checker.check_model(proto)
    part = load(proto)
    assert [one.operator for one in part.graph.nodes] == ["If", "ReduceSum"]
    assert set(part.graph.initializers) == {"w", "v"} and part.inputs == tuple(inputs)
    fed = extract(model, nodes, [*inputs, ValueInfo("w", TensorType(dtypes.float32, (2,)))], outputs)
    assert [one.name for one in fed.graph.initializer] == ["v"] and [one.name for one in load(fed).inputs] == [
        "c",
        "a",
        "w",
    ]
    with pytest.raises(InvalidModelError, match="'a'"):
        extract(model, nodes, inputs[:1], outputs)


def test_defaults_of_inputs_stay():
    proto = sample()
    proto.graph.input.add().CopyFrom(tensor("w", (2,)))
    written = to_proto(load(proto))
    assert [one.name for one in written.graph.input] == ["x", "c", "w"]
    assert sorted(one.name for one in written.graph.initializer) == ["v", "w"]


@pytest.mark.parametrize("one", dtypes.ALL, ids=str)
def test_every_type(one):
    values = np.array(["a", "b"], object) if one.kind == "s" else np.array([0, 1], one.numpy)
    if one is dtypes.float8e8m0:
        values = np.float32([1, 2])
    branch = helper.make_graph([node("Identity", "x", "y")], "g", [tensor("x")], [tensor("y")])
    model = load(helper.make_model(branch, opset_imports=[helper.make_opsetid("", 17)], ir_version=8))
    from onnx_compat.model import Constant
    from onnx_compat.model.graph import GraphNode

    constant = GraphNode("Constant", [], ["y"], {"value": Constant(values, one)}, "", 17, "c")
    proto = extract(model, [constant], [], [ValueInfo("y", TensorType(one, (2,)))])
    again = load(proto).graph.nodes[0].attributes["value"]
    assert again.dtype is one and again.array.dtype == one.numpy and again.array.tolist() == values.tolist()
    expected = {"int4": 10, "uint2": 13, "float8e8m0": 12, "float6e2m3": 14, "float4e2m1": 11, "float8e5m2": 9}
    assert proto.ir_version == expected.get(one.name, max(8, proto.ir_version))


def test_two_versions_of_a_domain_do_not_fit_in_one_model():
    proto = sample()
    proto.functions[0].opset_import[0].version = 13
    with pytest.raises(UnsupportedError, match="versions 11 and 13"):
        to_proto(load(proto))


def test_recorded_models_come_back():
    import pathlib

    data = pathlib.Path(onnx.__file__).parent / "backend" / "test" / "data"
    for path in sorted(data.glob("**/*.onnx"))[::7]:
        model = load(path)
        if len({one.opset for one in model.graph.walk() if not one.domain}) == 1:
            assert repr(described(load(to_proto(model)).graph)) == repr(described(model.graph)), path
