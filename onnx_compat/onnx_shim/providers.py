"""The execution providers of the installed onnxruntime, as devices."""

import re
from typing import Dict, List

from onnx_compat.ir.dtypes import DType
from onnx_compat.onnx_shim.emission import write_values
from onnx_compat.onnx_shim.emitter import OnnxEmitter
from onnx_compat.onnx_shim.graph_builder import Value
from onnx_compat.onnx_shim.operator_sets import OLDEST, OperatorOffer
from onnx_compat.onnx_shim.runtime import open_session

__all__ = ["CPU", "device_providers", "provider_sequence"]

CPU = "CPUExecutionProvider"
#: Provider without the suffix, in lower case -> its device, where the device has another name.
_DEVICES = {"cuda": "gpu", "rocm": "gpu"}
#: The provider that sends some custom operators to a service: it is no device.
_SERVICE = "AzureExecutionProvider"

#: Provider -> whether a session can use it on this machine: it may be built in, and its driver or its device absent.
_USABLE: Dict[str, bool] = {}


def device_providers() -> Dict[str, str]:
    """Return device name -> execution provider, for those that a session can use on this machine. "cpu" is the first.

    The name of a device is the name of its provider in lower case, without "ExecutionProvider": "tensorrt", "coreml".
    CUDA and ROCm are "gpu". onnxruntime does not tell the number of the devices: each provider has one, its default.

    A trial opens a session of one node with each provider; its outcome is kept for the life of the process.
    """
    import onnxruntime

    devices = {"cpu": CPU}
    for provider in onnxruntime.get_available_providers():
        if provider in (CPU, _SERVICE):
            continue
        name = re.sub("[^a-z]", "", re.sub("ExecutionProvider$", "", provider).lower())
        if provider not in _USABLE:
            _USABLE[provider] = _opens(provider)
        if name and _USABLE[provider]:
            devices.setdefault(_DEVICES.get(name, name), provider)
    return devices


def _opens(provider: str) -> bool:
    emitter = OnnxEmitter(OperatorOffer(OLDEST))
    x = Value(DType.of("float32"), (1,))
    y = emitter.builder.call("Exp", [x], [Value(x.dtype, x.shape)], {})
    content = write_values(emitter, [x], y, ["x"], ["y"]).SerializeToString()
    try:
        open_session(content, [provider, CPU], is_trial=True)
    except Exception:  # noqa: BLE001 (its errors have no common base)
        return False
    return True


def provider_sequence(device: str) -> List[str]:
    """Return the execution providers of a device in order: its own, then the CPU for nodes that it cannot run.

    `device`: a key of `device_providers`.
    """
    provider = CPU if device == "cpu" else device_providers()[device]
    return [CPU] if provider == CPU else [provider, CPU]
