"""Limits: every limit stops a model that exceeds it, is documented, and can be set in three ways.

A model that costs less than its limits is not touched. Time is asserted by counts of steps, not by clocks.
"""

import re
import sys
from pathlib import Path
from typing import Any, Callable, Dict, List, Sequence, Tuple

import numpy as np
import pytest
from building import node, value
from onnx import SparseTensorProto, TensorProto, helper, numpy_helper

import onnx_compat
from onnx_compat import limits
from onnx_compat.cli.app import run as run_command
from onnx_compat.cli.exit_codes import UNSUPPORTED, USAGE
from onnx_compat.errors import InputError, InvalidModelError, LimitError
from onnx_compat.model import Graph, GraphNode, ValueInfo
from onnx_compat.model.check import check as check_graph
from onnx_compat.tracing.interpreter import Interpreter

INT64, BOOL, STRING = TensorProto.INT64, TensorProto.BOOL, TensorProto.STRING


def build(nodes: Sequence[Any], inputs: Sequence[Any], outputs: Sequence[Any], **arrays: Any) -> Any:
    """Return a model with the arrays as initializers."""
    weights = [numpy_helper.from_array(np.asarray(array), name) for name, array in arrays.items()]
    graph = helper.make_graph(nodes, "g", inputs, outputs, weights)
    opsets = [helper.make_opsetid("", 20), helper.make_opsetid("own", 1)]
    return helper.make_model(graph, opset_imports=opsets, ir_version=9)


def prepare(proto: Any) -> Any:
    return onnx_compat.prepare(proto.SerializeToString(), shim="reference")


def many_messages() -> Any:
    return build(
        [node("Relu", ["x"], ["y"], name="n")] + [node("Relu", ["x"], ["z%d" % k]) for k in range(40)], [X], [Y]
    )


def doubling_functions() -> Any:
    opset = [helper.make_opsetid("", 20), helper.make_opsetid("own", 1)]
    functions = [helper.make_function("own", "F0", ["a"], ["b"], [node("Abs", ["a"], ["b"])], opset)]
    for level in range(1, 30):
        calls = [node("F%d" % (level - 1), [a], [b], domain="own") for a, b in (("a", "t"), ("t", "b"))]
        functions.append(helper.make_function("own", "F%d" % level, ["a"], ["b"], calls, opset))
    proto = build([node("F29", ["x"], ["y"], domain="own", name="n")], [X], [Y])
    proto.functions.extend(functions)
    return proto


def sparse_tensors() -> Any:
    proto = build([node("Sum", ["a", "b"], ["y"], name="n")], [], [Y])
    for name in "ab":
        sparse = SparseTensorProto(dims=[100])
        sparse.values.CopyFrom(numpy_helper.from_array(np.ones(1, np.float32), name))
        sparse.indices.CopyFrom(numpy_helper.from_array(np.zeros(1, np.int64)))
        proto.graph.sparse_initializer.append(sparse)
    return proto


def sparse_constant() -> Any:
    nodes = [node("Constant", [], ["a"], name="n", sparse_value=sparse_tensors().graph.sparse_initializer[0])]
    return build([*nodes, node("Relu", ["a"], ["y"])], [], [Y])


def giant_constant() -> Any:
    return build([node("ConstantOfShape", ["s"], ["y"], name="n")], [], [Y], s=[10000])


def giant_input() -> Any:
    return build([node("Relu", ["x"], ["y"])], [value("x", [3, 10000])], [Y])


def long_sequence() -> Any:
    nodes = [node("SplitToSequence", ["x"], ["s"], name="n"), node("ConcatFromSequence", ["s"], ["y"], axis=0)]
    return build(nodes, [value("x", [200])], [Y])


def long_vector_of_sizes() -> Any:
    nodes = [node("Split", ["x", "sizes"], ["y"] + ["y%d" % k for k in range(199)], name="n")]
    return build(nodes, [value("x", [200]), value("sizes", [200], INT64)], [Y])


def many_pieces() -> Any:
    return build([node("Split", ["x"], ["y"], num_outputs=200, name="n")], [value("x", [200])], [Y])


def many_nodes() -> Any:
    nodes = [node("Relu", ["x"] if not k else ["v%d" % k], ["v%d" % (k + 1)], name="n%d" % k) for k in range(60)]
    return build([*nodes, node("Neg", ["v60"], ["y"])], [X], [Y])


