"""An error that a framework raises while a model runs says what is wrong, on every shim."""

import os
import re
from typing import Any

import numpy as np
import pytest
from onnx import helper

import onnx_compat
from matrix.harness.conditions import holds
from onnx_compat.errors import OnnxCompatError

FLOAT, INT = 1, 7


def model(operator: str, *inputs: Any) -> Any:
    """Return a model of one node with open sizes. An input is a pair (element type, rank)."""
    names = ["x", "y"]
    ports = [
        helper.make_tensor_value_info(name, kind, ["%s%d" % (name, axis) for axis in range(rank)])
        for name, (kind, rank) in zip(names, inputs)
    ]
    output = helper.make_tensor_value_info("z", FLOAT, None)
    node = helper.make_node(operator, names, ["z"], name="my node", **({"axis": 0} if operator == "Concat" else {}))
    graph = helper.make_graph([node], "fails", ports, [output])
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)], ir_version=7)


def array_of_ones(*shape: int) -> np.ndarray:
    return np.ones(shape, np.float32)


CASES = {
    "Gather": (model("Gather", (FLOAT, 2), (INT, 1)), [array_of_ones(2, 3), np.array([7])], r"index|indices|ind"),
    "MatMul": (model("MatMul", (FLOAT, 2), (FLOAT, 2)), [array_of_ones(2, 3), array_of_ones(2, 3)], r"\[2, ?3\]|size"),
    "Concat": (
        model("Concat", (FLOAT, 2), (FLOAT, 2)),
        [array_of_ones(2, 3), array_of_ones(2, 4)],
        r"[Dd]imension|size|shape",
    ),
    "Add": (
        model("Add", (FLOAT, 2), (FLOAT, 2)),
        [array_of_ones(2, 3), array_of_ones(3, 4)],
        r"[Ss]hape|size|broadcast",
    ),
}


def checks_indices(shim: str) -> bool:
    """Whether the framework refuses an index out of range: not JAX, and not the kernels of TFLite before 2.12."""
    if shim == "tflite":
        return not holds(["tflite-runtime<2.12"])
    return shim != "keras" or os.environ["KERAS_BACKEND"] != "jax"


def checks_sizes(shim: str) -> bool:
    """Whether CONCATENATION refuses sizes that do not match. The delegate before LiteRT 2.1.6 takes those of the first
    input.
    """
    return shim != "tflite" or not holds(["ai-edge-litert<2.1.6"])


@pytest.mark.parametrize("operator", CASES)
def test_the_reason_is_the_cause_and_no_heading(operator: str, shim_name: str) -> None:
    proto, feeds, cause = CASES[operator]
    if operator == "Gather" and not checks_indices(shim_name):
        assert onnx_compat.run(proto, feeds, shim=shim_name)[0].shape == (1, 3)
        return
    if operator == "Concat" and not checks_sizes(shim_name):
        assert onnx_compat.run(proto, feeds, shim=shim_name)[0].shape == (4, 3)
        return
    with pytest.raises(OnnxCompatError) as caught:
        onnx_compat.run(proto, feeds, shim=shim_name)
    reason = caught.value.reason
    assert "\n" not in reason and "Graph execution" not in reason and "File " not in reason
    assert not reason.rstrip().endswith(":")
    assert len(reason) < 300
    assert re.search(cause, reason), reason
    assert "TensorFlow stopped" not in reason or "operation 'my_node/" in reason
