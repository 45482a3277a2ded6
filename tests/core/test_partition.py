"""Partitions: a graph is cut into few parts, each after the parts whose results it reads.

A plan prepares a part when the part first runs.
"""

import threading
from typing import Any, Dict, List, Optional, Sequence, Set, Tuple

import numpy as np
import pytest
from building import model, node, value
from onnx import TensorProto, helper

from onnx_compat.errors import UnsupportedError
from onnx_compat.execution.feeds import MapItems
from onnx_compat.execution.partition import (
    Part,
    PartitionedPlan,
    cut_parts,
    enclosing_nodes,
    is_indivisible,
    part_model,
)
from onnx_compat.ir.dtypes import float32, int64, string
from onnx_compat.model import MapType, Model, SequenceType, TensorType, load
from onnx_compat.tracing.values import EMPTY_OPTIONAL


def chain(*edges: str, outputs: Sequence[str], inputs: Sequence[str] = ("x",), **options: Any) -> Model:
    """Return a model with a node for each edge "a b -> c". A node has the name of its first output."""
    nodes = []
    for edge in edges:
        before, after = (names.split() for names in edge.split("->"))
        operator = "Split" if len(after) > 1 else "Add" if len(before) > 1 else "Neg"
        nodes.append(node(operator, before, after, name=after[0]))
    return load(model(nodes, [value(name, [4]) for name in inputs], [value(name) for name in outputs], **options))


def cut(source: Model, fallback: Any = (), staged: Any = (), sizes: Any = ()) -> List[Tuple[str, str, str, bool]]:
    """Return the parts as (nodes, inputs, outputs, fallback), with names separated by spaces."""
    parts = cut_parts(source.graph, set(fallback), set(staged), set(sizes))
    return [
        (
            " ".join(part_node.name for part_node in part.nodes),
            " ".join(part.inputs),
            " ".join(part.outputs),
            part.fallback,
        )
        for part in parts
    ]


# -- cutting -----------------------------------------------------------------------------------------------------------
def test_a_graph_without_refused_nodes_is_one_part() -> None:
    source = chain("x -> a", "a -> b", "a b -> c", outputs=["c", "a"])
    assert cut(source) == [("a b c", "x", "a c", False)]


def test_a_refused_node_in_the_middle_makes_three_parts() -> None:
    source = chain("x -> a", "a -> b", "b a -> c", outputs=["c"])
    assert cut(source, ["b"]) == [
        ("a", "x", "a", False),
        ("b", "a", "b", True),
        ("c", "b a", "c", False),
    ]


def test_a_part_takes_all_nodes_that_are_ready() -> None:
    """Two refused nodes share a part if no node between them depends on one, wherever they stand in the file."""
    source = chain("x -> a", "a -> b", "x -> c", "c -> d", "b d -> e", outputs=["e"])
    assert cut(source, ["b", "d"]) == [
        ("a c", "x", "a c", False),
        ("b d", "a c", "b d", True),
        ("e", "b d", "e", False),
    ]


def test_a_refused_first_node_makes_a_first_part_of_the_fallback() -> None:
    source = chain("x -> a", "a -> b", outputs=["b"])
    assert cut(source, ["a"]) == [("a", "x", "a", True), ("b", "a", "b", False)]


def test_refused_nodes_that_alternate_make_a_part_each() -> None:
    source = chain("x -> a", "a -> b", "b -> c", "c -> d", "d -> e", outputs=["e"])
    assert [part[0] for part in cut(source, ["b", "d"])] == ["a", "b", "c", "d", "e"]


def test_a_staged_node_is_in_no_part_with_the_nodes_that_it_reads() -> None:
    """A staged node needs a known value while it is traced, so the value must be an input of its part."""
    source = chain("x -> a", "a -> b", "b -> c", outputs=["c"])
    assert cut(source, staged=["b"]) == [("a", "x", "a", False), ("b c", "a", "c", False)]