def long_loop_over_a_sequence() -> Any:
    body = helper.make_graph(
        [node("Identity", ["c"], ["go"]), node("SequenceInsert", ["s_in", "x"], ["s_out"])],
        "body",
        [value("i", [], INT64), value("c", [], BOOL), value("s_in")],
        [value("go", [], BOOL), value("s_out")],
    )
    nodes = [node("SequenceEmpty", [], ["s"]), node("Loop", ["m", "", "s"], ["all"], body=body, name="n")]
    return build([*nodes, node("SequenceLength", ["all"], ["y"])], [X], [value("y", [], INT64)], m=100)


X, Y = value("x", [2]), value("y")
#: Limit -> models that exceed the value 50, and the node that the error names, or the place in its reason.
BOMBS: Dict[str, List[Tuple[Callable[[], Any], str]]] = {
    "messages": [(many_messages, " at byte ")],
    "inlined": [(doubling_functions, "F20_0")],
    "sparse_bytes": [(sparse_tensors, "sparse tensor 'a'"), (sparse_constant, "n")],
    "tensor_elements": [(giant_constant, "n"), (giant_input, "the input 'x'")],
    "sequence_items": [(long_sequence, "n"), (long_vector_of_sizes, "n"), (many_pieces, "n")],
    "nodes": [(many_nodes, "n50")],
    "unrolled_rounds": [(long_loop_over_a_sequence, "n")],
}


@pytest.mark.parametrize(
    ("name", "make", "where"), [(name, make, where) for name, bombs in BOMBS.items() for make, where in bombs]
)
def test_a_model_above_a_limit_is_refused_by_name(name: str, make: Callable[[], Any], where: str) -> None:
    proto = make()
    if name != "inlined":
        prepare(proto)
    bounds = {name: 50, "folded_elements": 50}
    with limits.override(**bounds), pytest.raises(LimitError, match="50 %s" % limits.LIMITS[name].unit) as caught:
        prepare(proto)
    assert caught.value.limit == name
    assert where == caught.value.node or (caught.value.node is None and where in caught.value.reason)
    assert "ONNX_COMPAT_LIMIT_%s=N" % name.upper() in str(caught.value)
    with limits.override(**bounds), pytest.raises(LimitError):
        onnx_compat.support(proto.SerializeToString(), shim="reference")


def test_each_limit_with_an_error_has_a_model_that_exceeds_it() -> None:
    with_error = {name for name, entry in limits.LIMITS.items() if "LimitError" in entry.above}
    assert with_error == {*BOMBS, "regex_states"}  # that limit: test_ops_text.py


# -- constant folding --------------------------------------------------------------------------------------------------
def _chain(operator: str, first: Any, count: int, **attributes: Any) -> Any:
    nodes = [node(operator, ["v%d" % k] * 2, ["v%d" % (k + 1)], **attributes) for k in range(count)]
    kind = STRING if np.asarray(first).dtype == object else TensorProto.FLOAT
    return build(nodes, [], [value("v%d" % count, None, kind)], v0=first)


def _single_node_model(operator: str, inputs: Sequence[str], **arrays: Any) -> Any:
    return build([node(operator, inputs, ["y"])], [], [Y], **arrays)


ONE = np.ones(1, np.float32)
FOLDED = {
    "doubled by Concat": (_chain("Concat", np.ones(8, np.float32), 4, axis=0), np.ones(128, np.float32)),
    "doubled texts": (_chain("StringConcat", np.array(["abcd"], object), 6), np.array(["abcd" * 64], object)),
    "Expand": (_single_node_model("Expand", ["x", "s"], x=ONE, s=[100]), np.ones(100, np.float32)),
    "Tile": (_single_node_model("Tile", ["x", "s"], x=ONE, s=[100]), np.ones(100, np.float32)),
    "Pad": (_single_node_model("Pad", ["x", "s"], x=ONE, s=[99, 0]), np.eye(1, 100, 99, dtype=np.float32)[0]),
    "Range": (_single_node_model("Range", ["a", "b", "c"], a=0.0, b=100.0, c=1.0), np.arange(100.0)),
    "outer product": (
        _single_node_model("MatMul", ["a", "b"], a=np.ones((10, 1), np.float32), b=np.ones((1, 10), np.float32)),
        np.ones((10, 10), np.float32),
    ),
    "Conv": (
        build(
            [node("Conv", ["x", "w"], ["y"], pads=[50, 50])], [], [Y], x=ONE.reshape(1, 1, 1), w=ONE.reshape(1, 1, 1)
        ),
        np.eye(1, 101, 50, dtype=np.float32)[None],
    ),
    "OneHot": (
        _single_node_model("OneHot", ["i", "d", "v"], i=np.array([1]), d=np.array(100), v=np.array([0, 1], np.float32)),
        np.eye(1, 100, 1, dtype=np.float32),
    ),
}


