"""Inlining of the functions that a model defines."""

import pytest
from onnx import AttributeProto, FunctionProto, NodeProto, TensorProto, helper

from onnx_compat import limits
from onnx_compat.errors import InvalidModelError, LimitError, UnsupportedError
from onnx_compat.model import load

OPSET = helper.make_opsetid("", 17)
OWN = helper.make_opsetid("own", 1)


def tensor(name):
    return helper.make_tensor_value_info(name, TensorProto.FLOAT, [2])


def node(operator, inputs, outputs, **attributes):
    names = [[("" if name == "-" else name) for name in text.split()] for text in (inputs, outputs)]
    return helper.make_node(operator, *names, **attributes)


def call(operator, inputs, outputs, **attributes):
    return node(operator, inputs, outputs, domain="own", **attributes)


def refer(call_node, attribute, name, kind=AttributeProto.FLOAT):
    call_node.attribute.add(name=attribute, ref_attr_name=name, type=kind)
    return call_node


def function(name, inputs, outputs, nodes, attributes=(), opsets=(OPSET, OWN), **defaults):
    function_proto = helper.make_function(
        "own", name, inputs.split(), outputs.split(), nodes, list(opsets), list(attributes)
    )
    for key, value in defaults.items():  # as bytes of field 11: an old onnx lacks `attribute_proto`
        default = helper.make_attribute(key, value).SerializeToString()
        assert len(default) < 128
        function_proto.MergeFromString(bytes([11 << 3 | 2, len(default)]) + default)
    return function_proto


def load_with(functions, nodes, inputs=("x",), outputs=("y",)):
    graph = helper.make_graph(nodes, "g", [tensor(name) for name in inputs], [tensor(name) for name in outputs])
    proto = helper.make_model(graph, opset_imports=[OPSET, OWN], ir_version=9)
    proto.functions.extend(functions)
    return load(proto)


def describe_nodes(model):
    return [
        "%s(%s)->%s" % (call_node.operator, ",".join(call_node.inputs), ",".join(call_node.outputs))
        for call_node in model.graph.nodes
    ]


TWICE = function("Twice", "a", "b", [node("Add", "a a", "t"), node("Identity", "t", "b")])


def test_names_inside_are_new_for_each_call():
    model = load_with([TWICE], [call("Twice", "x", "m", name="one"), call("Twice", "m", "y")])
    assert describe_nodes(model) == [
        "Add(x,x)->one/t",
        "Identity(one/t)->m",
        "Add(m,m)->Twice_1/t",
        "Identity(Twice_1/t)->y",
    ]
    assert [inner.name for inner in model.graph.nodes][:2] == ["one/Add_0", "one/Identity_1"]
    assert model.functions == (("own", "Twice", ""),)
    with_used_name = load_with([TWICE], [node("Abs", "x", "one/t"), call("Twice", "one/t", "y", name="one")])
    assert describe_nodes(with_used_name)[1:] == ["Add(one/t,one/t)->one/t_1", "Identity(one/t_1)->y"]


def test_attributes():
    body = [refer(node("Elu", "a", "t"), "alpha", "slope"), refer(node("LeakyRelu", "t", "b"), "alpha", "other")]
    with_default = function("F", "a", "b", body, ["slope"], other=0.5)
    model = load_with([with_default], [call("F", "x", "m", slope=2.0), call("F", "m", "y", other=4.0)])
    assert [inner.attributes for inner in model.graph.nodes] == [{"alpha": 2.0}, {"alpha": 0.5}, {}, {"alpha": 4.0}]


def test_attributes_through_functions_of_functions():
    inner = function("Inner", "a", "b", [refer(node("Elu", "a", "b"), "alpha", "slope")], slope=3.0)
    outer = function("Outer", "a", "b", [refer(call("Inner", "a", "b"), "slope", "steep")], ["steep"])
    model = load_with([outer, inner], [call("Outer", "x", "m", steep=2.0), call("Outer", "m", "y")])
    assert [inner.attributes for inner in model.graph.nodes] == [{"alpha": 2.0}, {"alpha": 3.0}]
    assert [inner.name for inner in model.graph.nodes] == ["Outer_0/Inner_0/Elu_0", "Outer_1/Inner_0/Elu_0"]


def test_optional_inputs_and_outputs():
    clip_and_abs = function("F", "a b", "p q", [node("Clip", "a b", "p"), node("Abs", "a", "q")])
    model = load_with([clip_and_abs], [call("F", "x", "- y", name="f")])
    assert describe_nodes(model) == ["Clip(x,)->f/p", "Abs(x)->y"]
    model = load_with([clip_and_abs], [call("F", "x x", "y", name="f")])
    assert describe_nodes(model) == ["Clip(x,x)->y", "Abs(x)->f/q"]


