"""The argument `device=` of each shim: the names of its devices, and the error for any other name before the trace."""

import os
from typing import Any

import numpy as np
import pytest
from onnx import TensorProto, helper

import onnx_compat
from onnx_compat import backend
from onnx_compat.discovery import selection
from onnx_compat.errors import ShimError

SHIM = os.environ.get("ONNX_COMPAT_SHIM", "reference")
X = np.arange(64, dtype=np.float32).reshape(8, 8) / 64


def model() -> Any:
    nodes = [helper.make_node("MatMul", ["x", "x"], ["z"]), helper.make_node("Tanh", ["z"], ["y"])]
    ports = [helper.make_tensor_value_info(name, TensorProto.FLOAT, [8, 8]) for name in "xy"]
    graph = helper.make_graph(nodes, "squared", ports[:1], ports[1:])
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)], ir_version=7)


def test_the_model_runs_on_every_device_that_is_listed() -> None:
    shim = selection.find(SHIM)
    listed = list(shim.devices())
    assert shim.resolve_device("CPU") == listed[0]
    assert len(set(listed)) == len(listed)
    for device in listed:
        assert shim.resolve_device(device.upper()) == device
        runnable = onnx_compat.prepare(model(), SHIM, device, fallback=False)
        assert runnable.device == device
        np.testing.assert_allclose(runnable.run([X])[0], np.tanh(X @ X), rtol=1e-3)
        assert runnable.native is not None


def test_a_device_that_is_absent_is_refused_before_the_model_is_recorded(monkeypatch: pytest.MonkeyPatch) -> None:
    shim = selection.find(SHIM)
    listed = list(shim.devices())
    recorded = []
    monkeypatch.setattr(type(shim), "emitter", recorded.append)
    absent = ["nonsense", "cpu:99", "gpu:99", "CUDA:99", "/device:CPU:99", ""]
    absent += [] if any(name.startswith("gpu") for name in listed) else ["gpu", "cuda", "CUDA:0", "GPU:1"]
    for name in absent:
        with pytest.raises(ShimError) as caught:
            onnx_compat.prepare(model(), SHIM, name)
        assert caught.value.reason == "there is no device '%s'; available are: %s" % (name, ", ".join(listed))
        assert caught.value.shim == SHIM
        assert not backend.OnnxCompatBackend.supports_device(name, SHIM)
    assert recorded == []


def test_the_shim_itself_refuses_an_absent_device() -> None:
    program: Any = None
    with pytest.raises(ShimError, match="there is no device 'nonsense'"):  # before it looks at the program
        selection.find(SHIM).compile(program, "nonsense")
