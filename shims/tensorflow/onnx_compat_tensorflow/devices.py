"""TensorFlow's devices, logical devices included, by the names that the core uses ("cpu:0")."""

import re
from contextlib import nullcontext
from typing import Any, ContextManager, Iterable, List, Optional

from onnx_compat_tensorflow.framework_types import TensorFlow

__all__ = ["device_names", "logical_devices", "placement"]

#: A device of this process. Operations run on no kind with an underscore (XLA_CPU, TPU_SYSTEM).
_LOCAL = re.compile(r"(?:/job:localhost/replica:0/task:0)?/device:([A-Z]+):([0-9]+)")


def device_names(listed: Iterable[Any]) -> List[str]:
    """Return names like "cpu:0" of the local devices among those that TensorFlow lists."""
    matches = [_LOCAL.fullmatch(device.name) for device in listed]
    return ["%s:%s" % (match.group(1).lower(), match.group(2)) for match in matches if match is not None]


def logical_devices(tf: TensorFlow) -> List[str]:
    """Return the devices of eager execution and of functions. Listing them initialises TensorFlow's context."""
    return device_names(tf.config.experimental.list_logical_devices())


def placement(tf: TensorFlow, device: Optional[str]) -> ContextManager[Any]:
    """Return a context that places operations on a device; None leaves the choice to TensorFlow."""
    return nullcontext() if device is None else tf.device("/device:" + device.upper())
