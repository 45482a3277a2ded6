"""Nodes whose bounds, pads, ratios or counts only a run knows, and texts and sequences, at opsets without their operator.

onnxruntime runs the results; the reference runs the sources.
"""

from typing import Any, Dict, List, NamedTuple

import numpy as np
import onnx
import pytest
from building import BOOL, FLOAT, INT64, STRING, model, node, require_opset, value
from onnx import helper

import onnx_compat
from onnx_compat import primitives as p
from onnx_compat.ir.dtypes import DType, float32
from onnx_compat.onnx_shim.emission import write_program
from onnx_compat.onnx_shim.emitter import OnnxEmitter
from onnx_compat.onnx_shim.operator_sets import OperatorOffer
from onnx_compat.retarget.conversion import plan, retarget
from onnx_compat.shim import Port
from onnx_compat.tracing.recording import record_program

X = (np.arange(60, dtype=np.float32).reshape(3, 4, 5) % 7) - 3


def run_in_onnxruntime(proto: Any, feed: Dict[str, Any]) -> List[Any]:
    onnxruntime = pytest.importorskip("onnxruntime")
    onnx.checker.check_model(proto, full_check=True)
    session = onnxruntime.InferenceSession(proto.SerializeToString(), providers=["CPUExecutionProvider"])
    return list(session.run(None, feed))


def agree(source: Any, target: int, feed: Dict[str, Any]) -> Any:
    """Bring a model to a target. Assert that onnxruntime gives the outputs of the source. Return the result."""
    result = retarget(source, target)
    for got, want in zip(run_in_onnxruntime(result, feed), onnx_compat.run(source, feed, shim="reference")):
        if isinstance(want, list):
            assert len(got) == len(want)
            assert all(np.array_equal(a, b) for a, b in zip(got, want))
        elif np.asarray(want).dtype.kind == "f":
            np.testing.assert_allclose(got, want, 1e-5, 1e-6)
        else:
            assert got.shape == np.shape(want)
            assert got.tolist() == np.asarray(want).tolist()
    return result


def build(built: Any, feed: Dict[str, Any], opset: int, is_open: bool = False) -> Any:
    """Return a model of one node. Its inputs are those of the feed; `is_open`: their sizes are not declared."""
    ports = [value(name, [None if is_open else n for n in array.shape], kind_of(array)) for name, array in feed.items()]
    outputs = [onnx.ValueInfoProto(name=name) for name in built.output]
    proto = model([built], ports, outputs, opset=opset)
    results = onnx_compat.run(proto, feed, shim="reference")
    for port, result in zip(proto.graph.output, results):
        port.CopyFrom(value(port.name, [None] * np.ndim(result), kind_of(np.asarray(result))))
    return proto


def kind_of(array: np.ndarray) -> int:
    return STRING if array.dtype.kind in "OU" else DType.of(array.dtype).onnx


SLICES = [
    {"s": [1, 0], "e": [3, 2]},
    {"s": [-2], "e": [2**63 - 1], "a": [-1]},
    {"s": [20, -1], "e": [-100, -(2**63)], "a": [1, 2], "t": [-1, -2]},
    {"s": [0, 4, 1], "e": [5, 1, 9], "a": [2, 0, 1], "t": [3, 1, 2]},
    {"s": [0], "e": [1000], "a": [0], "t": [2]},
]


@pytest.mark.parametrize("is_open", [False, True])
@pytest.mark.parametrize("bounds", SLICES)
def test_bounds_axes_and_steps_of_a_slice(bounds: Any, is_open: bool) -> None:
    feed = {"x": X, **{name: np.asarray(numbers, np.int64) for name, numbers in bounds.items()}}
    agree(build(node("Slice", list(feed), ["y"]), feed, 13, is_open=is_open), 9, feed)


@pytest.mark.parametrize("mode", ["constant", "edge", "reflect"])
@pytest.mark.parametrize("first", [0, -1])
@pytest.mark.parametrize("axes", [[2, -3], [-2]])
def test_axes_and_sizes_of_a_pad(axes: Any, first: int, mode: str) -> None:
    require_opset(18)
    feed = {"x": X, "p": np.arange(first, first + 2 * len(axes)), "v": np.asarray(7, np.float32), "a": np.asarray(axes)}
    agree(build(node("Pad", ["x", "p", "v", "a"], ["y"], mode=mode), feed, 18), 9, feed)


