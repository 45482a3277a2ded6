"""Axes without elements: every shim gives the results of the reference or a typed error, in memory and in each of its files."""

from pathlib import Path
from typing import Any, Dict, Iterator, List, Sequence, Tuple

import numpy as np
import pytest
from onnx import TensorProto, helper, numpy_helper

import onnx_compat
from onnx_compat.discovery import selection
from onnx_compat.errors import OnnxCompatError, UnexpectedError

FLOAT, INT64 = TensorProto.FLOAT, TensorProto.INT64
Feed = Dict[str, np.ndarray]
node = helper.make_node


def build(nodes: Sequence[Any], shapes: Dict[str, Sequence[Any]], weights: Any = ()) -> Any:
    """Return a model of these nodes. `shapes`: input name -> shape; the inputs "i" and "k" are int64, the others float32."""
    ports = [
        helper.make_tensor_value_info(name, INT64 if name in ("i", "k") else FLOAT, shape)
        for name, shape in shapes.items()
    ]
    initializers = [numpy_helper.from_array(np.asarray(array), name) for name, array in dict(weights).items()]
    graph = helper.make_graph(nodes, "graph", ports, [helper.make_empty_tensor_value_info("y")], initializers)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 14)], ir_version=8)


def runners(model: Any, shim_name: str, folder: Path) -> Iterator[Any]:
    """Yield what runs a model on a shim: a Runnable, and each file that the shim writes and loads."""
    yield onnx_compat.prepare(model, shim=shim_name)
    for form, (suffix, _) in selection.find(shim_name).formats.items():
        try:
            path = onnx_compat.convert(model, folder / ("model_%s%s" % (form, suffix)), to=form, shim=shim_name)
        except OnnxCompatError:  # a format may lack an operator
            continue
        yield onnx_compat.load_converted(path, shim_name)


def outcome(runner: Any, feed: Feed) -> List[np.ndarray]:
    """Return the outputs of a run; [] for a typed error. An error that was not foreseen, and any other, propagates."""
    try:
        return [np.asarray(array) for array in runner.run(feed)]
    except UnexpectedError:
        raise
    except OnnxCompatError:
        return []


def check(model: Any, feeds: Sequence[Feed], shim_name: str, folder: Path) -> List[List[bool]]:
    """Assert that each result is that of the reference. Return for each runner whether each feed gave a result."""
    reference = onnx_compat.prepare(model, shim="reference")
    wanted = [outcome(reference, feed) for feed in feeds]
    answered = []
    for runner in runners(model, shim_name, folder):
        results = [outcome(runner, feed) for feed in feeds]
        for expected, arrays in zip(wanted, results):
            assert expected or not arrays, "the reference raises an error"
            for array, correct in zip(arrays, expected):
                assert array.dtype == correct.dtype
                np.testing.assert_allclose(array, correct, rtol=1e-4, atol=1e-5)
        answered.append([bool(arrays) for arrays in results])
    return answered


def zeros(**shapes: Tuple[int, ...]) -> Feed:
    return {name: np.zeros(shape, np.int64 if name in ("i", "k") else np.float32) for name, shape in shapes.items()}


@pytest.mark.parametrize("operator", ["ArgMax", "ArgMin"])
@pytest.mark.parametrize("axis", [0, 1])
def test_an_empty_axis_has_no_extreme(operator: str, axis: int, shim_name: str, tmp_path: Path) -> None:
    model = build([node(operator, ["x"], ["y"], axis=axis)], {"x": ["n", "m"]})
    shapes = [(2, 3), (0, 0), (0, 2) if axis == 0 else (2, 0), (2, 0) if axis == 0 else (0, 2), (3, 2)]
    assert check(model, [zeros(x=shape) for shape in shapes], shim_name, tmp_path)[0] == [True, True, False, True, True]


@pytest.mark.parametrize("operator", ["ArgMax", "ArgMin"])
def test_an_axis_that_values_make_empty_has_no_extreme(operator: str, shim_name: str, tmp_path: Path) -> None:
    nodes = [node("Slice", ["x", "zero", "k", "one"], ["e"]), node(operator, ["e"], ["y"], axis=1, keepdims=0)]
    model = build(nodes, {"x": [2, 3], "k": [1]}, {"zero": [0], "one": [1]})
    feeds = [{"x": np.float32([[1, 3, 2], [0, -1, 5]]), "k": np.array([k])} for k in (3, 0, 1)]
    assert check(model, feeds, shim_name, tmp_path)[0] == [True, False, True]


@pytest.mark.parametrize("count", [0, 1, 3])
@pytest.mark.parametrize("operator", ["GatherND", "ScatterND"])
def test_coordinates_of_length_zero(operator: str, count: int, shim_name: str, tmp_path: Path) -> None:
    """Each coordinate selects the whole of x."""
    shapes: Dict[str, Sequence[Any]] = {"x": [2, 3], "i": ["n", 0]}
    if operator == "ScatterND":
        shapes["u"] = ["n", 2, 3]
    model = build([node(operator, list(shapes), ["y"])], shapes)
    feed = zeros(x=(2, 3), i=(count, 0), u=(count, 2, 3))
    feed = {name: feed[name] for name in shapes}
    for k, name in enumerate(name for name in feed if name != "i"):
        feed[name] = np.arange(feed[name].size, dtype=np.float32).reshape(feed[name].shape) + k
    (has_result,) = check(model, [feed], shim_name, tmp_path)[0]
    assert has_result or operator == "ScatterND", "only scatter operators may refuse such coordinates"
