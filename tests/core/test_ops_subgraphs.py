"""Operators with subgraphs: axes and directions of scans, sequences and optionals in branches, loops that end early."""

from typing import Any, Dict, List, Optional, Sequence

import numpy as np
import pytest
from building import FLOAT, INT64, STRING, model, node, value
from onnx import TensorProto, helper

import onnx_compat
from onnx_compat.errors import InvalidModelError
from onnx_compat.execution.plan import ImmediatePlan
from onnx_compat.ir.dtypes import DType, to_public
from onnx_compat.reference.shim import SHIM

BOOL = TensorProto.BOOL


def floats(*values: Any) -> np.ndarray:
    return np.array(values, np.float32)


def run(proto: Any, *inputs: Any) -> List[Any]:
    return list(onnx_compat.prepare(proto, shim="reference").run(list(inputs)))


def graph(nodes: Sequence[Any], inputs: Sequence[Any], outputs: Sequence[Any]) -> Any:
    return helper.make_graph(list(nodes), "body", list(inputs), list(outputs))


# -- scans -------------------------------------------------------------------------------------------------------------
def running_sum() -> Any:
    """Return a body whose state is the sum of the slices so far, which is also its row output."""
    nodes = [node("Add", ["s", "x"], ["s_out"]), node("Identity", ["s_out"], ["y"])]
    return graph(nodes, [value("s", [1]), value("x", [1])], [value("s_out", [1]), value("y", [1])])


@pytest.mark.parametrize(
    ("attributes", "total", "rows"),
    [
        ({}, 6, [[1], [3], [6]]),
        ({"scan_input_directions": [1]}, 6, [[3], [5], [6]]),
        ({"scan_output_directions": [1]}, 6, [[6], [3], [1]]),
        ({"scan_output_axes": [1]}, 6, [[1, 3, 6]]),
        ({"scan_output_axes": [-1], "scan_output_directions": [1]}, 6, [[6, 3, 1]]),
    ],
)
def test_the_directions_and_axes_of_a_scan(attributes: Dict[str, Any], total: float, rows: Any) -> None:
    scan = node("Scan", ["start", "xs"], ["last", "ys"], body=running_sum(), num_scan_inputs=1, **attributes)
    proto = model([scan], [value("start", [1]), value("xs", [3, 1])], [value("last"), value("ys")], opset=11)
    last, ys = run(proto, floats(0), floats([1], [2], [3]))
    assert last.tolist() == [total]
    assert ys.tolist() == rows


def test_the_axis_of_a_scan_input() -> None:
    scan = node("Scan", ["start", "xs"], ["last", "ys"], body=running_sum(), num_scan_inputs=1, scan_input_axes=[1])
    proto = model([scan], [value("start", [1]), value("xs", [1, "n"])], [value("last"), value("ys")], opset=11)
    for count in (2, 4):
        last, ys = run(proto, floats(0), np.ones((1, count), np.float32))
        assert last.tolist() == [count] and ys.reshape(-1).tolist() == list(range(1, count + 1))


@pytest.mark.parametrize("batch", [2, "b"])
@pytest.mark.parametrize(("lengths", "sums"), [(None, [3, 30]), ([2, 1], [3, 10])])
def test_an_old_scan_runs_each_sample_to_its_length(
    batch: Any, lengths: Optional[List[int]], sums: List[float]
) -> None:
    scan = node(
        "Scan", ["lengths" if lengths else "", "start", "xs"], ["last", "ys"], body=running_sum(), num_scan_inputs=1
    )
    inputs = [value("start", [batch, 1]), value("xs", [batch, 2, 1])]
    constants = {"lengths": np.array(lengths)} if lengths else {}
    proto = model([scan], inputs, [value("last"), value("ys")], constants, opset=8)
    last, ys = run(proto, np.zeros((2, 1), np.float32), floats([[1], [2]], [[10], [20]]))
    assert last.reshape(-1).tolist() == sums
    assert ys.reshape(2, 2).tolist() == [[1, 3], [10, 0 if lengths else 30]]