@pytest.mark.parametrize("case", FOLDED)
def test_a_constant_that_grows_is_computed_at_run_time(case: str) -> None:
    proto, expected = FOLDED[case]
    runnable = prepare(proto)
    assert runnable.native is None  # folded as a whole
    with limits.override(folded_elements=60):
        bounded = prepare(proto)
    assert bounded.native is not None
    assert len(bounded.native.region.nodes) >= 1
    for prepared in (runnable, bounded):
        np.testing.assert_array_equal(prepared.run({})[0], expected)


@pytest.mark.parametrize("operator", ["Transpose", "Neg", "Abs"])
def test_a_fold_that_does_not_grow_has_no_limit(operator: str) -> None:
    """The weights of a model are folded however large they are, also into one value of all weights."""
    weight = np.ones((20, 30), np.float32)
    nodes = [node(operator, ["w"], ["a"]), node(operator, ["v"], ["b"]), node("Concat", ["a", "b"], ["y"], axis=0)]
    proto = build(nodes, [], [Y], w=weight, v=weight)
    with limits.override(folded_elements=60):
        assert prepare(proto).native is None


def test_products_of_large_matrices_are_computed_at_run_time() -> None:
    proto = build([node("MatMul", ["w", "w"], ["y"])], [], [Y], w=np.ones((8, 8), np.float32))
    assert prepare(proto).native is None
    with limits.override(folded_products=8**3 - 1):
        assert prepare(proto).native is not None
    with limits.override(folded_products=8**3):
        assert prepare(proto).native is None


# -- settings ----------------------------------------------------------------------------------------------------------
def test_a_limit_is_set_in_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ONNX_COMPAT_LIMIT_NODES", "77")
    with limits.override(messages=5):  # reads the environment again
        assert (limits.limit("nodes"), limits.limit("messages")) == (77, 5)
        with limits.override(nodes=8):
            assert limits.limit("nodes") == 8
        assert limits.limit("nodes") == 77
    monkeypatch.delenv("ONNX_COMPAT_LIMIT_NODES")
    with limits.override():
        assert limits.limit("nodes") == limits.LIMITS["nodes"].default


