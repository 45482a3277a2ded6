"""NonMaxSuppression: when TFLite's kernel is used, and that it selects the boxes of ONNX in their order."""

from functools import lru_cache
from typing import Any, List, Optional

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

import onnx_compat

CASES = {
    "whole numbers": lambda r, n: r.randint(0, 6, (2, n, 4)),  # of equal overlaps, turned, and without an area
    "thirds": lambda r, n: r.randint(0, 6, (2, n, 4)) / np.float32(3),
    "any": lambda r, n: r.uniform(0, 10, (2, n, 4)),
    "cut off": lambda r, n: np.clip(r.uniform(-3, 4, (2, n, 4)), 0, 1),
    "all the same": lambda r, n: np.broadcast_to([0, 0, 1, 1], (2, n, 4)),
    "infinite": lambda r, n: np.where(r.rand(2, n, 4) < 0.1, np.inf, r.uniform(0, 3, (2, n, 4))),
    "not numbers": lambda r, n: np.where(r.rand(2, n, 4) < 0.1, np.nan, r.uniform(0, 3, (2, n, 4))),
}


def model(
    limit: int = 5,
    overlap: Optional[float] = 0.5,
    threshold: Optional[float] = 0.3,
    centre: int = 0,
    boxes: Any = 30,
    counted: bool = False,
) -> onnx.ModelProto:
    """Return a NonMaxSuppression on two images and three classes.

    `counted`: add an output with the number of selected boxes.
    """
    held = {"limit": np.array([limit], np.int64), "overlap": overlap, "threshold": threshold}
    given = [name if held[name] is not None else "" for name in held]
    constants = [
        numpy_helper.from_array(np.reshape(np.asarray(v, np.int64 if k == "limit" else np.float32), (1,)), k)
        for k, v in held.items()
        if v is not None
    ]
    nodes = [helper.make_node("NonMaxSuppression", ["boxes", "scores", *given], ["y"], center_point_box=centre)]
    outputs = [helper.make_tensor_value_info("y", TensorProto.INT64, [None, 3])]
    if counted:
        nodes += [
            helper.make_node("Shape", ["y"], ["size"]),
            helper.make_node("ConstantOfShape", ["size"], ["zeros"]),
        ]
        outputs.append(helper.make_tensor_value_info("zeros", TensorProto.FLOAT, [None, 3]))
    inputs = [
        helper.make_tensor_value_info("boxes", TensorProto.FLOAT, [2, boxes, 4]),
        helper.make_tensor_value_info("scores", TensorProto.FLOAT, [2, 3, boxes]),
    ]
    graph = helper.make_graph(nodes, "g", inputs, outputs, constants)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 11)], ir_version=7)


def builtins(proto: onnx.ModelProto, path: Any) -> List[str]:
    from onnx_compat_tflite import flatbuffer as fb

    file = fb.read(str(onnx_compat.convert(proto, str(path / "model.tflite"))))
    return [operator.builtin for graph in file.subgraphs for operator in graph.operators]


@lru_cache(maxsize=None)
def prepare_both(*arguments: Any, **named: Any) -> List[Any]:
    """Return `model` with these arguments, prepared on tflite and on the reference: once for all boxes."""
    return [onnx_compat.prepare(model(*arguments, **named), shim=shim) for shim in ("tflite", "reference")]


def agrees(runnables: List[Any], boxes: Any, scores: Any) -> Any:
    feeds = {"boxes": np.asarray(boxes, np.float32), "scores": np.asarray(scores, np.float32)}
    actual, expected = (runnable.run(feeds) for runnable in runnables)
    for array, other_array in zip(actual, expected):
        np.testing.assert_array_equal(array, other_array)
    return actual[0]


def test_each_class_of_each_image_is_one_kernel(tmp_path: Any) -> None:
    result = builtins(model(), tmp_path)
    assert result.count("NON_MAX_SUPPRESSION_V4") == 6
    assert "WHILE" not in result


@pytest.mark.parametrize("kind", CASES)
@pytest.mark.parametrize("centre", [0, 1])
@pytest.mark.parametrize("overlap", [None, 0.0, 0.25, 1 / 3, 0.999])
def test_the_boxes_are_those_of_onnx(kind: str, centre: int, overlap: Optional[float]) -> None:
    random = np.random.RandomState(0)
    for limit, threshold in ((1, 0.3), (5, None), (1000, 0.0), (30, 0.6)):
        runnables = prepare_both(limit, overlap, threshold, centre)
        agrees(runnables, CASES[kind](random, 30), random.randint(0, 8, (2, 3, 30)) / 8)  # many scores are equal


def test_the_first_of_equal_scores_is_chosen_and_a_box_without_an_area_once() -> None:
    boxes = np.tile([[[0, 0, 1, 1], [2, 2, 2, 3], [0, 0, 1, 1]] * 10], (2, 1, 1))
    result = agrees(prepare_both(limit=30), boxes, np.full((2, 3, 30), 0.5))
    assert result[result[:, 0] + result[:, 1] == 0][:, 2].tolist() == [0, *range(1, 30, 3)]


def test_nan_scores_are_below_the_threshold() -> None:
    random = np.random.RandomState(1)
    scores = random.uniform(0.4, 1, (2, 3, 30))
    scores[:, :, ::4] = np.nan
    result = agrees(prepare_both(limit=30), random.uniform(0, 20, (2, 30, 4)), scores)
    assert len(result)
    assert (result[:, 2] % 4 != 0).all()


def test_a_suppression_without_boxes() -> None:
    assert agrees(prepare_both(threshold=0.9), np.zeros((2, 30, 4)), np.zeros((2, 3, 30))).shape == (0, 3)


def test_the_limit_may_be_an_input_of_zero(tmp_path: Any) -> None:
    model_spec = model()
    model_spec.graph.initializer.remove(
        next(constant for constant in model_spec.graph.initializer if constant.name == "limit")
    )
    model_spec.graph.input.append(helper.make_tensor_value_info("limit", TensorProto.INT64, [1]))
    loaded = onnx_compat.load_converted(onnx_compat.convert(model_spec, tmp_path / "m.tflite"))
    reference = onnx_compat.prepare(model_spec, shim="reference")
    random = np.random.RandomState(0)
    fed = {"boxes": CASES["any"](random, 30).astype(np.float32), "scores": random.rand(2, 3, 30).astype(np.float32)}
    for limit in (2, 0, 50):
        fed["limit"] = np.array([limit])
        np.testing.assert_array_equal(loaded.run(fed)["y"], reference.run(fed)["y"])


def test_the_number_of_boxes_needs_no_second_suppression(tmp_path: Any) -> None:
    assert "WHILE" not in builtins(model(counted=True), tmp_path)
    random = np.random.RandomState(2)
    agrees(prepare_both(counted=True), random.uniform(0, 10, (2, 30, 4)), random.uniform(0, 1, (2, 3, 30)))


@pytest.mark.parametrize("given", [{"overlap": 1.0}, {"boxes": "n"}])
def test_cases_that_the_kernel_lacks_are_composed(given: Any, tmp_path: Any) -> None:
    assert "NON_MAX_SUPPRESSION_V4" not in builtins(model(**given), tmp_path)
    random = np.random.RandomState(3)
    agrees(prepare_both(**given), random.uniform(0, 10, (2, 30, 4)), random.uniform(0, 1, (2, 3, 30)))
