"""Recurrent operators, branches, loops and sequences."""

import numpy as np
import pytest
from building import INT64, model, node, value
from meanings import apply_operator, meaning
from onnx import TensorProto, helper

from onnx_compat import load
from onnx_compat.ir.dtypes import DType
from onnx_compat.reference.shim import SHIM
from onnx_compat.shim.interface import Port
from onnx_compat.tracing.interpreter import Interpreter
from onnx_compat.tracing.recording import record_program
from onnx_compat.tracing.trace import Trace
from onnx_compat.tracing.values import EMPTY_OPTIONAL, SequenceValue, Tensor, lift

BOOL = TensorProto.BOOL


def trace_model(proto, *inputs):
    """Trace a graph whose inputs are known, and return its output values."""
    graph = load(proto).graph
    with Trace().active() as trace:
        results = []
        trace.region(
            [], lambda: results.extend(Interpreter().run(graph, [lift(np.asarray(item)) for item in inputs])) or []
        )
    return results


def record_model(proto, *inputs):
    """Record a graph for unknown inputs, and run it on these arrays. Return (the outputs, the names of the primitives)."""
    graph = load(proto).graph
    arrays = [np.asarray(item) for item in inputs]
    ports = [Port(item.name, DType.of(a.dtype), a.shape) for item, a in zip(graph.inputs, arrays)]
    program = record_program(lambda *xs: Interpreter().run(graph, xs), ports, SHIM.emitter())
    return SHIM.compile(program).run(arrays), [n.primitive for n in program.region.live()]


# -- recurrent networks ------------------------------------------------------------------------------------------------
STEPS = np.array([[[1.0], [1.0]], [[2.0], [2.0]], [[4.0], [4.0]]], np.float32)  # [steps, batch, input]


def run_rnn(name, opset, *inputs, **attributes):
    results = []

    def body(x):
        results.extend(meaning(name, opset)(x, *inputs, **attributes))
        return results

    program = record_program(body, [Port("x", DType.of("float32"), STEPS.shape)], SHIM.emitter())
    return SHIM.compile(program).run([STEPS])


@pytest.mark.parametrize(
    ("direction", "expected"),
    [("forward", [[1, 1], [3, 3], [7, 0]]), ("reverse", [[7, 3], [6, 2], [4, 0]])],
)
def test_an_rnn_stops_where_each_sequence_does(direction, expected):
    item = np.ones((1, 1, 1), np.float32)
    y, last = run_rnn(
        "RNN", 14, item, item, None, np.array([3, 2], np.int32), direction=direction, activations=["Relu"]
    )
    assert y.reshape(3, 2).tolist() == expected
    assert last.reshape(-1).tolist() == [7, 3]


def test_activations_take_their_parameters_in_turn():
    item = np.ones((2, 1, 1), np.float32)
    attributes = {"activations": ["Affine", "LeakyRelu"], "activation_alpha": [2.0, 0.5], "activation_beta": [1.0]}
    y, _ = run_rnn("RNN", 7, item, -0 * item, direction="bidirectional", **attributes)
    assert y[:, 0, 0, 0].tolist() == [3, 5, 9]
    assert y[:, 1, 0, 0].tolist() == [1, 2, 4]


@pytest.mark.parametrize(("linear_before_reset", "new"), [(0, 0.25 + 0.5 * 2 + 1), (1, 0.25 + 0.5 * (2 + 1))])
def test_where_a_gru_resets(linear_before_reset, new):
    """Both gates are 1/2. The state is 2; the recurrent weight and bias of the new value are 1."""
    w = np.array([[[0.0], [0.0], [0.25]]], np.float32)
    r = np.array([[[0.0], [0.0], [1.0]]], np.float32)
    b = np.array([[0, 0, 0, 0, 0, 1.0]], np.float32)
    state = np.full((1, 2, 1), 2, np.float32)
    attributes = {"activations": ["Sigmoid", "Relu"], "linear_before_reset": linear_before_reset}
    y, _ = run_rnn("GRU", 14, w, r, b, None, state, **attributes)
    assert y[0, 0, 0, 0] == pytest.approx(0.5 * new + 0.5 * 2)


