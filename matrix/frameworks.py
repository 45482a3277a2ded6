"""GPU support of an installed framework: its version, the CUDA version that it was built with, and the GPUs that it
sees.

A build for the CPU has an empty CUDA version.
"""

from __future__ import annotations

import importlib
import importlib.util
from typing import Any, Callable, Dict

__all__ = ["FRAMEWORKS"]


def _tensorflow() -> Dict[str, Any]:
    """Query the installed TensorFlow. Return {"version", "cuda": CUDA version, "devices": names of GPUs, "error"}.

    A build for CUDA without the version in its metadata has the CUDA version "unknown".
    """
    tf = importlib.import_module("tensorflow")
    built = dict(tf.sysconfig.get_build_info()) if hasattr(tf.sysconfig, "get_build_info") else {}
    cuda = str(built.get("cuda_version") or "unknown") if tf.test.is_built_with_cuda() else ""
    if hasattr(tf.config, "list_physical_devices"):
        devices = [device.name for device in tf.config.list_physical_devices("GPU")]
    else:  # TensorFlow 1 and 2.0
        devices = [tf.test.gpu_device_name()] if tf.test.is_gpu_available() else []
    return _make_answer(tf, cuda, devices)


def _jax() -> Dict[str, Any]:
    """Query the installed JAX. Return {"version", "cuda": CUDA version, "devices": names of GPUs, "error"}.

    The CUDA version is the major version of the CUDA plugin.
    """
    jax = importlib.import_module("jax")
    plugins = [number for number in ("13", "12") if importlib.util.find_spec("jax_cuda%s_plugin" % number)]
    error = ""
    try:
        devices = [str(device) for device in jax.devices("gpu")]
    except RuntimeError as raised:
        devices, error = [], _first_line(raised)
    return _make_answer(jax, plugins[0] if plugins else "", devices, error)


def _torch() -> Dict[str, Any]:
    """Query the installed PyTorch. Return {"version", "cuda": CUDA version, "devices": names of GPUs, "error"}."""
    torch = importlib.import_module("torch")
    devices = [torch.cuda.get_device_name(k) for k in range(torch.cuda.device_count())]
    error = ""
    try:
        torch.cuda.init()
    except (AssertionError, RuntimeError) as raised:  # a build for the CPU raises AssertionError
        devices, error = [], _first_line(raised)
    return _make_answer(torch, str(torch.version.cuda or ""), devices, error)


def _make_answer(module: Any, cuda: str, devices: Any, error: str = "") -> Dict[str, Any]:
    """Return what a framework reports about GPUs, as a dict for JSON.

    - version: the version of the imported `module`.
    - cuda: the CUDA version that the framework was built with; "" for a build for the CPU.
    - devices: the names of the GPUs that it sees.
    - error: why it sees no GPU; "" without an error.
    """
    return {"version": module.__version__, "cuda": cuda, "devices": devices, "error": error}


def _first_line(error: Exception) -> str:
    return (str(error).splitlines() or [""])[0]


FRAMEWORKS: Dict[str, Callable[[], Dict[str, Any]]] = {"tensorflow": _tensorflow, "jax": _jax, "torch": _torch}
