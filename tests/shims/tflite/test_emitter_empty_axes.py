"""Axes that values make empty at run time: no kernel ends the process, in memory, in a file, with and without XNNPACK."""

from pathlib import Path
from typing import Any, Iterator, List, Sequence

import numpy as np
import pytest
from onnx import TensorProto, helper, numpy_helper
from onnx_compat_tflite import flatbuffer as fb
from programs import names, run_model

import onnx_compat
from onnx_compat import primitives as p

SHAPE = (2, 3, 4)
node = helper.make_node


def build_emptied(axis: int, by: str, nodes: Sequence[Any]) -> Any:
    """Return a model that keeps k elements along an axis of x, and applies `nodes` to these, from "e" to "y".

    `by`: the operator that keeps them: "Slice" or "TopK".
    """
    first = node("TopK", ["x", "k"], ["e", "positions"], axis=axis)
    if by == "Slice":
        first = node("Slice", ["x", "zero", "k", "axis"], ["e"])
    weights = {"zero": [0], "axis": [axis]}
    graph = helper.make_graph(
        [first, *nodes],
        "emptied",
        [
            helper.make_tensor_value_info("x", TensorProto.FLOAT, SHAPE),
            helper.make_tensor_value_info("k", TensorProto.INT64, [1]),
        ],
        [helper.make_empty_tensor_value_info("y")],
        [numpy_helper.from_array(np.asarray(array), name) for name, array in weights.items()],
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


def feeds(counts: Sequence[int]) -> List[Any]:
    x = np.random.RandomState(0).standard_normal(SHAPE).astype(np.float32)
    return [[x, np.asarray([count])] for count in counts]


def check(model: Any, folder: Path, counts: Sequence[int] = (2, 0, 1, 0, 2)) -> None:
    """Assert that each number of kept elements gives the results of the reference."""
    reference = onnx_compat.prepare(model, shim="reference")
    path = onnx_compat.convert(model, folder / "model.tflite", shim="tflite")
    runners = [onnx_compat.prepare(model, shim="tflite", fallback=False), onnx_compat.load_converted(path)]
    for feed in feeds(counts):
        wanted = reference.run(feed)[0]
        results = [runner.run(feed)[0] for runner in runners] + [run_model(fb.read(str(path)), feed)[0]]
        for result in results:
            assert result.dtype == wanted.dtype
            np.testing.assert_allclose(result, wanted, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("by", ["Slice", "TopK"])
@pytest.mark.parametrize("emptied_axis", [0, 1, 2])
@pytest.mark.parametrize("axis", [0, 1, 2])
@pytest.mark.parametrize("operator", ["Softmax", "LogSoftmax", "Hardmax"])
def test_a_softmax_of_an_axis_that_values_make_empty(
    operator: str, axis: int, emptied_axis: int, by: str, tmp_path: Path
) -> None:
    check(build_emptied(emptied_axis, by, [node(operator, ["e"], ["y"], axis=axis)]), tmp_path)


@pytest.mark.parametrize("by", ["Slice", "TopK"])
def test_a_softmax_of_float16(by: str, tmp_path: Path) -> None:
    half, single = TensorProto.FLOAT16, TensorProto.FLOAT
    nodes = [node("Cast", ["e"], ["c"], to=half), node("Softmax", ["c"], ["s"]), node("Cast", ["s"], ["y"], to=single)]
    check(build_emptied(2, by, nodes), tmp_path)


def branches() -> Iterator[Any]:
    """Yield the branches of an If, of which the first applies a Softmax to the value "e" of the main graph."""
    for name, operator in (("then_branch", "Softmax"), ("else_branch", "Neg")):
        inner = [node(operator, ["e"], [name])]
        yield name, helper.make_graph(inner, name, [], [helper.make_empty_tensor_value_info(name)])


def test_a_softmax_inside_a_branch(tmp_path: Path) -> None:
    nodes = [
        node("Greater", ["k", "zero"], ["more"]),
        node("Not", ["more"], ["flags"]),
        node("Squeeze", ["flags"], ["flag"]),
        node("If", ["flag"], ["y"], **dict(branches())),
    ]
    check(build_emptied(2, "Slice", nodes), tmp_path)


@pytest.mark.parametrize("rank", [1, 2, 6])
def test_a_softmax_of_any_rank(rank: int, tmp_path: Path) -> None:
    """Rank 6 has no kernel of SOFTMAX."""
    shapes = {1: [-1], 2: [6, -1], 6: [2, 3, 1, 1, 1, -1]}
    model = build_emptied(2, "Slice", [node("Reshape", ["e", "shape"], ["r"]), node("Softmax", ["r"], ["y"])])
    model.graph.initializer.append(numpy_helper.from_array(np.asarray(shapes[rank]), "shape"))
    check(model, tmp_path)


@pytest.mark.parametrize(
    ("shape", "function", "is_guarded"),
    [
        ((2, 3), lambda x: p.softmax(p.relu(x), 1), False),
        ((None, None), lambda x: p.softmax(p.relu(x), 1), False),
        ((None, None), lambda x: p.softmax(p.concat([x, x], 1), 1), False),
        ((None, None), lambda x: p.softmax(p.slice_axis(x, 1, 0, None, 2), 1), False),
        ((None, None), lambda x: p.softmax(p.slice_axis(x, 1, 1, None), 1), True),
        ((None, None), lambda x: p.softmax(p.slice_axis(x, 1, 1, None), 0), False),
    ],
    ids=["static", "an input", "two inputs", "every second", "all but the first", "another axis"],
)
def test_only_an_axis_that_may_become_empty_has_a_guard(shape: Any, function: Any, is_guarded: bool) -> None:
    operators = names(function, shape, fed=[(2, 3)])
    before = operators[: operators.index("SOFTMAX")]
    assert ("MAXIMUM" in before) is is_guarded
    if is_guarded:
        names(function, shape, fed=[(2, 1)])
