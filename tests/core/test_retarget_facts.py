"""Facts for rules: defaults of inputs, types of optionals, training graphs, and what a composed node keeps."""

from typing import Any, Dict, List

import numpy as np
import onnx
import pytest
from building import FLOAT, INT64, model, node, require_opset, value
from onnx import TensorProto, helper, numpy_helper

import onnx_compat
from onnx_compat.errors import UnsupportedError
from onnx_compat.retarget.conversion import plan, retarget
from onnx_compat.retarget.outcomes import COMPOSED

X = np.linspace(-1, 1, 24, dtype=np.float32)


@pytest.fixture(autouse=True)
def new_onnx() -> None:
    require_opset(21)


def run(proto: Any, **feed: Any) -> Any:
    return onnx_compat.run(proto, feed, shim="reference")


def names(ports: Any) -> List[str]:
    return [port.name for port in ports]


def reshape_model(ir_version: int = 8) -> Any:
    """Return a model whose shapes depend on the default of an input."""
    nodes = [node("Reshape", ["x", "s"], ["h"]), node("Softmax", ["h"], ["y"], axis=1)]
    ports = [value("x", [24]), value("s", [3], INT64)]
    proto = model(nodes, ports, [value("y", [None] * 3)], {"s": np.asarray([2, 12, 1])}, 11)
    proto.ir_version = ir_version
    return proto


def test_a_default_that_decides_a_shape_is_fixed() -> None:
    proto = reshape_model()
    result = retarget(proto, 13)
    assert names(result.graph.input) == ["x"]
    np.testing.assert_allclose(run(result, x=X)[0], run(proto, x=X)[0], 1e-6)
    assert "no inputs any more, but fixed to their defaults: s" in plan(proto, 13).notes


def test_a_default_of_an_old_file_is_a_constant() -> None:
    written = plan(reshape_model(3), 13)
    assert written.counts[COMPOSED] == 0
    assert not any("fixed" in note for note in written.notes)


def test_a_fixed_default_is_fixed_for_every_reader() -> None:
    nodes = [node("Clip", ["x", "lo"], ["h"]), node("Add", ["h", "lo"], ["y"])]
    proto = model(nodes, [value("x", [24]), value("lo", [])], [value("y", [24])], {"lo": np.float32(0.5)}, 13)
    result = retarget(proto, 9)
    assert names(result.graph.input) == ["x"]
    np.testing.assert_allclose(run(result, x=X)[0], run(proto, x=X)[0])
    assert "no inputs any more, but fixed to their defaults: lo" in plan(proto, 9).notes


def test_defaults_that_no_rule_needs_stay_inputs() -> None:
    nodes = [node("Mul", ["x", "w"], ["h"]), node("Clip", ["h", "lo"], ["y"]), node("Dropout", ["y", "r"], ["z"])]
    ports = [value("x", [24]), value("w", [24]), value("lo", []), value("r", [])]
    constants = {"w": 2 * X, "lo": np.float32(0), "r": np.float32(0.5)}
    proto = model(nodes, ports, [value("z", [24])], constants, 13)
    result = retarget(proto, 9)
    assert names(result.graph.input) == ["x", "w", "r"]
    np.testing.assert_allclose(run(result, x=X, w=X)[0], run(proto, x=X, w=X)[0])


def test_a_needed_default_is_found_through_nodes() -> None:
    nodes = [node("Concat", ["k", "one"], ["axes"], axis=0), node("Squeeze", ["x", "axes"], ["y"])]
    ports = [value("x", [1, 1, 24]), value("k", [1], INT64), value("unused", [1], INT64)]
    constants = {"k": np.asarray([0]), "one": np.asarray([1]), "unused": np.asarray([3])}
    nodes.append(node("Identity", ["unused"], ["z"]))
    proto = model(nodes, ports, [value("y", [24]), value("z", [1], INT64)], constants, 13)
    result = retarget(proto, 11)
    assert names(result.graph.input) == ["x", "unused"]
    assert [entry.op_type for entry in result.graph.node] == ["Squeeze", "Identity"]


def test_a_needed_default_is_found_through_a_loop() -> None:
    nodes = [node("Softmax", ["e"], ["f"], axis=1), node("Identity", ["c"], ["d"])]
    flags = [value(name, [], TensorProto.BOOL) for name in "cd"]
    ports = [value("i", [], INT64), flags[0], value("e", [2, 12, 1])]
    body = helper.make_graph(nodes, "body", ports, [flags[1], value("f", [2, 12, 1])])
    proto = reshape_model()
    proto.graph.node[1].CopyFrom(node("Loop", ["n", "", "h"], ["y"], body=body))
    proto.graph.initializer.append(numpy_helper.from_array(np.asarray(2), "n"))
    result = retarget(proto, 13)
    assert names(result.graph.input) == ["x"]
    np.testing.assert_allclose(run(result, x=X)[0], run(proto, x=X)[0], 1e-6)


