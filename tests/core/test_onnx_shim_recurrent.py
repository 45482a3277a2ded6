"""Recurrent layers without time steps on the shim `onnx`: onnxruntime ends the process, or leaves states unwritten."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from building import INT64, model, node, value

import onnx_compat
from onnx_compat.errors import OnnxCompatError

pytest.importorskip("onnxruntime")
GATES = {"LSTM": 4, "GRU": 3, "RNN": 1}


def layer(operator: str, direction: str, by_value: bool) -> Any:
    """Return a model of a recurrent layer over x [steps, 2, 3], or over its first k steps if `by_value`."""
    count, gates = 2 if direction == "bidirectional" else 1, GATES[operator]
    random = np.random.RandomState(0)
    weights = {
        "w": random.standard_normal((count, 2 * gates, 3)).astype(np.float32),
        "r": random.standard_normal((count, 2 * gates, 2)).astype(np.float32),
        "zero": np.asarray([0]),
    }
    outputs = ["y", "h", "c"][: 3 if operator == "LSTM" else 2]
    nodes = [node("Slice", ["x", "zero", "k", "zero"], ["e"])] if by_value else []
    nodes.append(node(operator, ["e" if by_value else "x", "w", "r"], outputs, hidden_size=2, direction=direction))
    inputs = [value("x", ["steps", 2, 3]), *([value("k", [1], INT64)] if by_value else [])]
    return model(nodes, inputs, [value(name) for name in outputs], weights, opset=14)


@pytest.mark.parametrize("by_value", [False, True])
@pytest.mark.parametrize("direction", ["forward", "reverse", "bidirectional"])
@pytest.mark.parametrize("operator", sorted(GATES))
def test_a_recurrent_layer_without_steps(operator: str, direction: str, by_value: bool, tmp_path: Path) -> None:
    proto = layer(operator, direction, by_value)
    reference, runnable = (onnx_compat.prepare(proto, shim=shim) for shim in ("reference", "onnx"))
    path = onnx_compat.convert(proto, tmp_path / "m.onnx", shim="onnx")
    loaded = onnx_compat.load_converted(path, "onnx")
    for steps in (2, 0, 1, 0, 2):
        x = np.random.RandomState(steps).standard_normal((2 if by_value else steps, 2, 3)).astype(np.float32)
        feed = {"x": x, "k": np.asarray([steps])} if by_value else {"x": x}
        wanted = reference.run(feed)
        for result, expected in zip(runnable.run(feed), wanted):
            np.testing.assert_allclose(result, expected, rtol=1e-4, atol=1e-5)
        try:
            results = list(loaded.run(feed))
        except OnnxCompatError:
            assert not x.size
        else:
            for result, expected in zip(results, wanted):
                np.testing.assert_allclose(result, expected, rtol=1e-4, atol=1e-5)