def test_a_staged_node_whose_inputs_are_inputs_of_the_graph_needs_no_part_of_its_own() -> None:
    source = chain("x -> a", "x -> b", outputs=["a", "b"])
    assert cut(source, staged=["b"]) == [("a b", "x", "a b", False)]


def test_two_staged_nodes_in_a_row_are_in_two_parts() -> None:
    source = chain("x -> a", "a -> b", "b -> c", outputs=["c"])
    assert [part[0] for part in cut(source, staged=["b", "c"])] == ["a", "b", "c"]


def test_a_staged_node_in_the_fallback_also_waits() -> None:
    source = chain("x -> a", "a -> b", outputs=["b"])
    assert cut(source, ["a", "b"], ["b"]) == [("a", "x", "a", True), ("b", "a", "b", True)]


def test_a_part_gives_only_values_that_others_read() -> None:
    source = chain("x -> a", "a -> b", "b -> c", outputs=["c"])
    assert cut(source, ["c"])[0] == ("a b", "x", "b", False)


def test_an_initializer_is_no_input_unless_a_caller_may_override_it() -> None:
    weight = {"w": np.ones(4, np.float32)}
    edges = ["x w -> a", "a w -> b"]
    fixed = chain(*edges, outputs=["b"], constants=weight)
    assert [part[1] for part in cut(fixed, ["b"])] == ["x", "a"]
    open_to_callers = chain(*edges, outputs=["b"], constants=weight, inputs=["x", "w"])
    assert [part[1] for part in cut(open_to_callers, ["b"])] == ["x w", "a w"]


def test_inputs_and_outputs_that_are_left_out_are_no_values() -> None:
    nodes = [
        node("Clip", ["x", "", "high"], ["a"], name="a"),
        node("Dropout", ["a"], ["b", ""], name="b"),
        node("Neg", ["b"], ["c"], name="c"),
    ]
    source = load(model(nodes, [value("x", [4]), value("high", [])], [value("c")]))
    assert cut(source, ["c"]) == [("a b", "x high", "b", False), ("c", "b", "c", True)]


def test_a_part_computes_the_sizes_that_it_reads() -> None:
    """The trace of a part would not know a size that the part gets as an input."""
    source = chain("x -> a", "x -> s", "s -> t", "a t -> b", "b t -> c", outputs=["c"])
    parts = cut(source, ["b"], sizes=["s", "t"])
    assert parts == [
        ("a s t", "x", "a t", False),
        ("b", "a t", "b", True),
        ("s t c", "x b", "c", False),
    ]


def test_a_size_that_several_nodes_read_is_computed_once() -> None:
    source = chain("x -> s", "x -> a", "a s -> b", "b s -> c", "c s -> d", outputs=["d"])
    assert [part[0] for part in cut(source, ["b"], sizes=["s"])] == ["s a", "b", "s c d"]


def test_sizes_that_a_part_holds_are_not_repeated() -> None:
    source = chain("x -> s", "s x -> a", "s a -> b", outputs=["b"])
    assert cut(source, sizes=["s"]) == [("s a b", "x", "b", False)]


def _conditional() -> Model:
    """Return a graph whose If reads the outer value "a" in a branch."""
    then_graph = helper.make_graph([node("Exp", ["a"], ["t"], name="inside")], "then", [], [value("t", [4])])
    else_graph = helper.make_graph([node("Neg", ["x"], ["e"], name="else_neg")], "else", [], [value("e", [4])])
    nodes = [
        node("Neg", ["x"], ["a"], name="first"),
        node("If", ["flag"], ["y"], name="choice", then_branch=then_graph, else_branch=else_graph),
    ]
    return load(model(nodes, [value("x", [4]), value("flag", [], TensorProto.BOOL)], [value("y")]))


def test_the_values_that_a_branch_reads_from_outside_are_inputs_of_its_part() -> None:
    source = _conditional()
    for options in ({"fallback": ["choice"]}, {"staged": ["choice"]}):
        first, second = cut(source, **options)
        assert first == ("first", "x", "a", False)
        assert (second[0], set(second[1].split()), second[2:]) == (
            "choice",
            {"flag", "a", "x"},
            ("y", bool(options.get("fallback"))),
        )


