"""The interpreter applies the nodes of a graph in order: defaults, subgraphs, natives, and nodes that cannot be applied."""

from typing import Any, Dict, Iterator, List, Optional, Sequence, Tuple

import numpy as np
import pytest
from building import INT64, model, node, value
from onnx import TensorProto, helper

import onnx_compat
from onnx_compat import primitives as p
from onnx_compat.errors import InvalidModelError, OnnxCompatError, UnsupportedError
from onnx_compat.execution.plan import Specialisation, TracedModel, trace_model
from onnx_compat.execution.support import declared_structures
from onnx_compat.ir.dims import is_equal
from onnx_compat.ir.dtypes import float32
from onnx_compat.model import load
from onnx_compat.ops import OPERATORS
from onnx_compat.reference import Reference
from onnx_compat.shim.emission import emit
from onnx_compat.shim.natives import Native
from onnx_compat.tracing.interpreter import Interpreter
from onnx_compat.tracing.values import Tensor, lift

X = np.array([1.0, -2.0, 3.0], np.float32)
MINE = [helper.make_opsetid("my.domain", 1)]


@pytest.fixture(autouse=True)
def _registry() -> Iterator[None]:
    """Remove the operators that the test registered."""
    onnx_compat.run(model([node("Neg", ["x"], ["y"])], [value("x", [3])], [value("y")]), [X], shim="reference")
    before = {key: dict(versions) for key, versions in OPERATORS.items()}
    yield
    OPERATORS.clear()
    OPERATORS.update(before)


def graph_of(nodes: Sequence[Any], outputs: Sequence[str], inputs: Sequence[str] = ("x",), **options: Any) -> Any:
    """Return a graph of these nodes whose values are vectors of three numbers."""
    proto = model(nodes, [value(name, [3]) for name in inputs], [value(name) for name in outputs], **options)
    return load(proto).graph


def trace(source: Any, natives: Optional[Dict[Any, Native]] = None, **options: Any) -> Tuple[TracedModel, Interpreter]:
    """Trace a model. Return (the trace with its program, the interpreter)."""
    loaded = load(source)
    interpreter = Interpreter(natives, **options)
    emitter = Reference()
    return trace_model(loaded, emitter, declared_structures(loaded.graph), Specialisation(), interpreter), interpreter


# -- walking -----------------------------------------------------------------------------------------------------------
def test_the_outputs_are_in_the_order_of_the_graph() -> None:
    graph = graph_of([node("Neg", ["x"], ["a"]), node("Abs", ["a"], ["b"])], ["b", "x", "a"])
    b, x, a = Interpreter().run(graph, [lift(X)])
    for result, expected in ((b, abs(X)), (x, X), (a, -X)):
        np.testing.assert_array_equal(result.value, expected)


def test_an_input_that_is_left_out_takes_its_default() -> None:
    graph = graph_of([node("Add", ["x", "w"], ["y"])], ["y"], ["x", "w"], constants={"w": np.ones(3, np.float32)})
    for inputs, expected in (([lift(X)], X + 1), ([lift(X), None], X + 1), ([lift(X), lift(X)], X + X)):
        (result,) = Interpreter().run(graph, inputs)
        np.testing.assert_array_equal(result.value, expected)


def test_an_inner_initializer_shadows_an_outer_value() -> None:
    """An initializer of a subgraph hides a value of the outer graph with the same name."""
    graph = graph_of([node("Add", ["x", "w"], ["y"])], ["y"], constants={"w": np.ones(3, np.float32)})
    (result,) = Interpreter().run(graph, [lift(X)], {"w": lift(5 * X), "z": lift(X)})
    np.testing.assert_array_equal(result.value, X + 1)


def _conditional() -> Any:
    branches = [helper.make_graph([node(name, ["a"], [name])], name, [], [value(name, [3])]) for name in ("Neg", "Abs")]
    nodes = [
        node("Relu", ["x"], ["a"], name="first"),
        node("If", ["flag"], ["y"], name="choice", then_branch=branches[0], else_branch=branches[1]),
        node("Exp", ["y"], ["z"], name="last"),
        node("Neg", ["x"], ["other"], name="beside"),
    ]
    infos = [value("x", [3]), value("flag", [], TensorProto.BOOL)]
    return model(nodes, infos, [value("z"), value("other")])