def test_outputs_that_are_inputs_or_come_twice():
    repeated_output = function("F", "a", "a t t", [node("Abs", "a", "t")])
    model = load_with([repeated_output], [call("F", "x", "y z w")], outputs=("y", "z", "w"))
    assert describe_nodes(model) == ["Abs(x)->z", "Identity(x)->y", "Identity(z)->w"]
    assert model.graph.nodes[1].opset == 17


def test_subgraphs_of_a_body():
    branch = helper.make_graph([refer(node("Elu", "a", "b"), "alpha", "slope")], "branch", [], [tensor("b")])
    loop = helper.make_graph(  # its input has the name of an input of the function
        [node("Add", "a t", "o"), node("Identity", "i", "go_on")],
        "loop",
        [tensor("n"), helper.make_tensor_value_info("i", TensorProto.BOOL, []), tensor("a")],
        [helper.make_tensor_value_info("go_on", TensorProto.BOOL, []), tensor("o")],
    )
    body = [
        node("If", "c", "b", then_branch=branch, else_branch=branch),
        node("Abs", "b", "t"),
        node("Loop", "- c a", "r", body=loop),
    ]
    control_flow = function("F", "c a", "b r", body, ["slope"])
    model = load_with([control_flow], [call("F", "c x", "y z", name="f", slope=2.0)], ("c", "x"), ("y", "z"))
    choose, _, repeat = model.graph.nodes
    (inside,) = choose.attributes["then_branch"].nodes
    assert (inside.inputs, inside.attributes, inside.opset) == (("x",), {"alpha": 2.0}, 17)
    assert choose.outputs == ("y",) and choose.captures() == ["x"]
    assert repeat.captures() == ["f/t"] and repeat.inputs == ("", "c", "x")
    loop_body = repeat.attributes["body"]
    assert loop_body.nodes[0].inputs == (loop_body.inputs[2].name, "f/t") and loop_body.inputs[2].name != "x"


def test_a_subgraph_of_a_body_reads_a_later_node():
    """The nodes of a body can be in any order, also inside of a subgraph."""
    inner = helper.make_graph(
        [node("Add", "late inner_late", "o"), node("Abs", "late", "inner_late")], "b", [], [tensor("o")]
    )
    body = [node("If", "c", "b", then_branch=inner, else_branch=inner), node("Neg", "a", "late")]
    model = load_with([function("F", "c a", "b", body)], [call("F", "c x", "y", name="f")], ("c", "x"))
    assert describe_nodes(model) == ["Neg(x)->f/late", "If(c)->y"]
    for branch in model.graph.nodes[1].subgraphs():
        first, second = branch.nodes
        assert (first.operator, first.inputs, second.inputs) == ("Abs", ("f/late",), ("f/late", *first.outputs))


def test_calls_in_subgraphs_and_graphs_as_attributes():
    branch = helper.make_graph([call("Twice", "x", "z", name="deep")], "branch", [], [tensor("z")])
    choose = refer(
        refer(node("If", "c", "b"), "then_branch", "then", AttributeProto.GRAPH),
        "else_branch",
        "then",
        AttributeProto.GRAPH,
    )
    function_proto = function("F", "c", "b", [choose], ["then"])
    model = load_with([TWICE, function_proto], [call("F", "c", "y", then=branch)], ("c", "x"))
    (if_node,) = model.graph.nodes
    assert [inner.operator for inner in if_node.attributes["then_branch"].nodes] == ["Add", "Identity"]
    assert if_node.captures() == ["x"]


def test_copies_can_be_released_on_their_own():
    weights = helper.make_tensor("w", TensorProto.FLOAT, [2], [1, 2])
    branch = helper.make_graph([node("Identity", "w", "z")], "branch", [], [tensor("z")], [weights])
    body = [
        node("Constant", "", "k", value=weights),
        refer(node("Constant", "", "l"), "value", "given", AttributeProto.TENSOR),
        node("If", "c", "b", then_branch=branch, else_branch=branch),
        refer(node("If", "c", "d"), "then_branch", "branch", AttributeProto.GRAPH),
        node("Sum", "k l b d", "s"),
    ]
    function_proto = function("F", "c", "s", body, ["given", "branch"])
    calls = [call("F", "c", out, given=weights, branch=branch) for out in ("y", "z")]
    nodes = load_with([function_proto], calls, ("c",), ("y", "z")).graph.nodes
    stored = [constant.attributes["value"] for constant in nodes if constant.operator == "Constant"]
    for choose in (candidate for candidate in nodes if candidate.operator == "If"):
        stored += [initializer for graph in choose.subgraphs() for initializer in graph.initializers.values()]
    assert len(stored) == 10
    for tensor_copy in stored:
        assert (tensor_copy.array() if callable(tensor_copy.array) else tensor_copy.array).tolist() == [1, 2]
        tensor_copy.release()
    inner = [inner_node.name for node in nodes for graph in node.subgraphs() for inner_node in graph.nodes]
    assert len(set(inner)) == len(inner) == 6


