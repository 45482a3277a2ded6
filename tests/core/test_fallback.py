"""The fallback: its parts run in onnxruntime, or in the reference if onnxruntime refuses them."""

import numpy as np
from building import model, node, value

from onnx_compat.execution.fallback import fallback_runnable
from onnx_compat.ir.dtypes import DType
from onnx_compat.model import load

DOUBLE = 11
FLOAT64 = DType.of("float64")


def run(nodes, inputs):
    proto = model(nodes, [value("x", [None], DOUBLE)] * len(inputs), [value("y", None, DOUBLE)], opset=15)
    for port, name in zip(proto.graph.input, inputs):
        port.name = name
    runnable = fallback_runnable(load(proto))
    feed = {name: (array, FLOAT64) for name, array in inputs.items()}
    return [runnable.run_checked(feed)[0][0] for _ in range(2)]


def test_the_reference_runs_a_part_that_onnxruntime_refuses_at_run_time() -> None:
    x, y = np.array([-4.5, 7.0]), np.array([2.0, -3.0])
    for result in run([node("Mod", ["x", "z"], ["y"])], {"x": x, "z": y}):  # onnxruntime requires fmod=1 for floats
        np.testing.assert_array_equal(result, np.mod(x, y))


def test_a_seed_draws_the_same_numbers_with_the_chances_of_the_input() -> None:
    first, again = run([node("Bernoulli", ["x"], ["y"], seed=3.0)], {"x": np.full(10000, 0.1)})
    np.testing.assert_array_equal(first, again)
    assert 800 < first.sum() < 1200
