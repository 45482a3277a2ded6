"""LSTM, GRU and RNN of sequences without steps: the states stay as they are, in memory and in a `.keras` file."""

from pathlib import Path
from typing import Any, List

import numpy as np
import pytest
from onnx import TensorProto, helper, numpy_helper

import onnx_compat
from onnx_compat.errors import OnnxCompatError

STEPS = (2, 0, 1)


def layer(operator: str, gates: int, direction: str, has_states: bool) -> Any:
    """Return a model of one recurrent layer over an input x [steps, 2, 3], with an open number of steps."""
    count = 2 if direction == "bidirectional" else 1
    random = np.random.RandomState(0)
    shapes = {"w": (count, 2 * gates, 3), "r": (count, 2 * gates, 2), "b": (count, 4 * gates)}
    states = ["h0", "c0"][: (2 if operator == "LSTM" else 1) if has_states else 0]
    shapes.update(dict.fromkeys(states, (count, 2, 2)))
    outputs = ["y", "h", "c"][: 3 if operator == "LSTM" else 2]
    inputs = ["x", "w", "r", "b", "", *states] if has_states else ["x", "w", "r", "b"]
    node = helper.make_node(operator, inputs, outputs, hidden_size=2, direction=direction)
    graph = helper.make_graph(
        [node], "layer", [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["steps", 2, 3])],
        [helper.make_empty_tensor_value_info(name) for name in outputs],
        [numpy_helper.from_array(random.standard_normal(shape).astype(np.float32), name)
         for name, shape in shapes.items()],
    )  # fmt: skip
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 14)], ir_version=8)


def agree(results: Any, wanted: Any) -> None:
    for result, expected in zip(results, wanted):
        assert np.asarray(result).dtype == expected.dtype
        np.testing.assert_allclose(result, expected, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("has_states", [False, True])
@pytest.mark.parametrize("direction", ["forward", "reverse", "bidirectional"])
@pytest.mark.parametrize(("operator", "gates"), [("LSTM", 4), ("GRU", 3), ("RNN", 1)])
def test_a_recurrent_layer_without_steps(
    operator: str, gates: int, direction: str, has_states: bool, tmp_path: Path
) -> None:
    model = layer(operator, gates, direction, has_states)
    reference = onnx_compat.prepare(model, shim="reference")
    runnable = onnx_compat.prepare(model, shim="keras", fallback=False)
    feeds = [np.random.RandomState(1).standard_normal((steps, 2, 3)).astype(np.float32) for steps in STEPS]
    wanted: List[Any] = [list(reference.run([x])) for x in feeds]
    for x, expected in zip(feeds, wanted):
        agree(runnable.run([x]), expected)
    loaded = onnx_compat.load_converted(onnx_compat.convert(model, tmp_path / "m.keras", shim="keras"), "keras")
    for x, expected in zip(feeds, wanted):
        try:
            results = list(loaded.run([x]))
        except OnnxCompatError:  # a layer of Keras may refuse a sequence without steps
            assert not len(x)
        else:
            agree(results, expected)