def optional_port(name: str, element: int = FLOAT) -> Any:
    tensor = helper.make_tensor_type_proto(element, [2])
    return helper.make_value_info(name, helper.make_optional_type_proto(tensor))


@pytest.mark.parametrize(
    ("nodes", "ports"),
    [
        ([node("Identity", ["o"], ["y"], name="it")], [optional_port("o")]),
        ([node("Optional", ["x"], ["o"]), node("Identity", ["o"], ["y"], name="it")], [value("x", [2])]),
    ],
    ids=["input", "value"],
)
def test_an_optional_is_no_tensor(nodes: Any, ports: Any) -> None:
    proto = model(nodes, ports, [optional_port("y")], opset=16)
    with pytest.raises(
        UnsupportedError, match=r"Identity takes no optional\(tensor\(float\)\)|Optional begins with version 15"
    ):
        retarget(proto, 13)


def training_model(built: Any, constants: Dict[str, Any]) -> Any:
    """Return a model with an algorithm that reads a value of the main graph, and its own constants."""
    proto = model([node("Relu", ["x"], ["h"])], [value("x", [2, 3])], [value("h", [2, 3])], opset=18)
    info = proto.training_info.add()
    info.initialization.name, info.algorithm.name = "initialization", "algorithm"
    info.initialization.node.append(node("Constant", [], ["axes"], value_ints=[1]))
    info.initialization.node.append(node("ReduceMax", ["seed", "axes"], ["start"]))
    info.initialization.initializer.append(numpy_helper.from_array(np.ones((2, 3), np.float32), "seed"))
    info.algorithm.node.extend(built)
    info.algorithm.output.append(value("next"))
    for name, array in constants.items():
        info.algorithm.initializer.append(numpy_helper.from_array(array, name))
    return proto


def test_training_graphs_are_rewritten_and_composed() -> None:
    built = [node("ReduceMax", ["h", "k"], ["m"]), node("Mish", ["m"], ["next"])]
    result = retarget(training_model(built, {"k": np.asarray([1])}), 17)
    info = result.training_info[0]
    assert {entry.op_type for entry in info.initialization.node} == {"ReduceMax"}
    assert not {"Mish"} & {entry.op_type for entry in info.algorithm.node}
    reductions = [entry for graph in (info.initialization, info.algorithm) for entry in graph.node]
    assert [len(entry.input) for entry in reductions if entry.op_type == "ReduceMax"] == [1, 1]
    assert not result.graph.initializer  # constants of training graphs are their own
    combined = model([*result.graph.node, *info.algorithm.node], result.graph.input, [value("next")], opset=17)
    source = model(
        [node("Relu", ["x"], ["h"]), *built], [value("x", [2, 3])], [value("next")], {"k": np.asarray([1])}, 18
    )
    x = X[:6].reshape(2, 3)
    np.testing.assert_allclose(run(combined, x=x)[0], run(source, x=x)[0], 1e-5)


def test_training_that_cannot_be_written_is_left_out() -> None:
    proto = training_model([node("ReduceMax", ["unknown", "k"], ["next"], name="it")], {"k": np.asarray([1])})
    proto.training_info[0].algorithm.node[0].input[1] = "elsewhere"
    assert not retarget(proto, 17).training_info
    assert any("training information is left out: its node 'it' (ReduceMax)" in note for note in plan(proto, 17).notes)


def test_a_composed_node_keeps_its_descriptions() -> None:
    built = node("Mish", ["x"], ["y"], name="act", doc_string="text")
    built.metadata_props.add(key="namespace", value="net/act")
    if hasattr(built, "device_configurations"):
        built.device_configurations.add(configuration_id="two")
    proto = model([built], [value("x", [2])], [value("y", [2])], opset=18)
    result = retarget(proto, 17)
    last = result.graph.node[-1]
    assert (last.doc_string, last.metadata_props[0].value) == ("text", "net/act")
    if hasattr(built, "device_configurations"):
        assert "the device configurations of 'act' are left out: it is composed" in plan(proto, 17).notes