def test_the_state_of_a_scan_keeps_its_type() -> None:
    nodes = [node("Unsqueeze", ["s"], ["s_out"], axes=[0]), node("Identity", ["x"], ["y"])]
    body = graph(nodes, [value("s"), value("x")], [value("s_out"), value("y")])
    scan = node("Scan", ["start", "xs"], ["last", "ys"], body=body, num_scan_inputs=1)
    proto = model([scan], [value("start", [1]), value("xs", [3, 1])], [value("last"), value("ys")], opset=11)
    with pytest.raises(InvalidModelError, match=r"a scanned state changes from .*\(1,\)\) to .*\(1, 1\)\)"):
        run(proto, floats(0), floats([1], [2], [3]))


# -- branches ----------------------------------------------------------------------------------------------------------
def branching(then_nodes: Sequence[Any], else_nodes: Sequence[Any], output: Any, opset: int = 17) -> Any:
    """Return a model y = If(c), whose branches compute the value `y_then` and `y_else` from x."""
    kind = output if isinstance(output, int) else FLOAT
    branches = {
        "then_branch": helper.make_graph(list(then_nodes), "then", [], [value("y_then", None, kind)]),
        "else_branch": helper.make_graph(list(else_nodes), "else", [], [value("y_else", None, kind)]),
    }
    opsets = [helper.make_opsetid("ai.onnx.ml", 1)]
    inputs = [value("c", [], BOOL), value("x", [2])]
    return model([node("If", ["c"], ["y"], **branches)], inputs, [value("y", None, kind)], None, opset, opsets)


X = floats(1, 2)


@pytest.mark.parametrize(
    ("else_items", "expected"),
    [
        (["x", "n"], [[1, 2], [-1, -2]]),  # of the same length: one program for both branches
        (["n"], [[-1, -2]]),  # of another length: a program for each value of the condition
    ],
)
def test_branches_that_return_sequences(else_items: List[str], expected: Any) -> None:
    proto = branching(
        [node("SequenceConstruct", ["x", "x"], ["y_then"])],
        [node("Neg", ["x"], ["n"]), node("SequenceConstruct", else_items, ["y_else"])],
        FLOAT,
    )
    proto.graph.output[0].ClearField("type")
    runnable = onnx_compat.prepare(proto, shim="reference")
    for _ in range(2):
        assert [item.tolist() for item in runnable.run([np.array(True), X])[0]] == [[1, 2], [1, 2]]
        assert [item.tolist() for item in runnable.run([np.array(False), X])[0]] == expected
    assert len(runnable._plans) == (1 if len(else_items) == 2 else 2)


def test_branches_that_return_maps() -> None:
    def build_map(source: str, name: str) -> List[Any]:
        rows = node("Reshape", [source, "shape"], [name + "_rows"])
        shape = node("Constant", [], ["shape"], value_ints=[1, 2])
        zip_map = node("ZipMap", [name + "_rows"], [name], domain="ai.onnx.ml", classlabels_strings=["a", "b"])
        return [shape, rows, zip_map]

    proto = branching(build_map("x", "y_then"), [node("Neg", ["x"], ["n"]), *build_map("n", "y_else")], FLOAT)
    assert run(proto, np.array(True), X) == [[{"a": 1, "b": 2}]]
    assert run(proto, np.array(False), X) == [[{"a": -1, "b": -2}]]


def test_branches_that_return_an_empty_optional() -> None:
    kind = helper.make_tensor_type_proto(FLOAT, [2])
    proto = branching(
        [node("Optional", [], ["y_then"], type=kind)], [node("Optional", [], ["y_else"], type=kind)], FLOAT
    )
    assert run(proto, np.array(True), X) == [None]


def test_branches_of_two_ranks_are_recorded_for_each_condition() -> None:
    axes = node("Constant", [], ["axes"], value_ints=[0])
    proto = branching([axes, node("Unsqueeze", ["x", "axes"], ["y_then"])], [node("Neg", ["x"], ["y_else"])], FLOAT)
    assert run(proto, np.array(True), X)[0].tolist() == [[1, 2]]
    assert run(proto, np.array(False), X)[0].tolist() == [-1, -2]