@pytest.mark.parametrize("target", [9, 11])
@pytest.mark.parametrize(("ratio", "is_training"), [(0.0, True), (0.75, False), (1.0, True)])
def test_ratio_and_mode_of_a_dropout(ratio: float, is_training: bool, target: int) -> None:
    feed = {"x": X, "r": np.asarray(ratio, np.float32), "t": np.asarray(is_training)}
    agree(build(node("Dropout", ["x", "r", "t"], ["y", "m"]), feed, 13), target, feed)


def test_a_dropout_drops_a_part_of_the_elements() -> None:
    feed = {"x": np.ones((100, 100), np.float32), "r": np.asarray(0.25, np.float32), "t": np.asarray(True)}
    proto = model(
        [node("Dropout", ["x", "r", "t"], ["y", "m"], seed=3)],
        [value("x", [100, 100]), value("r", []), value("t", [], BOOL)],
        [value("y", [100, 100]), value("m", [100, 100], BOOL)],
    )
    result, mask = run_in_onnxruntime(retarget(proto, 11), feed)
    assert 0.7 < mask.mean() < 0.8
    np.testing.assert_allclose(result, mask / 0.75, 1e-6)


def test_the_ratio_of_a_dropout_without_effect_may_be_an_input() -> None:
    feed = {"x": X, "r": np.asarray(0.5, np.float32)}
    result = agree(build(node("Dropout", ["x", "r"], ["y", "m"]), feed, 13), 11, feed)
    assert "RandomUniformLike" not in [entry.op_type for entry in result.graph.node]


@pytest.mark.parametrize("target", [9, 17])
@pytest.mark.parametrize("mode", ["linear", "cubic"])
@pytest.mark.parametrize("bounds", [{"scales": [1, 0.3, 1.5]}, {"sizes": [3, 2, 3]}, {"sizes": [3, 6, 1]}])
@pytest.mark.parametrize("exclude_outside", [0, 1])
def test_scales_and_sizes_of_an_antialiased_resize(bounds: Any, mode: str, target: int, exclude_outside: int) -> None:
    require_opset(18)
    ((name, numbers),) = bounds.items()
    feed = {"x": X, "b": np.asarray(numbers, np.float32 if name == "scales" else np.int64)}
    inputs = ["x", "", "b"] if name == "scales" else ["x", "", "", "b"]
    resize = node("Resize", inputs, ["y"], mode=mode, antialias=1, exclude_outside=exclude_outside)
    agree(build(resize, feed, 18), target, feed)


@pytest.mark.parametrize("dtype", [np.float32, np.int64, np.uint64, np.int32])
@pytest.mark.parametrize(("axis", "largest"), [(1, 1), (-1, 0), (0, 0)])
@pytest.mark.parametrize("count", [0, 2, 3])
def test_a_count_of_largest_elements(count: int, axis: int, largest: int, dtype: Any) -> None:
    numbers = np.asarray(X if dtype is not np.uint64 else X + 3, dtype)
    feed = {"x": numbers, "k": np.asarray([count])}
    agree(build(node("TopK", ["x", "k"], ["y", "i"], axis=axis, largest=largest), feed, 11), 9, feed)


@pytest.mark.parametrize("attributes", [{}, {"sorted": 0}, {"axis": 0}, {"axis": -1, "sorted": 0}])
@pytest.mark.parametrize("dtype", [np.float32, np.int64])
def test_distinct_elements_and_slices(attributes: Any, dtype: Any) -> None:
    feed = {"x": np.asarray([[1, 2, 1], [0, -3, 0], [1, 2, 1], [0, -3, -4]], dtype)}
    agree(build(node("Unique", ["x"], ["y", "i", "v", "c"], **attributes), feed, 11), 9, feed)


class Texts(NamedTuple):
    """A node on texts, at an opset, and the texts."""

    node: Any
    opset: int
    texts: Any
    domain: int = 0


