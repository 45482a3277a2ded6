"""Errors of `load` for damaged or invalid models: each is an OnnxCompatError that locates the cause and says what to do."""

import numpy as np
import onnx
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from onnx import TensorProto, helper, numpy_helper

from onnx_compat.errors import InvalidModelError, OnnxCompatError, UnsupportedError
from onnx_compat.model import load


def tensor(name):
    return helper.make_tensor_value_info(name, TensorProto.FLOAT, [2])


def model_of(nodes, inputs=("x",), outputs=("y",), opset=17, ir=8, **graph):
    graph_proto = helper.make_graph(
        nodes, "g", [tensor(name) for name in inputs], [tensor(name) for name in outputs], **graph
    )
    return helper.make_model(graph_proto, opset_imports=[helper.make_opsetid("", opset)], ir_version=ir)


def node(operator, inputs, outputs, **attributes):
    return helper.make_node(operator, inputs.split(), outputs.split(), **attributes)


def check_refused(source, kind, *texts):
    """Assert that loading raises an error of this class whose text contains these words. Return the error."""
    with pytest.raises(kind) as caught:
        load(source)
    for text in texts:
        assert text in str(caught.value), str(caught.value)
    return caught.value


def valid_model():
    weights = numpy_helper.from_array(np.arange(40, dtype=np.float32), "w")
    inner = helper.make_graph([node("Add", "x w", "z")], "inner", [], [tensor("z")])
    sparse = onnx.SparseTensorProto(
        values=numpy_helper.from_array(np.ones(1, np.float32), "s"),
        indices=numpy_helper.from_array(np.zeros(1, np.int64)),
        dims=[3],
    )
    integers = helper.make_tensor("v", TensorProto.INT64, [3], [1, 300, -1])
    nodes = [
        node("Constant", "", "c", value=helper.make_tensor("", TensorProto.BOOL, [], [True])),
        node("If", "c", "a", then_branch=inner, else_branch=inner),
        node("Custom", "a v s", "y", domain="mine", ints=[1, 2], f=2.0, strings=["a"]),
    ]
    proto = model_of(nodes, initializer=[weights, integers], sparse_initializer=[sparse])
    function = helper.make_function(
        "mine", "Custom", ["p", "q", "r"], ["o"], [node("Add", "p q", "o")], [helper.make_opsetid("", 17)]
    )
    proto.functions.add().CopyFrom(function)
    proto.opset_import.add(domain="mine", version=1)
    return proto


VALID = valid_model().SerializeToString()


def test_files(tmp_path):
    assert "load" not in str(check_refused(tmp_path / "no.onnx", InvalidModelError, "does not exist", "no.onnx"))
    check_refused(tmp_path, InvalidModelError, "is not a file")
    (tmp_path / "empty.onnx").write_bytes(b"")
    check_refused(tmp_path / "empty.onnx", InvalidModelError, "empty")
    check_refused(b"", InvalidModelError, "empty")
    (tmp_path / "half.onnx").write_bytes(VALID[:-20])
    check_refused(tmp_path / "half.onnx", InvalidModelError, "damaged", "completely")
    (tmp_path / "text.onnx").write_text("hello, this is no model at all")
    check_refused(tmp_path / "text.onnx", InvalidModelError, "no ONNX model")
    check_refused(onnx.ModelProto(ir_version=8).SerializeToString(), InvalidModelError, "no graph")
    check_refused(onnx.ModelProto(), InvalidModelError, "empty")
    check_refused("a\0b", OnnxCompatError, "path")


def test_the_error_of_a_file_says_which_file(tmp_path):
    (tmp_path / "half.onnx").write_bytes(VALID[:-20])
    check_refused(tmp_path / "half.onnx", InvalidModelError, "half.onnx")


def test_versions():
    check_refused(model_of([node("Abs", "x", "y")], opset=29), UnsupportedError, "opset 29", "28", "update onnx-compat")
    proto = model_of([node("Abs", "x", "y")])
    proto.opset_import.add(domain="ai.onnx.ml", version=6)
    check_refused(proto, UnsupportedError, "opset 6 of ai.onnx.ml", "5")
    check_refused(model_of([node("Abs", "x", "y")], opset=0), InvalidModelError, "version 0")
    proto = model_of([node("Abs", "x", "y")])
    proto.opset_import.add(domain="ai.onnx", version=16)
    check_refused(proto, InvalidModelError, "versions 17 and 16")
    proto = model_of([node("Abs", "x", "y")])
    del proto.opset_import[:]
    check_refused(proto, InvalidModelError, "opset_import")
    proto.ir_version = 2
    assert load(proto).opset == 1
    proto.ClearField("ir_version")
    check_refused(proto, InvalidModelError, "IR version")


def test_a_later_file_format_without_unknown_fields_is_accepted():
    proto = model_of([node("Abs", "x", "y")], ir=99)
    assert load(proto).ir_version == 99
    field = b"\xa2\x06\x01x"  # number 100, a string
    check_refused(proto.SerializeToString() + field, UnsupportedError, "IR version 99", "Model field 100")
    proto.ir_version = 8
    assert load(proto.SerializeToString() + field).ir_version == 8