@pytest.mark.parametrize("outer", ["If", "Loop"])
def test_branches_of_two_ranks_in_a_subgraph_run_step_by_step(outer: str) -> None:
    """The condition of the inner If is computed within the subgraph, so that no input can be fixed."""
    choice = [
        node("ReduceMax", ["v"], ["m"], keepdims=0),
        node("Greater", ["m", "zero"], ["positive"]),
        node(
            "If",
            ["positive"],
            ["r"],
            then_branch=graph([node("Neg", ["v"], ["same"])], [], [value("same")]),
            else_branch=graph([node("ReduceSum", ["v"], ["total"], keepdims=0)], [], [value("total")]),
        ),
        node("Add", ["x", "r"], ["next"]),
    ]
    ports = [value("x", ["n"])]
    if outer == "Loop":
        body = graph(
            [*choice, node("Identity", ["c"], ["d"])],
            [value("i", [], INT64), value("c", [], BOOL), value("v")],
            [value("d", [], BOOL), value("next")],
        )
        nodes = [node("Loop", ["ten", "", "x"], ["y"], body=body)]
    else:
        nodes = [
            node("Neg", ["x"], ["v"]),
            node("ReduceMin", ["v"], ["least"], keepdims=0),
            node("Less", ["least", "zero"], ["c"]),
            node(
                "If",
                ["c"],
                ["y"],
                then_branch=graph(choice, [], [value("next")]),
                else_branch=graph([node("Identity", ["x"], ["other"])], [], [value("other")]),
            ),
        ]
    constants = {"zero": np.float32(0), "ten": np.array(10)}
    runnable = onnx_compat.prepare(model(nodes, ports, [value("y")], constants, 13), shim="reference", fallback=False)
    for x in (floats(1, 2), floats(-1, -2), np.full(5000, -1e-12, np.float32)):
        if outer == "Loop":
            expected = x
            for _ in range(10):
                expected = x + (-expected if expected.max() > 0 else expected.sum())
        else:
            expected = x - x.sum() if x.max() > 0 else x
        np.testing.assert_allclose(runnable.run([x])[0], expected, rtol=1e-4)
    assert runnable.fallbacks == []


def test_branches_of_two_dtypes_are_no_model() -> None:
    proto = branching([node("Cast", ["x"], ["y_then"], to=INT64)], [node("Neg", ["x"], ["y_else"])], FLOAT)
    with pytest.raises(InvalidModelError, match="two branches or two rounds of a loop return int64 and float32"):
        run(proto, np.array(True), X)


# -- loops -------------------------------------------------------------------------------------------------------------
def looping(constants: Dict[str, Any], inputs: Sequence[Any] = (), cond: str = "", limit: Optional[float] = 5) -> Any:
    """Return a Loop that doubles s; without a `limit` forever, else while s < limit."""
    nodes = [node("Add", ["s_in", "s_in"], ["s_out"])]
    if limit is None:
        nodes.append(node("Identity", ["c_in"], ["go"]))
    else:
        nodes.append(node("Constant", [], ["limit"], value=helper.make_tensor("limit", FLOAT, [], [limit])))
        nodes.append(node("Less", ["s_out", "limit"], ["go"]))
    loop_inputs = [value("i", [], INT64), value("c_in", [], BOOL), value("s_in", [])]
    body = graph(nodes, loop_inputs, [value("go", [], BOOL), value("s_out", [])])
    loop = node("Loop", ["m", cond, "s"], ["y"], body=body)
    return model([loop], inputs, [value("y", [])], constants)


THREE, ONE = np.array(3), np.array(1, np.float32)


def test_a_loop_of_known_values_ends_early() -> None:
    assert run(looping({"m": np.array(9), "s": ONE})) == [8]


def test_a_short_loop_whose_condition_depends_on_an_input() -> None:
    proto = looping({"m": THREE}, [value("s", [])])
    for start, expected in ((1, 8), (2, 8), (9, 18)):
        assert run(proto, np.array(start, np.float32)) == [expected]


@pytest.mark.parametrize(("condition", "expected"), [(False, 1), (True, 8)])
def test_a_loop_whose_first_condition_is_known(condition: bool, expected: float) -> None:
    proto = looping({"m": THREE, "go_on": np.array(condition)}, [value("s", [])], "go_on", None)
    assert run(proto, ONE) == [expected]


def test_a_loop_executes_operator_by_operator() -> None:
    loaded = onnx_compat.load(looping({"m": np.array(9)}, [value("s", [])]))
    ((y, dtype),) = ImmediatePlan(loaded, SHIM.executor).run({"s": (ONE, DType.of("float32"))})
    assert to_public(y, dtype).tolist() == 8