WEEK = ["monday", "", "sunday", "monday", "müde"]
TEXTS = [
    Texts(node("StringNormalizer", ["x"], ["y"], is_case_sensitive=1, stopwords=["monday", ""]), 10, WEEK),
    Texts(node("StringNormalizer", ["x"], ["y"], is_case_sensitive=1, stopwords=["monday"]), 10, ["monday"]),
    Texts(
        node("LabelEncoder", ["x"], ["y"], domain="ai.onnx.ml", keys_strings=["müde", "sunday"], values_int64s=[7, 9]),
        21, WEEK, 4,
    ),
]  # fmt: skip


@pytest.mark.parametrize("texts", TEXTS, ids=[entry.node.op_type for entry in TEXTS])
def test_texts_are_compared_with_texts_of_the_model_by_their_counts(texts: Texts) -> None:
    require_opset(texts.opset)
    array = np.asarray(texts.texts, object)
    kind = INT64 if texts.domain else STRING
    extra = [helper.make_opsetid("ai.onnx.ml", texts.domain)] if texts.domain else []
    outputs = [value("y", [None] * array.ndim, kind)]
    for shape in (array.shape, [None] * array.ndim):
        source = model([texts.node], [value("x", shape, STRING)], outputs, opset=texts.opset, extra_opsets=extra)
        result = agree(source, 9, {"x": array})
        assert "TfIdfVectorizer" in [entry.op_type for entry in result.graph.node]
        if None in shape:
            agree(source, 9, {"x": array[:0]})


@pytest.mark.parametrize(
    "built",
    [
        node("RegexFullMatch", ["x"], ["y"], pattern="a+"),
        node("StringConcat", ["x", "x"], ["y"]),
        node("StringSplit", ["x"], ["y", "n"], delimiter=","),
    ],
    ids=lambda built: built.op_type,
)
def test_operators_of_no_texts_give_constants(built: Any) -> None:
    require_opset(20)
    feed = {"x": np.zeros((2, 0), object)}
    agree(build(built, feed, 20), 9, feed)
    some = model([built], [value("x", [2, 1], STRING)], [onnx.ValueInfoProto(name="y")], opset=20)
    assert plan(some, 9).counts["refused"] == 1


@pytest.mark.parametrize("shape", [[3, 0, 2], [-1, 4], [0, 0]])
def test_a_tensor_without_elements_gets_any_shape(shape: Any) -> None:
    require_opset(14)
    feed = {"x": np.zeros((0, 4), np.float32), "s": np.asarray(shape)}
    agree(build(node("Reshape", ["x", "s"], ["y"], allowzero=1), feed, 14), 9, feed)


def sequence(name: str, shape: Any, dtype: int = FLOAT) -> Any:
    return helper.make_tensor_sequence_value_info(name, dtype, shape)


PARTS = [np.float32([1, 2]), np.float32([]), np.float32([3])]


@pytest.mark.parametrize("target", [11, 13])
@pytest.mark.parametrize("parts", [PARTS, []])
def test_a_sequence_is_copied_by_insertion_and_erasure(parts: Any, target: int) -> None:
    require_opset(14)
    source = model([node("Identity", ["s"], ["y"])], [sequence("s", [None])], [sequence("y", [None])], opset=14)
    agree(source, target, {"s": parts})


def appending_loop(shape: Any) -> Any:
    """Return a model with a Loop that appends x[0], x[:1], … x[:n] to a sequence of tensors with this shape."""
    body = helper.make_graph(
        [
            node("Unsqueeze", ["i", "zero"], ["end"]),
            node("Slice", ["x", "zero", "end"], ["part"]),
            node("SequenceInsert", ["before", "part"], ["after"]),
            node("Identity", ["c"], ["d"]),
            node("Identity", ["i"], ["number"]),
        ],
        "body",
        [value("i", [], INT64), value("c", [], BOOL), sequence("before", None)],
        [value("d", [], BOOL), sequence("after", None), value("number", [], INT64)],
    )
    return model(
        [node("Loop", ["n", "", "s"], ["t", "numbers"], body=body)],
        [value("x", shape), value("n", [], INT64), sequence("s", shape)],
        [sequence("t", shape), value("numbers", [None], INT64)], {"zero": [0]},
    )  # fmt: skip