def test_types_in_attributes_count(tmp_path: Any) -> None:
    four = TensorProto.INT4
    tensors = onnx.AttributeProto(name="many", type=onnx.AttributeProto.TENSORS)
    tensors.tensors.append(TensorProto(data_type=four, dims=[2], raw_data=b"\0"))
    typed = onnx.AttributeProto(name="kind", type=onnx.AttributeProto.TYPE_PROTO)
    typed.tp.CopyFrom(helper.make_tensor_type_proto(four, [2]))
    quantized = node("QuantizeLinear", ["x", "s"], ["q"], name="it", output_dtype=four)
    for attribute in (None, tensors, typed):
        built = quantized
        if attribute is not None:
            built = node("Custom", ["x"], ["q"], domain="my", name="it")
            built.attribute.append(attribute)
        nodes = [built, node("DequantizeLinear", ["q", "s"], ["y"])]
        opsets = [helper.make_opsetid("my", 1)]
        proto = model(nodes, [value("x", [2])], [value("y", [2])], {"s": np.float32(1)}, 21, opsets)
        proto.ir_version = 10
        with pytest.raises(UnsupportedError, match=r"'it'.*int4, which begins with IR version 10"):
            onnx_compat.convert(proto, tmp_path / "o.onnx", ir_version=8)


def test_initializers_of_nested_subgraphs_become_constants() -> None:
    def branch(name: str, built: Any) -> Any:
        weight = numpy_helper.from_array(np.asarray([1, 2], np.float32), "w_" + name)
        return helper.make_graph([built], name, [], [value(built.output[0], [2])], [weight])

    def choice(name: str, depth: int) -> Any:
        if not depth:
            return node("Add", ["x", "w_" + name], ["r_" + name])
        parts = {
            part: branch(name + part[0], choice(name + part[0], depth - 1)) for part in ("then_branch", "else_branch")
        }
        return node("If", ["c"], ["r_" + name], **parts)

    built = choice("m", 3)
    ports = [value("x", [2]), value("c", [], TensorProto.BOOL)]
    proto = model([built], ports, [value("r_m", [2])], opset=13)
    result = retarget(proto, 8)
    assert b"w_mttt" in result.SerializeToString()
    onnx.checker.check_model(result)
    pending = [result.graph]
    while pending:
        graph = pending.pop()
        assert graph is result.graph or not graph.initializer
        pending += [attribute.g for entry in graph.node for attribute in entry.attribute if attribute.HasField("g")]
    x = np.asarray([5, 6], np.float32)
    for flag in (True, False):
        np.testing.assert_allclose(run(result, x=x, c=np.asarray(flag))[0], x + np.asarray([1, 2]))


def test_denotations_of_sizes_stay(tmp_path: Any) -> None:
    proto = model([node("Relu", ["x"], ["y"])], [value("x", ["n", 3]), value("u", ["n"])], [value("y", ["n", 3])])
    proto.graph.input[0].type.tensor_type.shape.dim[0].denotation = "DATA_BATCH"
    written = onnx.load(str(onnx_compat.convert(proto, tmp_path / "o.onnx", shapes={"x": (2, 3)})))
    dims = written.graph.input[0].type.tensor_type.shape.dim
    assert [(dim.dim_value, dim.denotation) for dim in dims] == [(2, "DATA_BATCH"), (3, "")]


def test_fields_that_onnx_does_not_know_stay() -> None:
    extra = {"varint": b"\xb8\x3e\x07", "content": b"\xba\x3e\x02ab", "fixed": b"\xbd\x3e\x01\x00\x00\x00"}  # field 999
    proto = model([node("Relu", ["x"], ["y"])], [value("x", [2])], [value("y", [2])], {"w": np.float32(1)}, 13)
    for message, content in zip((proto, proto.graph, proto.graph.initializer[0]), extra.values()):
        message.MergeFromString(content)
    for source in (proto, proto.SerializeToString()):
        result = retarget(source, 12)
        for message, content in zip((result, result.graph, result.graph.initializer[0]), extra.values()):
            assert content in message.SerializeToString()
        assert extra["varint"] in result.SerializeToString().replace(result.graph.SerializeToString(), b"")


def test_a_model_without_ai_onnx_is_composed() -> None:
    keys, values = (numpy_helper.from_array(np.asarray(numbers, np.int64), "t") for numbers in ([1, 2], [20, 30]))
    default = numpy_helper.from_array(np.asarray([7]), "t")
    attributes = {"keys_tensor": keys, "values_tensor": values, "default_tensor": default}
    built = node("LabelEncoder", ["x"], ["y"], domain="ai.onnx.ml", **attributes)
    ports = [[value(name, [3], INT64)] for name in "xy"]
    proto = model([built], *ports, opset=21, extra_opsets=[helper.make_opsetid("ai.onnx.ml", 4)])
    del proto.opset_import[0]
    result = retarget(proto, 13)
    assert {entry.domain: entry.version for entry in result.opset_import} == {"": 13, "ai.onnx.ml": 2}
    onnx.checker.check_model(result)
    np.testing.assert_array_equal(run(result, x=np.asarray([2, 5, 1]))[0], [30, 7, 20])