def test_a_loop_over_a_sequence_is_recorded_for_each_number_of_rounds() -> None:
    nodes = [node("SequenceInsert", ["s_in", "x"], ["s_out"]), node("Identity", ["c_in"], ["go"])]
    inputs = [value("i", [], INT64), value("c_in", [], BOOL), value("s_in")]
    body = graph(nodes, inputs, [value("go", [], BOOL), value("s_out")])
    outer = [node("SequenceEmpty", [], ["s"]), node("Loop", ["m", "", "s"], ["all"], body=body)]
    outer.append(node("SequenceLength", ["all"], ["y"]))
    proto = model(outer, [value("m", [], INT64), value("x", [2])], [value("y", [], INT64)])
    runnable = onnx_compat.prepare(proto, shim="reference")
    for rounds in (2, 0, 3, 2):
        assert runnable.run([np.array(rounds), X])[0].tolist() == rounds
    assert len(runnable._plans) == 3


def collecting(constants: Dict[str, Any], inputs: Sequence[Any] = (), cond: str = "", reads_data: bool = False) -> Any:
    """Return a Loop over a sequence and a tensor: it inserts the iteration as long as it is below 4, and gives it as row.

    The condition after an iteration depends on the input x instead if `reads_data`. The outputs are the length of the
    sequence and the rows.
    """
    nodes = [
        node("Constant", [], ["four"], value_int=4),
        node("Less", ["i", "four"], ["is_small"]),
        node("Greater", ["x", "x"], ["is_greater"]),
        node("Identity", ["is_greater" if reads_data else "is_small"], ["go"]),
        node("SequenceInsert", ["s_in", "i"], ["s_out"]),
        node("Unsqueeze", ["i", "axes"], ["row"]),
    ]
    body = graph(
        nodes,
        [value("i", [], INT64), value("c_in", [], BOOL), value("s_in")],
        [value("go", [], BOOL), value("s_out"), value("row", [1], INT64)],
    )
    outer = [
        node("SequenceEmpty", [], ["s"], dtype=INT64),
        node("Loop", ["m", cond, "s"], ["all", "rows"], body=body),
        node("SequenceLength", ["all"], ["count"]),
    ]
    outputs = [value("count", [], INT64), value("rows", None, INT64)]
    return model(outer, [*inputs, value("x", [])], outputs, {"axes": np.array([0]), **constants})


@pytest.mark.parametrize(("limit", "expected"), [(0, 0), (1, 1), (2, 2), (5, 5), (7, 5)])
def test_a_limit_of_the_run_ends_a_loop_whose_conditions_are_known(limit: int, expected: int) -> None:
    """The sequence forces the loop to be unrolled. M ends the loop before the conditions do, whenever it is known."""
    fed = onnx_compat.prepare(collecting({}, [value("m", [], INT64)]), shim="reference")
    known = onnx_compat.prepare(collecting({"m": np.array(limit)}), shim="reference")
    for count, rows in (fed.run([np.array(limit), ONE]), known.run([ONE])):
        assert count == expected
        assert rows.tolist() == [[k] for k in range(expected)]


def test_a_loop_over_a_sequence_that_does_not_begin_has_empty_rows() -> None:
    proto = collecting({"m": THREE, "never": np.array(False)}, cond="never")
    count, rows = run(proto, ONE)
    assert count == 0 and rows.shape == (0, 1) and rows.dtype == np.int64


def test_the_condition_after_the_last_iteration_need_not_be_known() -> None:
    count, rows = run(collecting({"m": np.array(1)}, reads_data=True), ONE)
    assert count == 1 and rows.tolist() == [[0]]