def test_a_subgraph_reads_outer_values_and_does_not_change_them() -> None:
    branch = next(
        graph_node for graph_node in load(_conditional()).graph.nodes if graph_node.name == "choice"
    ).attributes["then_branch"]
    outer = {"a": lift(X), "Neg": lift(X)}
    (result,) = Interpreter().run(branch, [], outer)
    np.testing.assert_array_equal(result.value, -X)
    np.testing.assert_array_equal(outer["Neg"].value, X)
    assert set(outer) == {"a", "Neg"}


def test_the_inputs_and_results_of_the_outermost_graph_are_watched() -> None:
    seen: List[Tuple[str, Any]] = []
    watching = Interpreter(watch=lambda name, result: seen.append((name, result)))
    watching.run(load(_conditional()).graph, [lift(X), lift(np.array(True))])
    assert [name for name, _ in seen] == ["x", "flag", "a", "y", "z", "other"]
    np.testing.assert_array_equal(dict(seen)["y"].value, -np.maximum(X, 0))
    seen.clear()
    watching.run(graph_of([node("Neg", ["x"], ["y"])], ["y"]), [lift(X)], {})
    assert not seen, "the values of a subgraph are not watched"


def test_the_first_name_of_a_recorded_value_is_kept() -> None:
    nodes = [node("Neg", ["x"], ["a"]), node("Identity", ["a"], ["b"]), node("Exp", ["b"], ["y"])]
    traced_model, _ = trace(model(nodes, [value("x", [3])], [value("y")]))
    assert [live_node.outputs[0].name for live_node in traced_model.program.region.live()] == ["a", "y"]


def test_recorded_nodes_name_the_node_of_the_model() -> None:
    nodes = [node("Neg", ["x"], ["a"], name="first"), node("HardSwish", ["a"], ["y"], name="second")]
    traced_model, interpreter = trace(model(nodes, [value("x", [3])], [value("y")], opset=14))
    first, *later_nodes = traced_model.program.region.live()
    assert (first.origin.node, first.origin.operator, first.origin.opset) == ("first", "Neg", 14)
    assert later_nodes and {later_node.origin.node for later_node in later_nodes} == {"second"}
    assert interpreter.done == {"first": "composed", "second": "composed"}


def test_values_that_no_later_node_reads_are_released() -> None:
    """Otherwise an eager execution would hold every intermediate value of the model."""
    scopes: List[List[str]] = []

    @onnx_compat.op("Look", since=1, domain="my.domain")
    def look(ctx: Any, x: Any) -> Any:
        scopes.append(sorted(ctx.scope))
        return x

    nodes = [
        node("Neg", ["x"], ["a"]),
        node("Abs", ["a"], ["b"]),
        node("Split", ["b"], ["c", "unread"], axis=0, split=[1, 2]),
        node("Look", ["c"], ["d"], domain="my.domain"),
        node("Add", ["d", "a"], ["e"]),
        node("Look", ["e"], ["y"], domain="my.domain"),
    ]
    Interpreter().run(graph_of(nodes, ["y", "c"], opset=11, extra_opsets=MINE), [lift(X)])
    assert scopes == [["a", "c"], ["c", "e"]], "c is an output, and a is read again; x, b and the unread result are not"


def test_a_value_that_a_later_subgraph_reads_is_not_released() -> None:
    z, _ = Interpreter().run(load(_conditional()).graph, [lift(X), lift(np.array(False))])
    np.testing.assert_allclose(z.value, np.exp(np.maximum(X, 0)), rtol=1e-6)


# -- meanings ----------------------------------------------------------------------------------------------------------
def test_a_meaning_can_ask_about_its_node() -> None:
    seen: List[Any] = []

    @onnx_compat.op("Ask", since=1, domain="my.domain")
    def ask(ctx: Any, x: Any) -> Any:
        seen.append((ctx.outputs, [ctx.wants(k) for k in range(4)], ctx.opset, ctx.node.name))
        return x, None, x

    nodes = [node("Ask", ["x"], ["y", "", "z"], domain="my.domain", name="here")]
    Interpreter().run(graph_of(nodes, ["y", "z"], extra_opsets=MINE), [lift(X)])
    assert seen == [(3, [True, False, True, False], 1, "here")]


