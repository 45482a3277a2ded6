"""Functions of a model at other opsets: their own imports, calls that differ, functions that nothing calls."""

from typing import Any, Dict, List, Sequence

import numpy as np
import onnx
import pytest
from building import model, node, require_opset, value
from onnx import helper, numpy_helper

import onnx_compat
from onnx_compat.errors import UnsupportedError
from onnx_compat.retarget.conversion import plan, retarget
from onnx_compat.retarget.outcomes import COMPOSED

X = np.linspace(-1, 1, 6, dtype=np.float32).reshape(2, 3)
SCALE, BIAS = np.asarray([1, 2, 3], np.float32), np.asarray([4, 5, 9], np.float32)
MY = helper.make_opsetid("my", 1)


@pytest.fixture(autouse=True)
def new_onnx() -> None:
    require_opset(21)


def function(name: str, inputs: Sequence[str], nodes: Sequence[Any], opset: int, attributes: Sequence[str] = ()) -> Any:
    return helper.make_function(
        "my", name, list(inputs), ["b"], list(nodes), [helper.make_opsetid("", opset)], attributes
    )


def maximum(opset: int = 18, name: str = "f") -> Any:
    nodes = [node("Constant", [], ["axes"], value_ints=[-1]), node("ReduceMax", ["a", "axes"], ["b"])]
    return function(name, ["a"], nodes, opset)


def caller(functions: Sequence[Any], nodes: Sequence[Any], opset: int = 18, constants: Any = None) -> Any:
    """Return a model that calls functions. Each output of a node is an output of the model."""
    outputs = [value(name, [None, None]) for entry in nodes for name in entry.output]
    proto = model(nodes, [value("x", [2, 3])], outputs, constants or {}, opset, [MY])
    proto.functions.extend(functions)
    return proto


def only_my(functions: Sequence[Any], nodes: Sequence[Any]) -> Any:
    """Return a model whose graph imports no ai.onnx."""
    proto = caller(functions, nodes)
    del proto.opset_import[0]
    return proto


def call(name: str, inputs: Sequence[str], output: str, **attributes: Any) -> Any:
    return node(name, list(inputs), [output], domain="my", **attributes)


def versions(imports: Any) -> Dict[str, int]:
    assert len({entry.domain for entry in imports}) == len(imports)
    return {entry.domain: entry.version for entry in imports}


def compare(result: Any, source: Any) -> None:
    onnx.checker.check_model(result)
    feed = {port.name: {"x": X, "z": 2 * X, "c": np.asarray(True)}[port.name] for port in source.graph.input}
    for got, want in zip(*(onnx_compat.run(proto, feed, shim="reference") for proto in (result, source))):
        np.testing.assert_allclose(got, want, 1e-5, 1e-6)


@pytest.mark.parametrize("opset", [9, 13, 17, 18, 21])
@pytest.mark.parametrize("count", [1, 2])
def test_the_imports_of_functions_count(opset: int, count: int) -> None:
    names = ["f", "g"][:count]
    proto = only_my([maximum(18, name) for name in names], [call(name, ["x"], name + "_y") for name in names])
    result = retarget(proto, opset)
    compare(result, proto)
    if opset >= 15:
        assert len(result.functions) == count
        assert versions(result.functions[0].opset_import)[""] == opset
        assert versions(result.opset_import) == {"my": 1}
    else:
        assert not result.functions
        assert versions(result.opset_import) == {"": opset}
    assert result.ir_version == {9: 4, 13: 7, 17: 8, 18: 8, 21: 10}[opset]
    assert plan(proto, opset).opsets[""] == (18, opset)


def test_functions_stay_without_an_opset() -> None:
    proto = caller([maximum(18)], [call("f", ["x"], "y")], 17)
    result = retarget(proto)
    assert result == proto
    inlined = retarget(proto, inline_functions=True)
    assert versions(inlined.opset_import) == {"": 17}
    compare(inlined, proto)
    two = only_my([maximum(17, "f"), maximum(18, "g")], [call("f", ["x"], "y"), call("g", ["x"], "z")])
    del two.functions[0].node[0]
    two.functions[0].node[0].CopyFrom(node("ReduceMax", ["a"], ["b"], axes=[-1]))
    inlined = retarget(two, inline_functions=True)
    assert versions(inlined.opset_import) == {"": 18}
    compare(inlined, two)


def test_a_body_is_brought_to_the_opset_of_the_model_before_it_is_inlined() -> None:
    body = function("f", ["a"], [node("Mish", ["a"], ["h"]), node("Relu", ["h"], ["b"])], 18)
    proto = caller([body], [call("f", ["x"], "y")], 17)
    result = retarget(proto, inline_functions=True)
    assert versions(result.opset_import) == {"": 17}
    assert plan(proto, inline_functions=True).counts[COMPOSED] == 1
    compare(result, proto)


def branch(name: str, built: Any) -> Any:
    return helper.make_graph([built], name, [], [onnx.ValueInfoProto(name=built.output[0])])


def capturing() -> Any:
    branches = {
        "then_branch": branch("then", node("Relu", ["a"], ["t"])),
        "else_branch": branch("else", node("Neg", ["a"], ["e"])),
    }
    nodes = [
        node("If", ["c"], ["h"], **branches),
        node("Constant", [], ["axes"], value_ints=[-1]),
        node("ReduceMax", ["h", "axes"], ["b"]),
    ]
    return function("f", ["c", "a"], nodes, 18)