# -- sequences ---------------------------------------------------------------------------------------------------------
@pytest.mark.parametrize(("more", "expected"), [("pair", [[2, 4], [-1, -2]]), ("x", [[2, 4], [1, 2]])])
def test_a_body_is_applied_to_each_element(more: str, expected: Any) -> None:
    """An additional sequence gives its element, an additional tensor is passed whole."""
    body = graph([node("Add", ["a", "b"], ["sum"])], [value("a"), value("b")], [value("sum")])
    nodes = [
        node("Sub", ["x", "x"], ["zero"]),
        node("Neg", ["x"], ["n"]),
        node("SequenceConstruct", ["x", "zero"], ["first"]),
        node("SequenceConstruct", ["x", "n"], ["pair"]),
        node("SequenceMap", ["first", more], ["mapped"], body=body),
        node("ConcatFromSequence", ["mapped"], ["y"], axis=0, new_axis=1),
    ]
    assert run(model(nodes, [value("x", [2])], [value("y")], opset=17), X)[0].tolist() == expected


@pytest.mark.parametrize(("kind", "dtype"), [(INT64, "int64"), (STRING, "object")])
def test_a_body_applied_to_no_element_has_the_declared_type(kind: int, dtype: str) -> None:
    body = graph([node("Cast", ["a"], ["b"], to=kind)], [value("a")], [value("b", None, kind)])
    nodes = [
        node("SequenceEmpty", [], ["none"]),
        node("SequenceMap", ["none"], ["mapped"], body=body),
        node("Cast", ["x"], ["item"], to=kind),
        node("SequenceInsert", ["mapped", "item"], ["extended"]),
        node("SequenceLength", ["mapped"], ["length"]),
    ]
    length, extended = run(
        model(nodes, [value("x", [2])], [value("length", [], INT64), value("extended")], opset=17), X
    )
    assert length == 0 and extended[0].dtype == np.dtype(dtype)


# -- attention and training --------------------------------------------------------------------------------------------
@pytest.mark.parametrize(
    ("change", "expected"),
    [({}, [2, 4]), ({"prob_mod": "Add"}, [4, 8]), ({"score_mod": "Sub"}, [2, 4]), ({"score_mod": "Add"}, [2, 4])],
)
def test_an_attention_with_subgraphs(change: Dict[str, str], expected: List[float]) -> None:
    """Both keys are equal, so that a change of the scores alone changes nothing; doubled weights double the result."""
    bodies = {
        name: graph([node(operator, ["a", "a"], ["b"])], [value("a")], [value("b")])
        for name, operator in change.items()
    }
    attention = node("FlexAttention", ["q", "k", "v"], ["y"], domain="ai.onnx.preview", **bodies)
    constants = {"k": np.ones((1, 1, 2, 2), np.float32), "v": floats([[[1, 3], [3, 5]]])}
    opsets = [helper.make_opsetid("ai.onnx.preview", 1)]
    proto = model([attention], [value("q", [1, 1, 1, 2])], [value("y")], constants, 23, opsets)
    np.testing.assert_allclose(run(proto, np.ones((1, 1, 1, 2), np.float32))[0].reshape(-1), expected, rtol=1e-6)


@pytest.mark.parametrize("is_test", [0, 1])
def test_an_old_batch_normalization_in_training(is_test: int) -> None:
    """Training uses the mean and the variance of the batch, and returns the running mean."""
    outputs = ["y", "new_mean", "new_var", "saved_mean", "saved_var"][: 1 if is_test else 5]
    batch = node(
        "BatchNormalization", ["x", "one", "zero", "mean", "one"], outputs, is_test=is_test, epsilon=0.0, momentum=0.5
    )
    constants = {"one": floats(1), "zero": floats(0), "mean": floats(8)}
    proto = model([batch], [value("x", [2, 1])], [value(name) for name in outputs], constants, opset=6)
    y, *more = run(proto, floats([1], [3]))
    np.testing.assert_allclose(y.reshape(-1), [-7, -5] if is_test else [-1, 1], rtol=1e-5)
    assert is_test or more[0].tolist() == [5]  # 0.5 * 8 + 0.5 * 2


@pytest.mark.parametrize(("opset", "attributes"), [(6, {"is_test": 1}), (7, {})])
def test_a_dropout_of_inference_drops_nothing(opset: int, attributes: Dict[str, Any]) -> None:
    outputs = ["y", "mask"] if opset == 6 else ["y"]
    proto = model(
        [node("Dropout", ["x"], outputs, **attributes)], [value("x", [2])], [value(n) for n in outputs], opset=opset
    )
    y, *mask = run(proto, X)
    assert y.tolist() == [1, 2]
    assert [item.tolist() for item in mask] == ([[1, 1]] if opset == 6 else [])