def test_inputs_that_are_left_out_at_the_end_take_the_defaults_of_the_meaning() -> None:
    seen: List[Any] = []

    @onnx_compat.op("Default", since=1, domain="my.domain")
    def default(x: Any, y: Any = "absent", z: Any = "absent") -> Any:
        seen.append((y, z))
        return x

    for inputs in (["x"], ["x", ""], ["x", "", ""], ["x", "", "x"], ["x", "x", ""]):
        nodes = [node("Default", inputs, ["y"], domain="my.domain")]
        Interpreter().run(graph_of(nodes, ["y"], extra_opsets=MINE), [lift(X)])
    assert seen[:3] == [("absent", "absent")] * 3
    assert seen[3][0] is None and isinstance(seen[3][1], Tensor), "an input that is left out in between is None"
    assert isinstance(seen[4][0], Tensor) and seen[4][1] == "absent"


@pytest.mark.parametrize("error", [TypeError, ValueError, IndexError, KeyError, AttributeError, ZeroDivisionError])
def test_an_error_of_a_meaning_is_an_unsupported_node_with_its_name(error: Any) -> None:
    @onnx_compat.op("Broken", since=1, domain="my.domain")
    def broken(x: Any) -> Any:
        raise error("deep inside")

    nodes = [node("Broken", ["x"], ["y"], domain="my.domain", name="here")]
    with pytest.raises(UnsupportedError, match="%s: .*deep inside" % error.__name__) as raised:
        Interpreter().run(graph_of(nodes, ["y"], extra_opsets=MINE), [lift(X)])
    assert raised.value.node == "here"
    assert "test_interpreter.py, line" in str(raised.value), "the hint names the code of the meaning"


@pytest.mark.parametrize("error", OnnxCompatError.__subclasses__())
def test_an_error_of_this_library_in_a_meaning_keeps_its_type(error: Any) -> None:
    @onnx_compat.op("Broken", since=1, domain="my.domain")
    def broken(x: Any) -> Any:
        raise error("deep inside")

    nodes = [node("Broken", ["x"], ["y"], domain="my.domain", name="here")]
    with pytest.raises(error) as raised:
        Interpreter().run(graph_of(nodes, ["y"], extra_opsets=MINE), [lift(X)])
    assert (type(raised.value), raised.value.reason, raised.value.node) == (error, "deep inside", "here")


# -- nodes that cannot be applied --------------------------------------------------------------------------------------
def _refuse() -> None:
    @onnx_compat.op("Refuse", since=1, domain="my.domain")
    def refuse(x: Any) -> Any:
        raise UnsupportedError("it is refused")


def test_a_tolerant_run_continues_after_a_node_that_fails() -> None:
    _refuse()
    nodes = [
        node("Exp", ["x"], ["a"], name="before"),
        node("Refuse", ["a"], ["b"], domain="my.domain", name="failing"),
        node("Neg", ["b"], ["c"], name="reader"),
        node("Add", ["c", "a"], ["d"], name="second_reader"),
        node("Abs", ["x"], ["y"], name="beside"),
    ]
    proto = model(nodes, [value("x", [3])], [value("y"), value("d")], extra_opsets=MINE)
    traced_model, interpreter = trace(proto, tolerant=True)
    assert set(interpreter.failed) == {"failing"}
    assert interpreter.failed["failing"].node == "failing"
    assert interpreter.unseen == {"reader", "second_reader"}
    assert interpreter.done == {"before": "composed", "beside": "composed"}
    live = [live_node.origin.node for live_node in traced_model.program.region.live()]
    assert live == ["before", "beside"], "what the failing node reads is recorded, though no output reads it"
    with pytest.raises(UnsupportedError, match="it is refused"):
        trace(proto)


def test_a_node_whose_subgraph_reads_an_unknown_value_is_not_examined() -> None:
    _refuse()
    branch = helper.make_graph([node("Neg", ["b"], ["t"])], "branch", [], [value("t", [3])])
    nodes = [
        node("Refuse", ["x"], ["b"], domain="my.domain", name="failing"),
        node("If", ["flag"], ["y"], name="choice", then_branch=branch, else_branch=branch),
    ]
    infos = [value("x", [3]), value("flag", [], TensorProto.BOOL)]
    _, interpreter = trace(model(nodes, infos, [value("y")], extra_opsets=MINE), tolerant=True)
    assert interpreter.unseen == {"choice"}


def test_an_input_of_unknown_rank_is_not_examined() -> None:
    nodes = [node("Neg", ["x"], ["y"], name="reader"), node("Neg", ["w"], ["z"], name="beside")]
    infos = [value("x"), value("w", [3])]
    _, interpreter = trace(model(nodes, infos, [value("y"), value("z")]), tolerant=True)
    assert interpreter.unseen == {"reader"}
    assert not interpreter.failed
    assert set(interpreter.done) == {"beside"}