def test_an_lstm_with_peepholes_and_a_clip():
    w, r = np.zeros((1, 4, 1), np.float32), np.zeros((1, 4, 1), np.float32)
    cell, p = np.full((1, 2, 1), 2, np.float32), np.array([[1.0, 0, 10.0]], np.float32)
    attributes = {"activations": ["Affine", "Affine", "Affine"], "clip": 3.0, "activation_alpha": [1.0, 1.0, 1.0]}
    y, _, c = run_rnn("LSTM", 14, w, r, None, np.ones(2, np.int32), None, cell, p, **attributes)
    assert c.reshape(-1).tolist() == [6, 6]  # forget = clip(10 * 2) = 3, nothing new
    assert y[0].reshape(-1).tolist() == [0, 0]  # the output gate sees nothing


def test_batch_first():
    item = np.ones((1, 1, 1), np.float32)
    y, last = run_rnn("RNN", 14, item, item, activations=["Relu"], layout=1)  # three sequences of two steps
    assert y.shape == (3, 2, 1, 1) and last.shape == (3, 1, 1)
    assert y.reshape(3, 2).tolist() == [[1, 2], [2, 4], [4, 8]]


# -- branches and loops ------------------------------------------------------------------------------------------------
def branching(shape):
    then = helper.make_graph([node("Add", ["x", "x"], ["t"])], "then", [], [value("t")])
    else_graph = helper.make_graph([node("Neg", ["x"], ["e"])], "else", [], [value("e")])
    proto = node("If", ["c"], ["y"], then_branch=then, else_branch=else_graph)
    return model([proto], [value("c", [], BOOL), value("x", shape)], [value("y")])


def test_a_known_condition_is_decided():
    x = np.array([1, 2], np.float32)
    for condition, expected in ((True, [2, 4]), (False, [-1, -2])):
        assert trace_model(branching([2]), condition, x)[0].value.tolist() == expected
        (y,), proto = record_model(branching([2]), condition, x)
        assert y.tolist() == expected
        assert proto == ["cond"]


def looping(more=(), row="s_out", cond_out="c_in"):
    """Return a Loop whose body computes s = s + s, the scan output `row`, and the condition `cond_out`."""
    nodes = [node("Add", ["s_in", "s_in"], ["s_out"]), node("Identity", ["c_in"], ["c_same"]), *more]
    outputs = [value("c_same" if cond_out == "c_in" else cond_out, [], BOOL), value("s_out"), value(row)]
    inputs = [value("i", [], INT64), value("c_in", [], BOOL), value("s_in")]
    body = helper.make_graph(nodes, "body", inputs, outputs)
    proto = node("Loop", ["m", "", "s"], ["last", "rows"], body=body)
    return model([proto], [value("m", [], INT64), value("s", [1])], [value("last"), value("rows")])


def test_a_loop_of_unknown_length_is_a_scan():
    start = np.array([1], np.float32)
    last, rows = trace_model(looping(), 3, start)
    assert last.value.tolist() == [8] and rows.value.tolist() == [[2], [4], [8]]
    (last, rows), proto = record_model(looping(), 3, start)
    assert last.tolist() == [8] and rows.tolist() == [[2], [4], [8]]
    assert "scan" in proto and "while_loop" not in proto


def test_a_loop_ends_itself():
    constant = helper.make_tensor("limit", TensorProto.FLOAT, [], [10.0])
    more = [
        node("Constant", [], ["limit"], value=constant),
        node("Squeeze", ["s_out"], ["only"]),
        node("Less", ["only", "limit"], ["go"]),
    ]
    start = np.array([1], np.float32)
    (last, rows), proto = record_model(looping(more, cond_out="go"), 99, start)
    assert last.tolist() == [16] and rows.tolist() == [[2], [4], [8], [16]]
    assert "while_loop" in proto


def test_a_loop_with_a_growing_state():
    more = [node("Concat", ["s_in", "s_in"], ["twice"], axis=0), node("Slice", ["twice", "zero", "two"], ["row"])]
    more[:0] = [
        node("Constant", [], ["zero"], value=helper.make_tensor("z", INT64, [1], [0])),
        node("Constant", [], ["two"], value=helper.make_tensor("t", INT64, [1], [2])),
    ]
    proto = looping(more, row="row")
    proto.graph.node[0].attribute[0].g.output[1].name = "twice"
    (last, rows), _ = record_model(proto, 3, np.array([1], np.float32))
    assert last.tolist() == [1] * 8 and rows.tolist() == [[1, 1]] * 3