@pytest.mark.parametrize("count", [0, 3])
@pytest.mark.parametrize("parts", [PARTS, []])
def test_a_loop_carries_a_sequence_of_vectors_as_tensors(parts: Any, count: int) -> None:
    require_opset(18)
    source = appending_loop([None])
    feed = {"x": np.float32([5, 6, 7]), "n": np.asarray(count), "s": parts}
    result = agree(source, 11, feed)
    assert any("its sequences are written as tensors" in note for note in plan(source, 11).notes)
    assert not any(port.type.HasField("sequence_type") for port in result.graph.node[-2].attribute[0].g.output)


def test_a_sequence_of_matrices_is_not_carried_as_tensors() -> None:
    assert plan(appending_loop([None, 2]), 11).counts["refused"] == 1


@pytest.mark.parametrize("flag", [True, False])
def test_a_branch_gives_a_sequence_of_vectors_as_tensors(flag: bool) -> None:
    branches = {
        "then_branch": helper.make_graph(
            [node("SequenceConstruct", ["x", "x"], ["a"])], "a", [], [sequence("a", None)]
        ),
        "else_branch": helper.make_graph([node("SequenceEmpty", [], ["b"])], "b", [], [sequence("b", None)]),
    }
    source = model(
        [node("If", ["f"], ["y"], **branches)], [value("f", [], BOOL), value("x", [2])], [sequence("y", [2])]
    )
    agree(source, 11, {"f": np.asarray(flag), "x": np.float32([1, 2])})


@pytest.mark.parametrize("flag", [True, False])
@pytest.mark.parametrize("operator", ["HardSwish", "StringNormalizer"])
def test_a_branch_that_never_runs_becomes_a_copy_of_the_other(operator: str, flag: bool) -> None:
    """Opset 9 requires one shape of both branches, and has no StringNormalizer."""
    require_opset(14)
    dead = [node("HardSwish", ["w"], ["dead"])]
    if operator == "StringNormalizer":
        lower = node("StringNormalizer", ["words"], ["u"], case_change_action="LOWER")
        dead = [lower, node("Shape", ["u"], ["s"]), node("Cast", ["s"], ["dead"], to=FLOAT)]
    graphs = [
        helper.make_graph([node("HardSwish", ["x"], ["a"])], "runs", [], [value("a")]),
        helper.make_graph(dead, "rest", [], [value("dead")]),
    ]
    branches = dict(zip(("then_branch", "else_branch") if flag else ("else_branch", "then_branch"), graphs))
    ports = [value("x", [2, 3]), value("w", [4, 3]), value("words", [2], STRING)]
    source = model([node("If", ["f"], ["y"], **branches)], ports, [value("y", [2, 3])], {"f": flag}, opset=14)
    feed = {"x": X[0, :2, :3], "w": X[0, :, :3], "words": np.asarray(["A", "B"], object)}
    result = agree(source, 9, feed)
    inner = [attribute.g for attribute in result.graph.node[0].attribute]
    assert inner[0].node[:] == inner[1].node[:]
    never = [entry for entry in plan(source, 9).nodes if "never runs" in entry.reason]
    assert [entry.operator for entry in never] == [entry.op_type for entry in dead]


@pytest.mark.parametrize("axis", [0, -2])
def test_branches_of_different_shapes_have_no_declared_shape_in_opset_9(axis: int) -> None:
    """The axis of a real DFT decides the shape of its result. Both shape inferences must accept the branches."""
    require_opset(20)
    feed = {"x": np.arange(24, dtype=np.float32).reshape(4, 6, 1), "a": np.asarray(axis)}
    proto = model(
        [node("DFT", ["x", "", "a"], ["y"], onesided=1)],
        [value("x", [4, 6, 1]), value("a", [], INT64)], [value("y", [None] * 3)], opset=20,
    )  # fmt: skip
    agree(proto, 9, feed)


def test_a_loop_without_states_has_a_state_in_opset_9() -> None:
    port = Port("x", float32, ("n", 3))
    emitter = OnnxEmitter(OperatorOffer(9))
    program = record_program(lambda x: p.scan(lambda row: [p.relu(row)], [], [x], x.shape[0]), [port], emitter)
    proto = write_program(program, 9)
    assert [len(entry.input) for entry in proto.graph.node if entry.op_type == "Loop"] == [3]
    (result,) = run_in_onnxruntime(proto, {"x": X[0, :, :3]})
    np.testing.assert_array_equal(result, np.maximum(X[0, :, :3], 0))
