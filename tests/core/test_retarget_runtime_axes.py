"""Nodes whose axes are inputs of the model, at opsets that have the axes as attributes."""

from typing import Any, List

import numpy as np
import onnx
import pytest
from building import INT64, model, node, require_opset, value

import onnx_compat
from onnx_compat.retarget.conversion import plan, retarget

X = (np.arange(24, dtype=np.float32).reshape(2, 3, 4) % 7) / 4 + 0.5
CASES: List[Any] = [
    (node(operator, ["x", "a"], ["y"], keepdims=keepdims), X, [axes])
    for operator in ("ReduceMax", "ReduceMean", "ReduceL2", "ReduceSumSquare", "ReduceLogSum", "ReduceLogSumExp")
    for keepdims, axes in ((0, [-1, 0]), (1, [1]))
]
CASES += [
    (node("ReduceSum", ["x", "a"], ["y"]), X, [[0, 2]]),
    (node("ReduceMin", ["x", "a"], ["y"]), X, [[]]),
    (node("ReduceL1", ["x", "a"], ["y"], noop_with_empty_axes=1), -X, [[]]),
    (node("Squeeze", ["x", "a"], ["y"]), X[:1], [[0]]),
    (node("Squeeze", ["x", "a"], ["y"]), X[:, :1], [[-2]]),
    (node("Unsqueeze", ["x", "a"], ["y"]), X, [[0, -1]]),
]


@pytest.mark.parametrize("target", [9, 12])
@pytest.mark.parametrize(("built", "data", "axes"), CASES, ids=lambda part: getattr(part, "op_type", None))
def test_axes_may_be_known_at_run_time_only(built: Any, data: np.ndarray, axes: Any, target: int) -> None:
    require_opset(18)
    onnxruntime = pytest.importorskip("onnxruntime")
    source = model(
        [built], [value("x", list(data.shape)), value("a", [len(axes[0])], INT64)], [onnx.ValueInfoProto(name="y")],
        opset=18,
    )  # fmt: skip
    result = onnx.shape_inference.infer_shapes(retarget(source, target))
    feed = {"x": data, "a": np.asarray(axes[0], np.int64)}
    session = onnxruntime.InferenceSession(result.SerializeToString(), providers=["CPUExecutionProvider"])
    (want,) = onnx_compat.run(source, feed, shim="reference")
    np.testing.assert_allclose(session.run(None, feed)[0], want, 1e-5)


@pytest.mark.parametrize(
    ("built", "names"),
    [
        (node("Pad", ["x", "p", "", "a"], ["y"], mode="edge"), {"p": [1, 2], "a": [-1]}),
        (node("Split", ["x", "s"], ["y", "z"], axis=-1), {"s": [1, 3]}),
    ],
    ids=["Pad", "Split"],
)
def test_pads_and_sizes_may_be_known_at_run_time_only(built: Any, names: Any) -> None:
    require_opset(19)
    ports = [value("x", [2, 3, 4]), *(value(name, [len(numbers)], INT64) for name, numbers in names.items())]
    source = model([built], ports, [onnx.ValueInfoProto(name=name) for name in built.output], opset=19)
    result = retarget(source, 11)
    feed = {"x": X, **{name: np.asarray(numbers, np.int64) for name, numbers in names.items()}}
    for got, want in zip(*(onnx_compat.run(proto, feed, shim="reference") for proto in (result, source))):
        np.testing.assert_array_equal(got, want)


@pytest.mark.parametrize(("built", "data", "axes"), CASES, ids=lambda part: getattr(part, "op_type", None))
def test_a_target_without_the_needed_operators_is_refused(built: Any, data: np.ndarray, axes: Any) -> None:
    """Compress, Where and NonZero begin with opset 9: no other nodes compute the result below."""
    require_opset(18)
    ports = [value("x", list(data.shape)), value("a", [len(axes[0])], INT64)]
    source = model([built], ports, [onnx.ValueInfoProto(name="y")], opset=18)
    assert plan(source, 7).counts["refused"] == 1