def test_domains():
    proto = model_of([node("Custom", "x", "y", domain="my.domain", name="c")])
    error = check_refused(proto, InvalidModelError, "'my.domain'", "opset_import")
    assert (error.node, error.operator) == ("c", "my.domain::Custom")
    proto.opset_import.add(domain="my.domain", version=3)
    assert load(proto).graph.nodes[0].opset == 3
    assert load(model_of([node("NoSuchOperator", "x", "y")])).graph.nodes[0].operator == "NoSuchOperator"


def test_graphs():
    cycle = [node("Add", "x c", "a", name="p"), node("Abs", "a", "b", name="q"), node("Abs", "b", "c", name="r")]
    error = check_refused(model_of([*cycle, node("Abs", "c", "y")]), InvalidModelError, "p -> q -> r -> p")
    assert error.node == "p"
    check_refused(model_of([node("Abs", "y", "y", name="self")]), InvalidModelError, "self -> self")
    error = check_refused(
        model_of([node("Add", "x w", "y", name="n")]), InvalidModelError, "'w'", "initializer", "node 'n'"
    )
    assert error.operator == "Add"
    check_refused(model_of([node("Abs", "x", "z")]), InvalidModelError, "output 'y'")
    check_refused(
        model_of([node("Abs", "x", "y"), node("Neg", "x", "y", name="n")]), InvalidModelError, "'y'", "Abs_0", "'n'"
    )
    check_refused(model_of([node("Abs", "x", "x"), node("Abs", "x", "y")]), InvalidModelError, "'x'", "input")
    check_refused(model_of([node("Abs", "x", "y")], inputs=("x", "x")), InvalidModelError, "two inputs", "'x'")
    check_refused(model_of([node("Abs", "x", "y")], inputs=("x", "")), InvalidModelError, "no name")
    check_refused(model_of([node("Abs", "x", "y")], outputs=()), InvalidModelError, "no outputs")
    weights = numpy_helper.from_array(np.ones(2, np.float32), "w")
    check_refused(
        model_of([node("Add", "x w", "y")], initializer=[weights] * 2), InvalidModelError, "two initializers", "'w'"
    )
    check_refused(model_of([node("", "x", "y")]), InvalidModelError, "no operator")


def test_subgraphs():
    inner = helper.make_graph([node("Add", "x missing", "z", name="deep")], "inner", [], [tensor("z")])
    proto = model_of([node("If", "x", "y", then_branch=inner, else_branch=inner)])
    check_refused(proto, InvalidModelError, "'missing'", "node 'deep'")
    inner = helper.make_graph([node("Identity", "y", "z")], "inner", [], [tensor("z")])
    proto = model_of([node("If", "x", "y", then_branch=inner, else_branch=inner, name="choose")])
    check_refused(proto, InvalidModelError, "choose -> choose")


def test_attributes():
    custom = node("Abs", "x", "y", a=1, name="n")
    custom.attribute.add().CopyFrom(custom.attribute[0])
    assert check_refused(model_of([custom]), InvalidModelError, "'a' comes twice", "node 'n'").operator == "Abs"
    custom = node("Abs", "x", "y", name="n")
    custom.attribute.add(name="t", type=onnx.AttributeProto.TENSOR)
    check_refused(model_of([custom]), InvalidModelError, "'t' has no value")
    custom = node("Abs", "x", "y", name="n")
    custom.attribute.add(name="r", ref_attr_name="outer", type=onnx.AttributeProto.INT)
    check_refused(model_of([custom]), InvalidModelError, "'outer'", "function")
    custom = node("Abs", "x", "y", t=TensorProto(name="t", data_type=1, dims=[10**12]), name="n")
    check_refused(model_of([custom]), InvalidModelError, "node 'n'", "1000000000000")


def test_deep_nesting():
    def field(number, data):  # by hand: protobuf crashes when it writes this
        size, length = len(data), b""
        while size > 127:
            size, length = size >> 7, length + bytes([size & 127 | 128])
        return bytes([number << 3 | 2]) + length + bytes([size]) + data

    graph = b""
    for _ in range(5000):
        graph = field(1, field(4, b"If") + field(5, field(1, b"then_branch") + field(6, graph)))
    check_refused(field(7, graph), InvalidModelError, "nested more than 100 deep")


def try_to_load(data):
    """Load a model and decode its tensors. The only exception that may occur is an OnnxCompatError with a reason."""
    try:
        model = load(data)
    except OnnxCompatError as error:
        if not error.reason:
            raise
        return
    for initializer in model.graph.initializers.values():
        if initializer.nbytes < 1 << 20:
            assert initializer.array().shape == initializer.shape
    assert model.graph.consumers()


def test_the_valid_model_loads():
    model = load(VALID)
    assert [graph_node.operator for graph_node in model.graph.nodes] == ["Constant", "If", "Add"]


def test_every_truncation():
    for stop in range(len(VALID)):
        try_to_load(VALID[:stop])


@settings(max_examples=300, deadline=None)
@given(st.binary(max_size=200))
def test_random_bytes(data):
    try_to_load(data)


@settings(max_examples=1500, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(st.lists(st.tuples(st.integers(0, len(VALID) - 1), st.integers(0, 255)), min_size=1, max_size=4))
def test_bit_flips(changes):
    data = bytearray(VALID)
    for position, value in changes:
        data[position] ^= value
    try_to_load(bytes(data))


@settings(max_examples=300, deadline=None)
@given(st.integers(0, len(VALID)), st.integers(0, len(VALID)), st.binary(max_size=12))
def test_spliced_bytes(start, stop, middle):
    try_to_load(VALID[:start] + middle + VALID[stop:])