@pytest.mark.parametrize("rounds", [0, 3, 20])
def test_loop_invariants_are_no_states(rounds):
    """The states are weights, as some exporters write them. The body reads them as outer values, which may be known."""
    nodes = [node("Mul", ["s_in", "w_in"], ["s_out"]), node("Identity", ["c_in"], ["c_out"])]
    nodes += [node("Identity", ["b_in"], ["b_same"]), node("Identity", ["b_same"], ["b_out"])]
    inputs = [value("i", [], INT64), value("c_in", [], BOOL), value("w_in"), value("s_in"), value("b_in")]
    outputs = [value("c_out", [], BOOL), value("w_in"), value("s_out"), value("b_out"), value("s_out")]
    body = helper.make_graph(nodes, "body", inputs, outputs)
    proto = model(
        [node("Loop", ["m", "", "w", "s", "b"], ["w_last", "last", "b_last", "rows"], body=body)],
        [value("m", [], INT64), value("s", [1]), value("b", [2])],
        [value(name) for name in ("w_last", "last", "b_last", "rows")],
        {"w": np.array([-1], np.float32)},
    )
    s, b = np.array([3], np.float32), np.array([5, 6], np.float32)
    (w_last, last, b_last, rows), names = record_model(proto, rounds, s, b)
    assert w_last.tolist() == [-1] and b_last.tolist() == [5, 6]
    assert last.tolist() == [3 * (-1) ** rounds]
    assert rows.shape == (rounds, 1) and rows[:1].tolist() == [[-3]][:rounds]
    assert "scan" in names
    ports = [
        Port(item.name, DType.of(x.dtype), x.shape) for item, x in zip(load(proto).graph.inputs, (np.int64(0), s, b))
    ]
    program = record_program(lambda *xs: Interpreter().run(load(proto).graph, xs), ports, SHIM.emitter())
    (scan,) = [item for item in program.region.nodes if item.primitive == "scan"]
    assert len(scan.outputs) == 2  # the state and its rows


def test_a_loop_without_iterations():
    last, rows = trace_model(looping(), 0, np.array([1], np.float32))
    assert last.value.tolist() == [1] and rows.shape == (0, 1)


# -- sequences and optionals -------------------------------------------------------------------------------------------
def test_sequences():
    proto = meaning("SequenceConstruct", 11)(np.array([1]), np.array([2, 3]))
    proto = meaning("SequenceInsert", 11)(proto, np.array([9]), np.array(-1))
    assert [item.value.tolist() for item in proto.items] == [[1], [9], [2, 3]]
    assert apply_operator("SequenceAt", 11, proto, np.array(-1)).tolist() == [2, 3]
    assert apply_operator("SequenceLength", 11, meaning("SequenceErase", 11)(proto)) == 2
    assert apply_operator("ConcatFromSequence", 11, proto, axis=0).tolist() == [1, 9, 2, 3]
    empty = meaning("SequenceEmpty", 11)()
    assert isinstance(empty, SequenceValue) and empty.dtype.name == "float32" and not empty.items


def test_splitting_into_a_sequence():
    x = np.arange(5)
    assert [item.value.tolist() for item in meaning("SplitToSequence", 11)(x, np.array(2)).items] == [
        [0, 1],
        [2, 3],
        [4],
    ]
    single = meaning("SplitToSequence", 11)(x, keepdims=0).items
    assert len(single) == 5 and isinstance(single[0], Tensor) and single[0].shape == ()


def test_optionals():
    assert meaning("Optional", 15)() is EMPTY_OPTIONAL
    assert not apply_operator("OptionalHasElement", 18, EMPTY_OPTIONAL) and not apply_operator("OptionalHasElement", 18)
    assert apply_operator("OptionalHasElement", 15, np.array(1))


def test_stop_words():
    normalizer = {"case_change_action": "UPPER", "stopwords": ["monday"]}
    x = np.array(["Monday", "tuesday"], object)
    assert apply_operator("StringNormalizer", 10, x, **normalizer).tolist() == ["TUESDAY"]
    assert apply_operator("StringNormalizer", 10, x, is_case_sensitive=1, **normalizer).tolist() == [
        "MONDAY",
        "TUESDAY",
    ]
    assert apply_operator("StringNormalizer", 10, x[:1].reshape(1, 1), **normalizer).tolist() == [[""]]


@pytest.mark.parametrize("name", ["RandomUniform", "RandomNormal"])
def test_random_numbers(name):
    program = record_program(lambda: [meaning(name, 22)(shape=[10000], seed=1.0)], [], SHIM.emitter())
    (x,) = SHIM.compile(program).run([])
    assert x.dtype == np.float32 and abs(x.mean() - (0.5 if name == "RandomUniform" else 0)) < 0.05