def test_a_node_goes_where_a_node_inside_it_goes() -> None:
    graph = _conditional().graph
    assert enclosing_nodes(graph, {"inside"}) == {"choice"}
    assert enclosing_nodes(graph, {"first", "else_neg"}) == {"first", "choice"}
    assert enclosing_nodes(graph, {"elsewhere"}) == set()


@pytest.mark.parametrize(
    ("operator", "domain", "indivisible"),
    [
        ("Gradient", "ai.onnx.preview.training", True),
        ("Gradient", "my.domain", False),
        ("Adam", "ai.onnx.preview.training", False),
    ],
)
def test_only_a_gradient_looks_at_the_nodes_around_it(operator: str, domain: str, indivisible: bool) -> None:
    nodes = [node("Neg", ["x"], ["a"]), node(operator, ["x"], ["b"], domain=domain, xs=["x"], y="a")]
    extra = [helper.make_opsetid(domain, 1)]
    source = load(model(nodes, [value("x", [4])], [value("b")], extra_opsets=extra))
    assert is_indivisible(source.graph) is indivisible


# -- parts as models ---------------------------------------------------------------------------------------------------
def test_the_model_of_a_part_declares_what_the_whole_model_declares() -> None:
    source = chain("x w -> a", "a v -> b", outputs=["b"], constants={"w": np.ones(4, "f"), "v": np.ones(4, "f")})
    first, second = cut_parts(source.graph, {"b"}, set())
    given = TensorType(float32, (None,))
    whole = part_model(source, first, {"x": given})
    assert [(info.name, info.type) for info in whole.graph.inputs] == [("x", TensorType(float32, (4,)))]
    assert set(whole.graph.initializers) == {"w"}, "the weights that other parts read are not in the model of a part"
    rest = part_model(source, second, {"a": given})
    assert [(info.name, info.type) for info in rest.graph.inputs] == [("a", given)]
    assert set(rest.graph.initializers) == {"v"}
    assert [info.name for info in rest.graph.outputs] == ["b"]
    assert (rest.opsets, rest.ir_version) == (source.opsets, source.ir_version)


def test_an_input_with_a_default_keeps_it_unless_the_caller_gives_a_value() -> None:
    source = chain("x w -> a", outputs=["a"], inputs=["x", "w"], constants={"w": np.ones(4, np.float32)})
    (part,) = cut_parts(source.graph, set(), set())
    kind = TensorType(float32, (None,))
    default = part_model(source, part, {"x": kind})
    assert [info.name for info in default.graph.inputs] == ["x"]
    assert set(default.graph.initializers) == {"w"}
    given = part_model(source, part, {"x": kind, "w": kind})
    assert [info.name for info in given.graph.inputs] == ["x", "w"]
    assert not given.graph.initializers, "the value of the caller replaces the default"


# -- plans -------------------------------------------------------------------------------------------------------------
class Prepared:
    """A fake prepared part: each output is its first input + 1. It counts its runs."""

    def __init__(self, source: Model, fallback: bool) -> None:
        self.model = source
        self.fallback = fallback
        self.fallbacks = ["inner of " + source.graph.outputs[0].name]
        self.reasons = {self.fallbacks[0]: UnsupportedError("the part itself needs the fallback")}
        self.traces = 2
        self.runs = 0

    def run_checked(self, feed: Dict[str, Any]) -> List[Any]:
        self.runs += 1
        array, dtype = feed[self.model.graph.inputs[0].name]
        return [(array + 1, dtype) for _ in self.model.graph.outputs]


class Preparing:
    """Prepares fake parts, and lists them in the order of preparation."""

    def __init__(self) -> None:
        self.prepared: List[Prepared] = []

    def __call__(self, source: Model, fallback: bool) -> Prepared:
        self.prepared.append(Prepared(source, fallback))
        return self.prepared[-1]


