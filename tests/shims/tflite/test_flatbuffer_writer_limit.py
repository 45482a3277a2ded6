"""Models over 2 GB, the limit of a flatbuffer: their constants are stored after the flatbuffer.

The tests lower the limit.
"""

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from onnx import TensorProto, helper, numpy_helper
from onnx_compat_tflite import features
from onnx_compat_tflite import flatbuffer as fb
from onnx_compat_tflite.flatbuffer import writer

import onnx_compat
from onnx_compat.errors import ConversionError

WEIGHTS = [np.random.RandomState(k).randn(64, 64).astype(np.float32) for k in range(2)]


def two_products() -> Any:
    nodes = [helper.make_node("MatMul", ["x", "a"], ["t"]), helper.make_node("MatMul", ["t", "b"], ["y"])]
    ends = [helper.make_tensor_value_info(name, TensorProto.FLOAT, ["n", 64]) for name in "xy"]
    stored = [numpy_helper.from_array(array, name) for array, name in zip(WEIGHTS, "ab")]
    graph = helper.make_graph(nodes, "graph", ends[:1], ends[1:], stored)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)], ir_version=8)


@pytest.fixture(name="reads")
def _reads(monkeypatch: pytest.MonkeyPatch) -> bool:
    """Lower the limit of the writer. Return whether the runtime can read constants outside of the flatbuffer."""
    reads = features.reads_outside()
    monkeypatch.setattr(writer, "LIMIT", 20000)
    return reads


def test_a_large_model_becomes_a_file_that_runs_or_is_refused(reads: bool, tmp_path: Path) -> None:
    path = tmp_path / "m.tflite"
    if not reads:
        with pytest.raises(ConversionError, match="2 GB of a flatbuffer"):
            onnx_compat.convert(two_products(), path, shim="tflite")
        assert not os.listdir(str(tmp_path))
        return
    onnx_compat.convert(two_products(), path, shim="tflite")
    data = path.read_bytes()
    for array in WEIGHTS:
        positions = [data.find(part.tobytes()) for part in (array, np.ascontiguousarray(array.T))]
        assert max(positions) > 0, "it is there, as it is or transposed"
    model = fb.read(path)
    held = [tensor.buffer for tensor in model.subgraphs[0].tensors if tensor.buffer is not None]
    assert sum(array.size == 64 * 64 for array in held) == 2
    loaded = onnx_compat.load_converted(path)
    for rows in (1, 3):
        x = np.random.RandomState(rows).randn(rows, 64).astype(np.float32)
        np.testing.assert_allclose(loaded.run({"x": x})["y"], x @ WEIGHTS[0] @ WEIGHTS[1], rtol=1e-3, atol=1e-3)


def test_a_large_model_runs_without_a_file(reads: bool) -> None:
    x = np.ones((2, 64), np.float32)
    if not reads:
        with pytest.raises(ConversionError, match="2 GB of a flatbuffer"):
            onnx_compat.run(two_products(), [x], shim="tflite")
    else:
        y = onnx_compat.run(two_products(), [x], shim="tflite")[0]
        np.testing.assert_allclose(y, x @ WEIGHTS[0] @ WEIGHTS[1], rtol=1e-3, atol=1e-3)


def test_small_constants_are_stored_inside_the_flatbuffer(tmp_path: Path) -> None:
    path = onnx_compat.convert(two_products(), tmp_path / "m.tflite", shim="tflite")
    model = fb.read(path)
    assert not fb.is_oversized(model)
    assert path.read_bytes() == fb.to_bytes(model)


@pytest.mark.parametrize("length", [10, 1000])
def test_the_bytes_of_strings_count_not_their_pointers(length: int, monkeypatch: pytest.MonkeyPatch) -> None:
    texts = np.asarray([("%d" % k).rjust(length).encode() for k in range(40)], object)
    graph = fb.SubGraph([fb.TensorSpec("t", "string", (40,), texts)], [], [], [0])
    model = fb.ModelSpec([graph])
    size = len(fb.to_bytes(model))
    for limit in (size - 1, size):
        monkeypatch.setattr(writer, "LIMIT", limit)
        assert fb.is_oversized(model) == (size > limit)


def test_two_processes_write_the_same_bytes(tmp_path: Path) -> None:
    """The order of a set of strings differs between processes and must not change the file."""
    nodes = [
        helper.make_node("If", ["f"], ["t"], then_branch=_branch("Sigmoid"), else_branch=_branch("Softplus")),
        helper.make_node("LayerNormalization", ["t", "scale"], ["l"]),
        helper.make_node("LSTM", ["seq", "w", "r"], ["", "h"], hidden_size=4),
        helper.make_node("Einsum", ["l", "l"], ["e"], equation="ij,kj->ik"),
        helper.make_node("TopK", ["e", "k"], ["v", "i"]),
    ]
    random = np.random.RandomState(0)
    stored = {
        "scale": random.randn(6).astype(np.float32), "k": np.array([1]),
        "w": random.randn(1, 16, 5).astype(np.float32), "r": random.randn(1, 16, 4).astype(np.float32),
    }  # fmt: skip
    shapes = {"f": (TensorProto.BOOL, []), "x": (TensorProto.FLOAT, ["n", 6]), "seq": (TensorProto.FLOAT, ["t", 2, 5])}
    outputs = {"h": TensorProto.FLOAT, "v": TensorProto.FLOAT, "i": TensorProto.INT64, "l": TensorProto.FLOAT}
    graph = helper.make_graph(
        nodes, "graph", [helper.make_tensor_value_info(name, *kind) for name, kind in shapes.items()],
        [helper.make_tensor_value_info(name, kind, None) for name, kind in outputs.items()],
        [numpy_helper.from_array(array, name) for name, array in stored.items()],
    )  # fmt: skip
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    (tmp_path / "m.onnx").write_bytes(model.SerializeToString())
    code = "import sys, onnx_compat; onnx_compat.convert(sys.argv[1], sys.argv[2], shim='tflite')"
    written = []
    for seed in ("1", "2", "77"):
        target = tmp_path / ("m%s.tflite" % seed)
        environment = dict(os.environ, PYTHONHASHSEED=seed)
        subprocess.run([sys.executable, "-c", code, str(tmp_path / "m.onnx"), str(target)], env=environment, check=True)
        written.append(target.read_bytes())
    assert written[0] == written[1] == written[2]


def _branch(operator: str) -> Any:
    value = helper.make_tensor_value_info("b", TensorProto.FLOAT, None)
    return helper.make_graph([helper.make_node(operator, ["x"], ["b"])], operator, [], [value])
