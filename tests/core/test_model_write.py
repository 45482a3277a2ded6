"""Writing models to protobuf: `to_proto` and `extract`."""

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
    else_branch = helper.make_graph([node("Add", "a v", "z")], "other", [], [tensor("z")])
    nodes = [
        node("Relu", "x", "a"),
        node("If", "c", "b", then_branch=branch, else_branch=else_branch),
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


def describe(graph):
    """Return the contents of a graph as values that can be compared."""

    def to_plain(value):
        if hasattr(value, "nodes"):
            return describe(value)
        if hasattr(value, "array"):
            return value.dtype, value.shape, value.array.tolist()
        return tuple(map(to_plain, value)) if type(value) is tuple else value

    return (
        graph.inputs,
        graph.outputs,
        {name: (initializer.type, initializer.array().tolist()) for name, initializer in graph.initializers.items()},
        [
            (
                graph_node.operator,
                graph_node.domain,
                graph_node.opset,
                graph_node.name,
                graph_node.inputs,
                graph_node.outputs,
                to_plain(tuple(graph_node.attributes.items())),
            )
            for graph_node in graph.nodes
        ],
    )


def test_a_written_model_loads_as_the_same_model():
    model = load(sample())
    proto = to_proto(model)
    onnx.checker.check_model(proto)
    assert proto.ir_version == 6 and [(opset.domain, opset.version) for opset in proto.opset_import] == [("", 11)]
    assert describe(load(proto).graph) == describe(model.graph)


def test_a_written_model_computes_the_same():
    onnxruntime = pytest.importorskip("onnxruntime")
    feeds = {"x": np.float32([[1, -2], [3, 4]]), "c": np.array(True)}

    def run(proto):
        session = onnxruntime.InferenceSession(proto.SerializeToString(), providers=["CPUExecutionProvider"])
        return session.run(None, feeds)[0]

    assert np.array_equal(run(to_proto(load(sample()))), run(sample()))


def test_extract_writes_some_nodes():
    model = load(sample())
    nodes = model.graph.nodes[1:3]
    inputs = [ValueInfo("c", TensorType(dtypes.bool_, ())), ValueInfo("a", TensorType(dtypes.float32, (None, 2)))]
    outputs = [ValueInfo("s", TensorType(dtypes.float32, (None,)))]
    proto = extract(model, nodes, inputs, outputs)
    onnx.checker.check_model(proto)
    part = load(proto)
    assert [graph_node.operator for graph_node in part.graph.nodes] == ["If", "ReduceSum"]
    assert set(part.graph.initializers) == {"w", "v"} and part.inputs == tuple(inputs)
    fed = extract(model, nodes, [*inputs, ValueInfo("w", TensorType(dtypes.float32, (2,)))], outputs)
    assert [initializer.name for initializer in fed.graph.initializer] == ["v"]
    assert [port.name for port in load(fed).inputs] == ["c", "a", "w"]
    with pytest.raises(InvalidModelError, match="'a'"):
        extract(model, nodes, inputs[:1], outputs)


def test_defaults_of_inputs_stay():
    proto = sample()
    proto.graph.input.add().CopyFrom(tensor("w", (2,)))
    written = to_proto(load(proto))
    assert [entry.name for entry in written.graph.input] == ["x", "c", "w"]
    assert sorted(entry.name for entry in written.graph.initializer) == ["v", "w"]


@pytest.mark.parametrize("dtype", dtypes.ALL, ids=str)
def test_every_type(dtype):
    values = np.array(["a", "b"], object) if dtype.kind == "s" else np.array([0, 1], dtype.numpy)
    if dtype is dtypes.float8e8m0:
        values = np.float32([1, 2])
    branch = helper.make_graph([node("Identity", "x", "y")], "g", [tensor("x")], [tensor("y")])
    model = load(helper.make_model(branch, opset_imports=[helper.make_opsetid("", 17)], ir_version=8))
    from onnx_compat.model import Constant
    from onnx_compat.model.graph import GraphNode

    constant = GraphNode("Constant", [], ["y"], {"value": Constant(values, dtype)}, "", 17, "c")
    proto = extract(model, [constant], [], [ValueInfo("y", TensorType(dtype, (2,)))])
    again = load(proto).graph.nodes[0].attributes["value"]
    assert again.dtype is dtype and again.array.dtype == dtype.numpy and again.array.tolist() == values.tolist()
    expected = {"int4": 10, "uint2": 13, "float8e8m0": 12, "float6e2m3": 14, "float4e2m1": 11, "float8e5m2": 9}
    assert proto.ir_version == expected.get(dtype.name, max(8, proto.ir_version))


def test_two_versions_of_a_domain_do_not_fit_in_one_model():
    proto = sample()
    proto.functions[0].opset_import[0].version = 13
    with pytest.raises(UnsupportedError, match="versions 11 and 13"):
        to_proto(load(proto))


def test_models_of_the_onnx_test_suite_load_again():
    import pathlib

    data = pathlib.Path(onnx.__file__).parent / "backend" / "test" / "data"
    for path in sorted(data.glob("**/*.onnx"))[::7]:
        model = load(path)
        if len({graph_node.opset for graph_node in model.graph.walk() if not graph_node.domain}) == 1:
            assert repr(describe(load(to_proto(model)).graph)) == repr(describe(model.graph)), path