def _plan(fallback: Set[str]) -> Tuple[PartitionedPlan, Preparing]:
    source = chain("x -> a", "a -> b", "b -> c", outputs=["c", "a"])
    preparing = Preparing()
    reasons = {name: UnsupportedError("it is refused") for name in fallback}
    return PartitionedPlan(source, cut_parts(source.graph, fallback, set()), preparing, reasons), preparing


def test_a_plan_runs_its_parts_in_turn_and_prepares_each_once() -> None:
    plan, preparing = _plan({"b"})
    assert plan.traces == 0, "nothing is traced before the first run"
    for _ in range(2):
        (c, _), (a, _) = plan.run({"x": (np.zeros(4, np.float32), float32)})
        np.testing.assert_array_equal((a, c), (np.full(4, 1), np.full(4, 3)))
    assert [(prepared_part.fallback, prepared_part.runs) for prepared_part in preparing.prepared] == [
        (False, 2),
        (True, 2),
        (False, 2),
    ]
    assert plan.traces == 6


def test_a_plan_names_the_nodes_in_the_fallback_as_far_as_they_are_known() -> None:
    plan, _ = _plan({"b"})
    assert plan.fallbacks == ["b"]
    assert set(plan.reasons) == {"b"}
    plan.run({"x": (np.zeros(4, np.float32), float32)})
    assert plan.fallbacks == ["b", "inner of a", "inner of c"], "a part of the fallback has no more to say"
    assert set(plan.reasons) == {"b", "inner of a", "inner of c"}


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ((np.zeros((2, 3), np.int64), int64), TensorType(int64, (None, None))),
        ((np.zeros((), np.float32), float32), TensorType(float32, ())),
        ([(np.zeros(3, np.float32), float32)], SequenceType(TensorType(float32, (None,)))),
        ([], SequenceType(None)),
        (EMPTY_OPTIONAL, None),
        (
            MapItems((np.array(["k"], object), string), (np.ones(1, np.float32), float32)),
            MapType(string, TensorType(float32, ())),
        ),
    ],
)
def test_a_part_is_prepared_for_the_types_of_the_values_that_reach_it(given: Any, expected: Any) -> None:
    source = chain("x -> a", "a -> b", outputs=["b"])
    models: List[Model] = []

    class Constant:
        """A fake part that gives the same value for each output."""

        def run_checked(self, feed: Dict[str, Any]) -> List[Any]:
            return [given]

    def prepare(inner: Model, fallback: bool) -> Constant:
        models.append(inner)
        return Constant()

    plan = PartitionedPlan(source, cut_parts(source.graph, {"b"}, set()), prepare, {})
    assert plan.run({"x": (np.zeros(4, np.float32), float32)}) == [given]
    assert [info.type for info in models[1].graph.inputs] == [expected]


def test_threads_that_reach_a_part_together_prepare_it_once() -> None:
    plan, preparing = _plan(set())
    start = threading.Barrier(4)
    prepare = preparing.__call__
    waiting = threading.Event()

    def slow(source: Model, fallback: bool) -> Prepared:
        waiting.wait(0.2)  # the other threads arrive meanwhile
        return prepare(source, fallback)

    plan = PartitionedPlan(plan.model, plan.parts, slow, {})
    results: List[Optional[np.ndarray]] = [None] * 4

    def run(k: int) -> None:
        start.wait()
        results[k] = plan.run({"x": (np.full(4, k, np.float32), float32)})[0][0]

    threads = [threading.Thread(target=run, args=(k,)) for k in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(preparing.prepared) == 1
    for k, array in enumerate(results):
        np.testing.assert_array_equal(array, np.full(4, k + 1))


def test_an_input_that_is_not_given_is_not_fed_to_a_part() -> None:
    source = chain("x w -> a", outputs=["a"], inputs=["x", "w"], constants={"w": np.ones(4, np.float32)})
    part: Part = cut_parts(source.graph, set(), set())[0]
    preparing = Preparing()
    plan = PartitionedPlan(source, [part], preparing, {})
    plan.run({"x": (np.zeros(4, np.float32), float32)})
    assert [info.name for info in preparing.prepared[0].model.graph.inputs] == ["x"]