@pytest.mark.parametrize("text", ["", "0", "-1", "1.5", "1e6", "many", "9" * 30, "²"])
def test_a_limit_is_a_positive_integer(text: str, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(InputError, match="not a positive integer"):
        limits.parse("nodes", text)
    monkeypatch.setenv("ONNX_COMPAT_LIMIT_NODES", text)
    with limits.override(), pytest.raises(InputError, match="not a positive integer"):
        limits.limit("nodes")


def test_a_limit_that_does_not_exist_is_refused_with_the_names() -> None:
    with pytest.raises(InputError, match="no limit 'node'") as caught:
        limits.parse("node", "1")
    assert "messages, " in str(caught.value.hint)


@pytest.mark.parametrize(
    "command",
    [
        ["support", "PATH"],
        ["run", "PATH"],
        ["verify", "PATH", "--shim", "reference"],
        ["inspect", "PATH"],
        ["convert", "PATH", "m.tflite"],
    ],
)
def test_a_limit_is_set_on_the_command_line(command: List[str], tmp_path: Path, capsys: Any) -> None:
    path = tmp_path / "m.onnx"
    path.write_bytes(many_messages().SerializeToString())
    words = [str(path) if word == "PATH" else word for word in command]
    if command[0] != "convert":  # which asks for a shim first
        assert run_command([*words, "--limit", "messages=50"]) == UNSUPPORTED
        assert "takes more than 50 messages" in capsys.readouterr().err
    assert limits.limit("messages") == limits.LIMITS["messages"].default
    for wrong in ("messages=0", "messages", "mesages=5"):
        assert run_command([*words, "--limit", wrong]) == USAGE


def test_the_page_has_the_limits_of_the_code() -> None:
    page = Path(__file__).parents[2] / "docs" / "reference" / "limits.md"
    rows = re.findall(r"^\| `(\w+)` \| `(\d+)` \| (.*) \| (.*) \|$", page.read_text(encoding="utf-8"), re.MULTILINE)
    entries = limits.LIMITS.values()
    assert rows == [(entry.name, str(entry.default), entry.counts, entry.above) for entry in entries]


# -- sizes that grow ---------------------------------------------------------------------------------------------------
def _power(count: int) -> Any:
    """Return a model that squares the sum of the sizes of its input `count` times."""
    nodes = [node("Shape", ["x"], ["s"]), node("ReduceSum", ["s"], ["v0"], keepdims=1)]
    nodes += [node("Mul", ["v%d" % k] * 2, ["v%d" % (k + 1)]) for k in range(count)]
    nodes.append(node("Mod", ["v%d" % count, "modulus"], ["y"]))
    return build(nodes, [value("x", list("abcdefgh"))], [value("y", [1], INT64)], modulus=np.array([97]))


def _make_nested(count: int) -> Any:
    """Return a model that computes v = v // 3 + 7 from a size `count` times, and makes a tensor of that size."""
    nodes = [node("Shape", ["x"], ["v0"])]
    for k in range(count):
        nodes += [node("Div", ["v%d" % k, "three"], ["d%d" % k]), node("Add", ["d%d" % k, "seven"], ["v%d" % (k + 1)])]
    nodes += [node("ConstantOfShape", ["v%d" % count], ["zeros"]), node("Shape", ["zeros"], ["y"])]
    return build(nodes, [value("x", ["n"])], [value("y", [1], INT64)], three=np.array([3]), seven=np.array([7]))


def _make_doubled(count: int) -> Any:
    """Return a model in which each size has the size before it twice: v = v // 3 * v % 1000 + v // 3."""
    nodes = [node("Shape", ["x"], ["v0"])]
    for k in range(count):
        v, d, e, f, after = "v%d" % k, "d%d" % k, "e%d" % k, "f%d" % k, "v%d" % (k + 1)
        nodes += [node("Div", [v, "three"], [d]), node("Mul", [d, v], [e]), node("Mod", [e, "modulus"], [f])]
        nodes.append(node("Add", [f, d], [after]))
    nodes += [node("ConstantOfShape", ["v%d" % count], ["zeros"]), node("Shape", ["zeros"], ["y"])]
    constants = {"three": np.array([3]), "modulus": np.array([1000])}
    return build(nodes, [value("x", ["n"])], [value("y", [1], INT64)], **constants)


@pytest.mark.parametrize("count", [1, 4, 40])
def test_a_power_of_a_sum_of_sizes(count: int) -> None:
    runnable = prepare(_power(count))
    for first in (1, 4):
        total = 7 + first
        expected = np.array([total], np.int64)
        for _ in range(count):
            expected = expected * expected  # wraps, as int64 does
        assert runnable.run([np.zeros((first, *[1] * 7), np.float32)])[0].tolist() == (expected % 97).tolist()


@pytest.mark.parametrize("make", [_make_nested, _make_doubled])
@pytest.mark.parametrize("count", [3, 15, 300])
def test_a_size_of_nested_divisions(make: Callable[[int], Any], count: int) -> None:
    runnable = prepare(make(count))
    for n in (0, 5, 1000):
        expected = n
        for _ in range(count):
            third = expected // 3
            expected = third + 7 if make is _make_nested else third * expected % 1000 + third
        assert runnable.run([np.zeros(n, np.float32)])[0].tolist() == [expected]


# -- nested loops ------------------------------------------------------------------------------------------------------
def _loops(depth: int, kind: str) -> Any:
    """Return a model of nested loops: a scan, a while loop (also with rows), or with a state that changes its size."""
    shape: Any = [None] if kind == "grow" else []

    def body(level: int) -> Any:
        state, result = "s%d" % level, "r%d" % level
        if level:
            extra = ["all%d" % level] if kind == "rows" else []
            nodes = [node("Loop", ["m", "", state], [result, *extra], body=body(level - 1))]
        else:
            nodes = [
                node("Concat", [state, state], [result], axis=0)
                if kind == "grow"
                else node("Add", [state, "one"], [result])
            ]
        condition = node("Identity", ["c%d" % level], ["go%d" % level])
        if kind in ("while", "rows"):
            condition = node("Less", [result, "many"], ["go%d" % level])
        inputs = [value("i%d" % level, [], INT64), value("c%d" % level, [], BOOL), value(state, shape)]
        outputs = [value("go%d" % level, [], BOOL), value(result, shape)]
        if kind == "rows":
            nodes.append(node("Identity", [state], ["row%d" % level]))
            outputs.append(value("row%d" % level, shape))
        return helper.make_graph([*nodes, condition], "body%d" % level, inputs, outputs)

    loop = node("Loop", ["m", "", "x"], ["y", *(["rows"] if kind == "rows" else [])], body=body(depth - 1))
    return build(
        [loop], [value("x", shape), value("m", [], INT64)], [value("y", shape)], one=np.float32(1), many=np.float32(1e6)
    )


@pytest.mark.parametrize("kind", ["scan", "while", "rows", "grow"])
def test_preparing_nested_loops_takes_time_in_proportion_to_their_depth(
    kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    traced: List[str] = []
    apply = Interpreter._apply
    monkeypatch.setattr(Interpreter, "_apply", lambda self, n, *args: traced.append(n.name) or apply(self, n, *args))
    counts = []
    for depth in (4, 8, 12, 16):
        del traced[:]
        prepare(_loops(depth, kind))
        counts.append(len(traced))
    steps = np.diff(counts)
    if kind == "grow":  # a size that changes at each level: each level is traced twice, with the inner ones once
        assert max(np.diff(steps)) == min(np.diff(steps))
    else:
        assert max(steps) == min(steps)


@pytest.mark.parametrize("kind", ["scan", "while", "rows", "grow"])
@pytest.mark.parametrize("depth", [1, 2, 3])
def test_nested_loops_compute_what_they_say(kind: str, depth: int) -> None:
    runnable = prepare(_loops(depth, kind))
    for rounds in (0, 1, 2):
        result = runnable.run({"x": np.zeros([1] if kind == "grow" else [], np.float32), "m": np.int64(rounds)})[0]
        assert (len(result) if kind == "grow" else float(result)) == (
            2 ** (rounds**depth) if kind == "grow" else rounds**depth
        )


def test_short_loops_in_short_loops_are_unrolled_up_to_a_limit() -> None:
    def primitives_of(depth: int) -> List[str]:
        proto = _loops(depth, "scan")
        proto.graph.initializer.append(numpy_helper.from_array(np.array(4), "m"))
        del proto.graph.input[1]
        runnable = prepare(proto)
        assert float(runnable.run([np.float32(0)])[0]) == 4**depth
        return [item.primitive for item in runnable.native.region.nodes]

    with limits.override(unrolled_nodes=100):
        assert primitives_of(2) == ["add"] * 16
        assert "scan" in primitives_of(5)
        assert len(primitives_of(5)) < 200


@pytest.mark.parametrize("bound", [1, 2, 5, 8, 9])
def test_only_a_loop_that_cannot_be_recorded_exceeds_the_limit_of_rounds(bound: int) -> None:
    over_tensors = _loops(1, "scan")
    del over_tensors.graph.input[1]
    over_a_sequence = long_loop_over_a_sequence()
    for rounds in range(1, 11):
        over_tensors.graph.initializer.append(numpy_helper.from_array(np.array(rounds), "m"))
        over_a_sequence.graph.initializer[0].CopyFrom(numpy_helper.from_array(np.array(rounds), "m"))
        with limits.override(unrolled_rounds=bound):
            assert float(prepare(over_tensors).run([np.float32(0)])[0]) == rounds
            if rounds > bound + 1:
                with pytest.raises(LimitError):
                    prepare(over_a_sequence)
            else:
                assert int(prepare(over_a_sequence).run([np.zeros(2, np.float32)])[0]) == rounds
        del over_tensors.graph.initializer[-1]


# -- loading -----------------------------------------------------------------------------------------------------------
def test_a_cycle_is_found_in_steps_in_proportion_to_the_model() -> None:
    """The nodes form one cycle. A quadratic search takes sixteen times as many steps for four times the nodes."""

    def steps(count: int) -> int:
        nodes = [GraphNode("Relu", ["v%d" % k], ["v%d" % ((k + 1) % count)], name="n%d" % k) for k in range(count)]
        graph = Graph("g", [], [ValueInfo("v0", None)], nodes)
        lines = 0

        def count_line(*_: Any) -> Any:
            nonlocal lines
            lines += 1
            return count_line

        tracer = sys.gettrace()
        sys.settrace(count_line)
        try:
            with pytest.raises(InvalidModelError, match=r"n0 -> n1 -> .* -> n0"):
                check_graph(graph)
        finally:
            sys.settrace(tracer)
        return lines

    assert 2000 < steps(2000) < 5 * steps(500)


def test_the_uses_of_values_are_counted_once() -> None:
    graph = onnx_compat.load(many_messages().SerializeToString()).graph
    assert graph.consumers() is graph.consumers()
    assert graph.consumers() == {"x": 41, "y": 1}


def test_the_folder_of_external_data_has_a_path_that_a_file_system_takes() -> None:
    with pytest.raises(InputError, match="1000000 characters"):
        onnx_compat.load(giant_input().SerializeToString(), folder="a/" * 500000)
