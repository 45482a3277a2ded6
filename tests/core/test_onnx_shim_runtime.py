"""Probes of the installed onnxruntime by the shim `onnx`: the IR version that it reads, and its execution providers."""

from typing import Any, Dict, List

import numpy as np
import onnx
import pytest
from building import relu_model
from old_runtime import age, forget_probes

import onnx_compat
from onnx_compat.errors import ShimError
from onnx_compat.onnx_shim import runtime
from onnx_compat.onnx_shim.providers import provider_sequence
from onnx_compat.onnx_shim.shim import SHIM

onnxruntime = pytest.importorskip("onnxruntime")

X = np.array([[-1, 0, 2]], np.float32)


def test_an_older_ir_version_is_written_where_onnxruntime_reads_no_newer_one(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Any
) -> None:
    forget_probes(monkeypatch)
    opset = runtime.runtime_offer().opset
    assert runtime.newest_ir_version() >= SHIM.write_carriers(_program()).ir_version
    tried_versions: List[int] = []

    def refuses(proto: Any) -> bool:
        tried_versions.append(proto.ir_version)
        return bool(proto.ir_version > 6)

    age(monkeypatch, refuses)
    assert runtime.newest_ir_version() == 6
    assert runtime.runtime_offer().opset == opset, "the operator sets do not depend on the IR version"
    assert SHIM.write_carriers(_program()).ir_version == 6
    np.testing.assert_array_equal(onnx_compat.run(relu_model(), [X], shim="onnx")[0], np.maximum(X, 0))
    path = onnx_compat.convert(relu_model(), tmp_path / "m.onnx", to="onnx", shim="onnx")
    assert onnx.load(str(path)).ir_version == 6
    count = len([version for version in tried_versions if version > 6])
    runtime.newest_ir_version()
    assert count == len([version for version in tried_versions if version > 6]), "the answer is kept"


def test_an_onnxruntime_that_reads_no_known_ir_version_is_not_available(monkeypatch: pytest.MonkeyPatch) -> None:
    age(monkeypatch, lambda proto: True)
    probe = SHIM.probe()
    assert not probe.available and "reads no model of IR version 4 or later" in probe.reason


def _program() -> Any:
    return onnx_compat.execution.support.program_of(relu_model(), "onnx")


class Hardware:
    """The execution providers of an onnxruntime, and those whose device is there. Sessions compute on the CPU."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, built_in: List[str], present: List[str]) -> None:
        forget_probes(monkeypatch)
        session: Any = onnxruntime.InferenceSession
        used = self.used = []  # type: List[List[str]]

        class Placed(session):  # type: ignore[misc]  # onnxruntime has no types
            def __init__(self, content: bytes, options: Any, providers: List[str], **kwargs: Any) -> None:
                super().__init__(content, options, providers=["CPUExecutionProvider"])
                used.append(list(providers))
                self._placed = [name for name in providers if name in (*present, "CPUExecutionProvider")]

            def get_providers(self) -> List[str]:
                return self._placed

        monkeypatch.setattr(onnxruntime, "InferenceSession", Placed)
        names = [name + "ExecutionProvider" for name in built_in]
        monkeypatch.setattr(onnxruntime, "get_available_providers", lambda: [*names, "CPUExecutionProvider"])


DEVICES: Dict[str, str] = {
    "CUDA": "gpu",
    "ROCM": "gpu",
    "Tensorrt": "tensorrt",
    "MIGraphX": "migraphx",
    "Dml": "dml",
    "CoreML": "coreml",
    "OpenVINO": "openvino",
    "WebGPU": "webgpu",
}


@pytest.mark.parametrize("name", DEVICES)
def test_a_device_is_an_execution_provider(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    provider, device = name + "ExecutionProvider", DEVICES[name]
    hardware = Hardware(monkeypatch, ["Azure", name], [provider])
    assert SHIM.devices() == ["cpu", device]
    assert provider_sequence(device) == [provider, "CPUExecutionProvider"]
    for device_name in {device, device.upper() + ":0", *(["cuda", "ROCM"] if device == "gpu" else [])}:
        runnable = onnx_compat.prepare(relu_model(), shim="onnx", device=device_name)
        assert runnable.device == device and hardware.used[-1] == [provider, "CPUExecutionProvider"]
        np.testing.assert_array_equal(runnable.run([X])[0], np.maximum(X, 0))
    onnx_compat.prepare(relu_model(), shim="onnx")
    assert hardware.used[-1] == ["CPUExecutionProvider"]


def test_a_provider_without_its_device_is_absent(monkeypatch: pytest.MonkeyPatch) -> None:
    """A build for GPUs names its providers on a machine without a GPU too, and its sessions then use the CPU."""
    hardware = Hardware(monkeypatch, ["Tensorrt", "CUDA", "OpenVINO"], ["OpenVINOExecutionProvider"])
    for name in ("gpu", "CUDA:0", "tensorrt", "openvino:1", "azure", "npu"):
        with pytest.raises(ShimError) as caught:
            onnx_compat.prepare(relu_model(), shim="onnx", device=name)
        assert caught.value.reason == "there is no device '%s'; available are: cpu, openvino" % name
    trials = len(hardware.used)
    SHIM.devices()
    assert len(hardware.used) == trials, "the answers are kept"


@pytest.mark.filterwarnings("ignore:Specified provider:UserWarning")
def test_the_installed_onnxruntime_does_not_replace_a_provider_by_the_cpu(monkeypatch: pytest.MonkeyPatch) -> None:
    forget_probes(monkeypatch)
    has = onnxruntime.get_available_providers()
    monkeypatch.setattr(onnxruntime, "get_available_providers", lambda: ["NoSuchExecutionProvider", *has])
    assert "nosuch" not in SHIM.devices() and SHIM.devices()[0] == "cpu"