def test_opsets_of_functions_stay():
    old = function("Old", "a", "b", [node("Softmax", "a", "b")], opsets=[helper.make_opsetid("", 11)])
    model = load_with([old], [call("Old", "x", "m"), node("Softmax", "m", "y")])
    assert [softmax.opset for softmax in model.graph.nodes] == [11, 17]
    new = function("New", "a", "b", [node("Abs", "a", "b")], opsets=[helper.make_opsetid("", 29)])
    with pytest.raises(UnsupportedError, match="opset 29"):
        load_with([new], [call("New", "x", "y")])
    lost = function("Lost", "a", "b", [node("Abs", "a", "b", domain="nowhere")])
    with pytest.raises(InvalidModelError, match="'nowhere'"):
        load_with([lost], [call("Lost", "x", "y")])


def test_overloads():
    """The model is written as bytes, because an old onnx cannot create overloads."""

    def with_overload(message, number, name):
        return type(message).FromString(message.SerializeToString() + bytes([number << 3 | 2, len(name)]) + name)

    first = with_overload(function("F", "a", "b", [node("Abs", "a", "b")]), 13, b"one")
    second = with_overload(function("F", "a", "b", [node("Neg", "a", "b")]), 13, b"two")
    calls = [with_overload(call("F", "x", "m"), 8, b"two"), with_overload(call("F", "m", "y"), 8, b"one")]
    assert isinstance(first, FunctionProto) and isinstance(calls[0], NodeProto)
    assert [inner.operator for inner in load_with([first, second], calls).graph.nodes] == ["Neg", "Abs"]


def test_a_function_in_place_of_a_standard_operator():
    function_proto = helper.make_function("ai.onnx", "Relu", ["a"], ["b"], [node("Abs", "a", "b")], [OPSET])
    assert describe_nodes(load_with([function_proto], [node("Relu", "x", "y")])) == ["Abs(x)->y"]


def test_recursion_is_refused():
    first = function("First", "a", "b", [call("Second", "a", "b")])
    second = function("Second", "a", "b", [call("First", "a", "b")])
    with pytest.raises(InvalidModelError, match="own::First -> own::Second -> own::First"):
        load_with([first, second], [call("First", "x", "y")])
    load_with([first, second], [node("Abs", "x", "y")])


def test_bodies_that_grow_without_bounds_are_refused():
    many = [function("F0", "a", "b", [node("Abs", "a", "b")])]
    for level in range(1, 40):
        inner = "F%d" % (level - 1)
        many.append(function("F%d" % level, "a", "b", [call(inner, "a", "t"), call(inner, "t", "b")]))
    with limits.override(inlined=10000), pytest.raises(LimitError, match="10000"):
        load_with(many, [call("F39", "x", "y")])
    deep = [function("F0", "a", "b", [node("Abs", "a", "b")])]
    deep += [function("F%d" % level, "a", "b", [call("F%d" % (level - 1), "a", "b")]) for level in range(1, 100)]
    with pytest.raises(UnsupportedError, match="more than 64 deep"):
        load_with(deep, [call("F99", "x", "y")])


def test_calls_that_do_not_fit():
    for inputs, outputs in (("x x", "y"), ("x", "y z")):
        with pytest.raises(InvalidModelError, match="takes 1 inputs and gives 1 outputs") as caught:
            load_with([TWICE], [call("Twice", inputs, outputs, name="n")])
        assert caught.value.node == "n"
    with pytest.raises(InvalidModelError, match="two functions own::Twice"):
        load_with([TWICE, TWICE], [call("Twice", "x", "y")])
    undefined = function("F", "a", "b", [node("Add", "a nothing", "b")])
    with pytest.raises(InvalidModelError, match="nothing"):
        load_with([undefined], [call("F", "x", "y")])