def test_an_invalid_model_ends_a_tolerant_run_too() -> None:
    nodes = [node("Neg", ["x", "x"], ["y"], name="here")]
    with pytest.raises(InvalidModelError, match="2 inputs were given"):
        trace(model(nodes, [value("x", [3])], [value("y")]), tolerant=True)


# -- natives -----------------------------------------------------------------------------------------------------------
def always(*_: Any) -> bool:
    return True


class ChannelsLast(Reference):
    """The reference as a shim that stores channels last."""

    layout = "channels_last"


def record_native(native: Native, rank: int, operator: str = "Abs", layout: Any = ChannelsLast) -> Tuple[Any, Any]:
    """Trace a native operator on a tensor of this rank. Return (the recorded nodes, the physical order of the result)."""
    sizes = [2, 3, 4, 5, 6][:rank]
    source = load(model([node(operator, ["x"], ["y"], name="n")], [value("x", sizes)], [value("y")]))
    orders: List[Any] = []
    interpreter = Interpreter({("", operator): native}, watch=lambda name, x: orders.append(x.order))
    traced_model = trace_model(source, layout(), declared_structures(source.graph), Specialisation(), interpreter)
    assert interpreter.done == {"n": "native"}
    return traced_model.program.region.live(), orders[-1]


@pytest.mark.parametrize(("rank", "order"), [(2, None), (3, (0, 2, 1)), (4, (0, 2, 3, 1))])
def test_a_spatial_native_takes_and_gives_images_as_the_shim_stores_them(rank: int, order: Any) -> None:
    nodes, stored = record_native(Native(always, "abs", True), rank)
    assert stored == order
    assert [live_node.primitive for live_node in nodes] == (["abs"] if rank == 2 else ["transpose", "abs", "transpose"])
    nodes, stored = record_native(Native(always, "abs", True), rank, layout=Reference)
    assert stored is None and [live_node.primitive for live_node in nodes] == ["abs"]


def test_another_native_takes_tensors_as_written_and_gives_the_order_that_it_declares() -> None:
    nodes, stored = record_native(Native(always, "abs", False), 4)
    assert stored is None and [live_node.primitive for live_node in nodes] == ["abs"]
    nodes, stored = record_native(Native(always, "native", False, (0, 2, 1)), 3)
    assert stored == (0, 2, 1) and [live_node.primitive for live_node in nodes] == ["native", "transpose"]
    assert nodes[0].outputs[0].spec.shape == (2, 4, 3), "the result of the native is stored in its order"


def test_an_input_that_is_left_out_stays_left_out() -> None:
    proto = model([node("Clip", ["x", "", "high"], ["y"])], [value("x", [3]), value("high", [])], [value("y")])
    traced_model, interpreter = trace(proto, {("", "Clip"): Native(always, "Clip", False)})
    (recorded_node,) = traced_model.program.region.live()
    assert recorded_node.primitive == "Clip" and recorded_node.args[1] is None
    assert list(interpreter.done.values()) == ["native"]


def test_a_native_keeps_sizes_of_its_inputs_and_gets_new_other_sizes() -> None:
    """The size of the result of NonZero comes from the native: no node of the composed meaning is recorded.

    Abs keeps its size.
    """
    nodes = [node("NonZero", ["x"], ["a"], name="n"), node("Shape", ["a"], ["y"], name="s")]
    proto = model(nodes, [value("x", ["n"])], [value("y", None, INT64), value("a", None, INT64)])
    traced_model, _ = trace(proto, {("", "NonZero"): Native(always, "native", False)})
    assert "nonzero" not in [live_node.primitive for live_node in traced_model.program.region.live()]

    traced_model, _ = trace(
        model([node("Abs", ["x"], ["y"])], [value("x", ["n"])], [value("y")]),
        {("", "Abs"): Native(always, "abs", False)},
    )
    (x,), (y,) = traced_model.program.region.inputs, traced_model.program.region.outputs
    assert is_equal(x.spec.shape[0], y.spec.shape[0]), "the size of the input stays the size of the result"


def test_a_native_keeps_a_size_that_an_earlier_node_computed() -> None:
    nodes = [node("NonZero", ["x"], ["a"], name="before"), node("Neg", ["a"], ["y"], name="n")]
    proto = model(nodes, [value("x", ["n"])], [value("a", None, INT64), value("y", None, INT64)])
    traced_model, interpreter = trace(proto, {("", "Neg"): Native(always, "neg", False)})
    assert interpreter.done == {"before": "composed", "n": "native"}
    a, y = traced_model.program.region.outputs
    assert is_equal(a.spec.shape[1], y.spec.shape[1])


