"""A `.keras` file that plain Keras loads, calls and predicts with: no warnings, and no errors in the log of TensorFlow."""

import os
import subprocess
import sys
from pathlib import Path
from typing import Any, List

import keras
import numpy as np
import pytest
from onnx import ModelProto, TensorProto, helper, numpy_helper

import onnx_compat

_USE = """
import sys, warnings
import numpy as np
import keras
warnings.simplefilter("error")
warnings.filterwarnings("ignore", category=DeprecationWarning)  # of numpy, in Keras
model = keras.saving.load_model(sys.argv[1], safe_mode=True)
data = np.load(sys.argv[2])
model(data["x"])
np.testing.assert_allclose(model.predict(data["x"], verbose=0), data["y"], 1e-4, 1e-5)
assert all(name in [layer.name for layer in model.layers] for name in sys.argv[3:])
"""


def network() -> ModelProto:
    """Return a network of fused patterns: convolutions with activations of several nodes, normalisations, a branch, a loop."""
    random = np.random.RandomState(0)

    def numbers(*shape: int) -> np.ndarray:
        return (random.standard_normal(shape) * 0.3).astype(np.float32)

    weights = {
        "w1": numbers(8, 3, 3, 3), "b1": numbers(8), "w2": numbers(8, 8, 1, 1), "v": np.abs(numbers(8)) + 1,
        "w3": numbers(8, 4), "b3": numbers(4), "zero": np.float32(0), "rounds": np.int64(20), "yes": np.array(True),
        "part": np.float32(0.9),
    }  # fmt: skip
    nodes: List[Any] = [
        helper.make_node("Conv", ["x", "w1", "b1"], ["c1"], name="stem/Conv", pads=[1, 1, 1, 1]),
        helper.make_node("BatchNormalization", ["c1", "b1", "b1", "b1", "v"], ["n1"], name="stem/BN"),
        helper.make_node("HardSwish", ["n1"], ["h1"], name="stem/HardSwish"),
        helper.make_node("Conv", ["h1", "w2"], ["c2"], name="point/Conv"),
        helper.make_node("Gelu", ["c2"], ["g2"], name="point/Gelu"),
        helper.make_node("Add", ["g2", "h1"], ["a2"], name="residual"),
        helper.make_node("GlobalAveragePool", ["a2"], ["p"], name="pool"),
        helper.make_node("Flatten", ["p"], ["f"], name="flat"),
        helper.make_node("Gemm", ["f", "w3", "b3"], ["d"], name="head/Gemm"),
    ]
    inner = [helper.make_tensor_value_info(name, TensorProto.FLOAT, None) for name in ("then", "else")]
    branches = [
        helper.make_graph([helper.make_node("Relu", ["d"], ["then"])], "then", [], inner[:1]),
        helper.make_graph([helper.make_node("Neg", ["d"], ["else"])], "else", [], inner[1:]),
    ]
    ports = [helper.make_tensor_value_info(*port) for port in (("k", 7, []), ("go", 9, []), ("h", 1, ["n", 4]))]
    results = [helper.make_tensor_value_info(*port) for port in (("on", 9, []), ("s", 1, ["n", 4]))]
    steps = [helper.make_node("Mul", ["h", "part"], ["s"]), helper.make_node("Identity", ["go"], ["on"])]
    nodes += [
        helper.make_node("ReduceSum", ["d"], ["total"], keepdims=0),
        helper.make_node("Less", ["zero", "total"], ["positive"]),
        helper.make_node("If", ["positive"], ["i"], name="choice", then_branch=branches[0], else_branch=branches[1]),
        helper.make_node(
            "Loop", ["rounds", "yes", "i"], ["y"], name="decay", body=helper.make_graph(steps, "b", ports, results)
        ),
    ]
    x, y = (helper.make_tensor_value_info(*port) for port in (("x", 1, ["n", 3, 8, 8]), ("y", 1, None)))
    initializers = [numpy_helper.from_array(np.asarray(array), name) for name, array in weights.items()]
    graph = helper.make_graph(nodes, "network", [x], [y], initializers)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)], ir_version=9)


def test_plain_keras_uses_a_file_in_silence(tmp_path: Path) -> None:
    path = tmp_path / "m.keras"
    if not hasattr(keras.ops, "scan"):  # then neither are switch and while_loop
        with pytest.raises(onnx_compat.UnsupportedError):
            onnx_compat.convert(network(), path)
        return
    onnx_compat.convert(network(), path)
    x = np.random.RandomState(1).standard_normal((5, 3, 8, 8)).astype(np.float32)
    y = onnx_compat.prepare(network(), shim="reference").run([x])[0]
    np.savez(str(tmp_path / "data.npz"), x=x, y=y)
    names = ["stem_Conv", "stem_BN", "stem_HardSwish", "point_Conv", "point_Gelu", "residual", "pool", "head_Gemm"]
    command = [sys.executable, "-c", _USE, str(path), str(tmp_path / "data.npz"), *names]
    env = dict(os.environ, JAX_ENABLE_X64="1", TF_CPP_MIN_LOG_LEVEL="0")
    done = subprocess.run(command, capture_output=True, text=True, check=False, env=env)
    assert done.returncode == 0, done.stderr
    assert "remapper" not in done.stderr
    assert "Warning" not in done.stderr
