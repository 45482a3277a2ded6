"""The argument `device=` with several devices: `run`, `native`, loops, eager execution and weights use the given device."""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

SHIM = os.environ["ONNX_COMPAT_SHIM"]
BACK_END = os.environ.get("KERAS_BACKEND", "tensorflow") if SHIM == "keras" else SHIM
#: Logical devices of TensorFlow and virtual ones of JAX. torch has one CPU: there "meta" is the default of torch and of
#: Keras, so a tensor that is made without a device has no values.
DEVICE, LISTED = {
    "torch": ("cpu:0", ["cpu:0"]),
    "jax": ("cpu:3", ["cpu:%d" % number for number in range(8)]),
}.get(BACK_END, ("cpu:2", ["cpu:0", "cpu:1", "cpu:2"]))


@pytest.fixture(name="report", scope="module")
def _report() -> Any:
    environment = dict(os.environ, CUDA_VISIBLE_DEVICES="-1", JAX_PLATFORMS="cpu", KERAS_TORCH_DEVICE="meta")
    if SHIM == "keras":
        environment["KERAS_BACKEND"] = BACK_END
    environment["XLA_FLAGS"] = os.environ.get("XLA_FLAGS", "") + " --xla_force_host_platform_device_count=8"
    command = [sys.executable, str(Path(__file__).parent / "helpers" / "on_device.py"), SHIM, DEVICE]
    done = subprocess.run(
        command, env=environment, capture_output=True, encoding="utf-8", errors="replace", check=False
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout.splitlines()[-1])


def test_logical_devices_are_listed(report: Any) -> None:
    assert report["devices"] == LISTED
    assert report["device"] == DEVICE


def test_all_tensors_are_on_the_device(report: Any) -> None:
    kinds = {"run", "native", "whole", "loop", "made"}
    kinds |= set() if SHIM == "tf1" else {"executed"}
    kinds |= {"variables"} if SHIM == "tf2" else set()
    assert set(report["places"]) == kinds
    expected = {DEVICE.partition(":")[0] if BACK_END == "torch" else DEVICE}
    assert {kind: set(devices) for kind, devices in report["places"].items()} == dict.fromkeys(kinds, expected)
