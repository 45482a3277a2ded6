"""Recurrent networks: which form each takes, and that all forms give the same numbers, also the second time."""

from typing import Any, Dict, List, Sequence

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper
from onnx_compat_tflite import flatbuffer as fb

import onnx_compat

GATES = {"LSTM": 4, "GRU": 3, "RNN": 1}


def network(operator: str, steps: Any, batch: Any, lengths: bool = False, cells: int = 6, **attributes: Any) -> Any:
    random = np.random.RandomState(0)
    directions, gates = 1 + (attributes.get("direction") == "bidirectional"), GATES[operator]
    shapes = {"w": (gates * cells, 5), "r": (gates * cells, cells), "b": (2 * gates * cells,)}
    held = [
        numpy_helper.from_array(random.uniform(-0.7, 0.7, (directions, *shape)).astype(np.float32), name)
        for name, shape in shapes.items()
    ]
    inputs = [helper.make_tensor_value_info("x", TensorProto.FLOAT, [steps, batch, 5])]
    inputs += [helper.make_tensor_value_info("lengths", TensorProto.INT32, [batch])] * lengths
    names = ["x", "w", "r", "b"] + ["lengths"] * lengths
    results = ["y", "y_h"] + ["y_c"] * (operator == "LSTM")
    node = helper.make_node(operator, names, results, hidden_size=cells, **attributes)
    outputs = [helper.make_tensor_value_info(name, TensorProto.FLOAT, None) for name in results]
    graph = helper.make_graph([node], operator, inputs, outputs, held)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 14)], ir_version=8)


def feeds(steps: int, batch: int, lengths: Sequence[int] = ()) -> Dict[str, Any]:
    found: Dict[str, Any] = {"x": np.random.RandomState(steps).standard_normal((steps, batch, 5)).astype(np.float32)}
    if lengths:
        found["lengths"] = np.array(lengths, np.int32)
    return found


def agree(model: Any, *fed: Dict[str, Any]) -> None:
    """One file, for all of these."""
    prepared, reference = (onnx_compat.prepare(model, shim=name) for name in ("tflite", "reference"))
    for given in fed:
        for found, wanted in zip(prepared.run(given), reference.run(given)):
            np.testing.assert_allclose(found, wanted, rtol=1e-4, atol=1e-5)


def builtins(model: Any, path: Any) -> List[List[str]]:
    onnx.save(model, str(path / "m.onnx"))
    found = fb.read(str(onnx_compat.convert(str(path / "m.onnx"), str(path / "m.tflite"))))
    return [[one.builtin for one in graph.operators] for graph in found.subgraphs]


# -- loops -------------------------------------------------------------------------------------------------------------
@pytest.mark.parametrize("direction", ["forward", "reverse", "bidirectional"])
@pytest.mark.parametrize("operator", ["LSTM", "GRU", "RNN"])
def test_any_length_and_batch(operator: str, direction: str) -> None:
    """Rounds of several steps, and what is left over: less than a round, a whole one, one more."""
    model = network(operator, "t", "n", direction=direction)
    agree(model, *[feeds(steps, batch) for steps in (2, 1, 4, 5, 6, 7, 12, 13, 0, 31) for batch in (1, 3)])


@pytest.mark.parametrize("operator", ["LSTM", "GRU", "RNN"])
def test_any_length_of_each_sequence(operator: str) -> None:
    model = network(operator, "t", "n", lengths=True, direction="bidirectional")
    agree(model, feeds(9, 3, [9, 1, 6]), feeds(2, 2, [0, 2]), feeds(20, 1, [17]))


@pytest.mark.parametrize("steps", [200, 211])
def test_a_long_sequence_is_a_loop_of_few_rounds(steps: int, tmp_path: Any) -> None:
    model = network("GRU", steps, 2, direction="bidirectional", linear_before_reset=1)
    assert "WHILE" in builtins(model, tmp_path)[0]
    agree(model, feeds(steps, 2))


def test_a_scan_that_only_hands_on() -> None:
    """A body without a node, and a row of a type that few kernels take."""
    names = ("state", "row")
    rows = [helper.make_tensor_value_info(name, TensorProto.UINT32, [2]) for name in names]
    body = helper.make_graph([], "body", rows, rows)
    node = helper.make_node("Scan", ["state_in", "rows"], ["last", "collected"], body=body, num_scan_inputs=1)
    shapes = {"state_in": [2], "rows": ["t", 2], "last": [2], "collected": ["t", 2]}
    ports = [helper.make_tensor_value_info(name, TensorProto.UINT32, shape) for name, shape in shapes.items()]
    model = helper.make_model(helper.make_graph([node], "scan", ports[:2], ports[2:]), ir_version=8)
    model.opset_import[0].version = 16
    for steps in (1, 70):
        fed = {"state_in": np.array([3, 4], np.uint32), "rows": np.arange(2 * steps, dtype=np.uint32).reshape(steps, 2)}
        last, collected = onnx_compat.prepare(model, shim="tflite").run(fed)
        np.testing.assert_array_equal(last, fed["state_in"])
        np.testing.assert_array_equal(collected, fed["rows"])
