"""First steps of a user on the command line, in an environment into which pip has installed `onnx-compat[tflite]`."""

import importlib.util
import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

COMMAND = Path(sys.executable).parent / "onnx-compat"


def onnx_compat(*arguments):
    return subprocess.run([str(COMMAND), *map(str, arguments)], capture_output=True, text=True, check=False)


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    """Write a model with a convolution, a pool and a classifier. Random weights make all outputs differ."""
    random = np.random.default_rng(0)
    weights = {
        "kernel": random.normal(size=(8, 3, 3, 3)),
        "bias": random.normal(size=8),
        "classes": random.normal(size=(8, 10)),
        "offset": random.normal(size=10),
    }
    nodes = [
        helper.make_node("Conv", ["image", "kernel", "bias"], ["conv"], pads=[1, 1, 1, 1]),
        helper.make_node("Relu", ["conv"], ["relu"]),
        helper.make_node("GlobalAveragePool", ["relu"], ["pool"]),
        helper.make_node("Flatten", ["pool"], ["flat"]),
        helper.make_node("Gemm", ["flat", "classes", "offset"], ["scores"]),
    ]
    graph = helper.make_graph(
        nodes,
        "small",
        [helper.make_tensor_value_info("image", TensorProto.FLOAT, [1, 3, 16, 16])],
        [helper.make_tensor_value_info("scores", TensorProto.FLOAT, [1, 10])],
        [numpy_helper.from_array(value.astype(np.float32), name) for name, value in weights.items()],
    )
    path = tmp_path_factory.mktemp("model") / "small.onnx"
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), str(path))
    return path


def test_no_framework_is_installed_beside_the_runtime():
    assert importlib.util.find_spec("tensorflow") is None
    assert importlib.util.find_spec("ai_edge_litert") is not None


def test_the_command_converts_and_verifies(model, tmp_path):
    converted = tmp_path / "small.tflite"
    done = onnx_compat("convert", model, converted)
    assert done.returncode == 0, done.stderr
    assert converted.read_bytes()[4:8] == b"TFL3"
    checked = onnx_compat("verify", model, "--converted", converted, "--json")
    assert checked.returncode == 0, checked.stdout + checked.stderr
    assert json.loads(checked.stdout)["ok"] is True


@pytest.mark.parametrize("shim", ["reference", "tflite"])
def test_the_file_agrees_with_onnxruntime(model, shim):
    done = onnx_compat("verify", model, "--shim", shim, "--oracle", "onnxruntime")
    assert done.returncode == 0, done.stdout + done.stderr


def test_a_broken_file_is_an_error_and_leaves_nothing(model, tmp_path):
    broken = tmp_path / "broken.onnx"
    broken.write_bytes(model.read_bytes()[:200])
    done = onnx_compat("convert", broken, tmp_path / "broken.tflite")
    assert done.returncode == 3, done.stderr
    assert [path.name for path in tmp_path.iterdir()] == ["broken.onnx"]


def test_doctor_names_what_is_here():
    done = onnx_compat("doctor")
    assert done.returncode == 0, done.stderr
    assert "tflite" in done.stdout