def test_a_function_with_captures_is_called_with_different_values() -> None:
    proto = caller([capturing()], [call("f", ["c", "x"], "y"), call("f", ["c", "z"], "w")])
    proto.graph.input.extend([value("z", [2, 3]), value("c", [], onnx.TensorProto.BOOL)])
    result = retarget(proto, 17)
    assert len(result.functions) == 1
    compare(result, proto)


def normalization(operator: str, *inputs: str) -> Any:
    return function("ln", ["x", "s", "b_in"], [node(operator, list(inputs), ["b"], name="ln_node")], 17)


def test_calls_that_omit_different_inputs() -> None:
    body = normalization("LayerNormalization", "x", "s", "b_in")
    proto = caller([body], [call("ln", ["x", "s"], "y"), call("ln", ["x", "s", "b"], "z")], 17, {"s": SCALE, "b": BIAS})
    result = retarget(proto, 16)
    assert "LayerNormalization" not in {entry.op_type for entry in result.graph.node}
    assert not result.functions
    compare(result, proto)
    assert len(retarget(proto, 18).functions) == 1  # no node changes


def test_an_omitted_input_is_passed_on() -> None:
    body = normalization("LayerNormalization", "x", "s", "b_in")
    outer = function("g", ["x", "s", "t"], [call("ln", ["x", "s", "t"], "b")], 17)
    outer.opset_import.append(MY)
    nodes = [call("g", ["x", "s"], "y"), call("g", ["x", "s", "b"], "z")]
    proto = caller([body, outer], nodes, 17, {"s": SCALE, "b": BIAS})
    compare(retarget(proto, 16), proto)


def test_two_inputs_are_one_value_in_the_first_call() -> None:
    body = function("f", ["p", "q"], [node("LayerNormalization", ["p", "q"], ["b"])], 17)
    calls = [call("f", ["s", "s"], "y"), call("f", ["s", "b"], "z")]
    proto = caller([body], calls, 17, {"s": SCALE, "b": BIAS})
    result = retarget(proto, 16)
    assert len(result.functions) == 1
    compare(result, proto)


def test_attributes_of_calls_decide_the_form() -> None:
    built = node("Softmax", ["a"], ["b"])
    built.attribute.append(onnx.AttributeProto(name="axis", ref_attr_name="along", type=onnx.AttributeProto.INT))
    proto = caller(
        [function("f", ["a"], [built], 18, ["along"])], [call("f", ["x"], "y", along=1), call("f", ["x"], "z", along=0)]
    )
    result = retarget(proto, 12, 8)
    assert not result.functions
    compare(result, proto)


def test_a_function_that_nothing_calls() -> None:
    whole = caller([maximum(18, "f"), maximum(18, "unused")], [call("f", ["x"], "y")])
    result = retarget(whole, 17)
    assert [entry.name for entry in result.functions] == ["f", "unused"]
    unwritable = function("unused", ["a", "k"], [node("ReduceMax", ["a", "k"], ["b"])], 18)
    proto = caller([maximum(18, "f"), unwritable], [call("f", ["x"], "y")])
    assert [entry.name for entry in retarget(proto, 17).functions] == ["f"]
    assert "functions that nothing calls are left out: my::unused" in plan(proto, 17).notes


def test_a_node_that_no_call_can_write_is_refused() -> None:
    unwritable = function("f", ["a"], [node("ImageDecoder", ["a"], ["b"], name="decoder")], 20)
    proto = caller([unwritable], [call("f", ["bytes"], "y")], 20)
    proto.graph.input.add().CopyFrom(value("bytes", [10], onnx.TensorProto.UINT8))
    with pytest.raises(UnsupportedError, match="decoder"):
        retarget(proto, 19)


def with_parts() -> Any:
    """Return a function with declared types, descriptions, and subgraphs with initializers and attributes of calls."""
    sparse = onnx.SparseTensorProto(dims=[3])
    sparse.values.CopyFrom(numpy_helper.from_array(np.asarray([7], np.float32), "k"))
    sparse.indices.CopyFrom(numpy_helper.from_array(np.asarray([1]), "i"))
    then = branch("then", node("Add", ["h", "k"], ["t"]))
    then.sparse_initializer.append(sparse)
    built = node("If", ["c"], ["b"], then_branch=then)
    reference = onnx.AttributeProto(name="else_branch", ref_attr_name="otherwise", type=onnx.AttributeProto.GRAPH)
    built.attribute.append(reference)
    body = function("f", ["c", "a"], [node("Abs", ["a"], ["h"]), built], 21, ["otherwise"])
    body.doc_string = "text"
    body.value_info.append(value("h", [2, 3]))
    return body


@pytest.mark.parametrize("flag", [True, False])
def test_inlining_keeps_every_part(flag: bool) -> None:
    calls: List[Any] = [
        call("f", ["c", "x"], name, otherwise=branch("otherwise", node("Mul", ["x", "h"], ["r"]))) for name in "yz"
    ]
    proto = caller([with_parts()], [node("Neg", ["x"], ["h"]), *calls], 21)
    proto.graph.input.append(value("c", [], onnx.TensorProto.BOOL))
    result = retarget(proto, 20)
    feed = {"x": X, "c": np.asarray(flag)}
    _, first, second = onnx_compat.run(result, feed, shim="reference")
    want = np.abs(X) + np.asarray([0, 7, 0]) if flag else X * -X
    np.testing.assert_allclose(first, want)
    np.testing.assert_allclose(second, want)
    inlined = retarget(proto, 21, inline_functions=True)
    absolutes = [entry.output[0] for entry in inlined.graph.node if entry.op_type == "Abs"]
    assert [entry.name for entry in inlined.graph.value_info] == absolutes
    assert any("doc strings" in note and "my::f" in note for note in plan(proto, 21, inline_functions=True).notes)