def test_a_result_that_is_known_needs_no_native() -> None:
    proto = model([node("Shape", ["x"], ["y"], name="n")], [value("x", [3])], [value("y", None, INT64)])
    _, interpreter = trace(proto, {("", "Shape"): Native(always, "native", False)})
    assert interpreter.done == {"n": "composed"}


def test_a_native_gives_no_sequence() -> None:
    nodes = [node("SplitToSequence", ["x"], ["s"], name="n"), node("SequenceAt", ["s", "k"], ["y"], name="at")]
    proto = model(nodes, [value("x", [3])], [value("y")], {"k": np.array(0)})
    _, interpreter = trace(proto, {("", "SplitToSequence"): Native(always, "native", False)})
    assert interpreter.done == {"n": "composed", "at": "composed"}


@pytest.mark.parametrize(
    ("meaning", "message"),
    [
        (lambda x: (x, 3), "gives int for 'b', not a Tensor"),
        (lambda x: x, "gives 1 outputs, the node names 2"),
        (lambda x: (), "gives 0 outputs, the node names 2"),
    ],
)
def test_results_that_are_missing_or_no_tensors_are_refused(meaning: Any, message: str) -> None:
    onnx_compat.op("Pair", since=1, domain="my.domain")(meaning)
    nodes = [node("Pair", ["x"], ["a", "b"], domain="my.domain", name="here")]
    with pytest.raises(UnsupportedError, match=message) as raised:
        Interpreter().run(graph_of(nodes, ["a", "b"], extra_opsets=MINE), [lift(X)])
    assert raised.value.node == "here"
    unnamed = [node("Pair", ["x"], ["a", ""], domain="my.domain")]
    if message.startswith("gives int"):
        Interpreter().run(graph_of(unnamed, ["a"], extra_opsets=MINE), [lift(X)])


def test_a_native_sees_which_results_are_read() -> None:
    seen: List[Any] = []

    def accepts(read: Any, inputs: Any, attributes: Any) -> bool:
        seen.append((read.operator, read.outputs, read.name, read.opset, len(inputs), dict(attributes)))
        return False

    nodes = [node("TopK", ["x", "k"], ["a", "b"], name="n", axis=0)]
    proto = model(nodes, [value("x", [3])], [value("b", None, INT64)], {"k": np.array([2])})
    _, interpreter = trace(proto, {("", "TopK"): Native(accepts, "native", False)})
    ((operator, outputs, name, opset, inputs, attributes),) = seen
    assert (operator, outputs, name, opset, inputs) == ("TopK", ("", "b"), "n", 13, 2)
    assert attributes["axis"] == 0
    assert interpreter.done == {"n": "composed"}


def test_all_results_up_to_the_last_one_that_is_read_are_recorded() -> None:
    for read, count in (("a", 1), ("b", 2)):
        nodes = [node("TopK", ["x", "k"], ["a", "b"], name="n", axis=0)]
        proto = model(nodes, [value("x", [3])], [value(read)], {"k": np.array([2])})
        traced_model, _ = trace(proto, {("", "TopK"): Native(always, "native", False)})
        (recorded_node,) = traced_model.program.region.live()
        assert len(recorded_node.outputs) == count


def test_a_native_of_another_domain_is_not_used() -> None:
    proto = model([node("Abs", ["x"], ["y"], name="n")], [value("x", [3])], [value("y")])
    traced_model, interpreter = trace(proto, {("my.domain", "Abs"): Native(always, "native", False)})
    assert interpreter.done == {"n": "composed"}
    np.testing.assert_array_equal(emit(traced_model.program.region, Reference(), [X])[0], abs(X))


def test_an_attribute_that_holds_a_tensor_is_a_tensor_for_the_meaning() -> None:
    seen: List[Any] = []

    @onnx_compat.op("Scale", since=1, domain="my.domain")
    def scale(x: Any, *, by: Any) -> Any:
        seen.append(by)
        return p.mul(x, by)

    by = helper.make_tensor("by", TensorProto.FLOAT, [1], [4.0])
    graph = graph_of([node("Scale", ["x"], ["y"], domain="my.domain", by=by)], ["y"], extra_opsets=MINE)
    (result,) = Interpreter().run(graph, [lift(X)])
    np.testing.assert_array_equal(result.value, 4 * X)
    assert isinstance(seen[0], Tensor) and seen[0].dtype == float32
