"""List TensorFlow's devices by the names that the core uses ("cpu:0"), and place operations on a device."""

import re
from contextlib import nullcontext
from typing import Any, ContextManager, Iterable, List, Optional

from onnx_compat_tensorflow.framework_types import TensorFlow

__all__ = ["device_names", "logical_devices", "placement"]

#: The name of a device of this process. Kinds with an underscore (XLA_CPU, TPU_SYSTEM) run no operations, and do not match.
_LOCAL = re.compile(r"(?:/job:localhost/replica:0/task:0)?/device:([A-Z]+):([0-9]+)")


def device_names(listed: Iterable[Any]) -> List[str]:
    """Return the names, such as "cpu:0", of TensorFlow device objects.

    Devices of other processes, and kinds with an underscore (XLA_CPU), which run no operations, are left out.
    """
    matches = [_LOCAL.fullmatch(device.name) for device in listed]
    return ["%s:%s" % (match.group(1).lower(), match.group(2)) for match in matches if match is not None]


def logical_devices(tf: TensorFlow) -> List[str]:
    """Return the names of the logical devices, on which eager operations and tf.functions run.

    This initialises TensorFlow's context: the device configuration cannot change afterwards.
    """
    return device_names(tf.config.experimental.list_logical_devices())


def placement(tf: TensorFlow, device: Optional[str]) -> ContextManager[Any]:
    """Return a context manager that places operations on a device such as "gpu:0".

    If `device` has the value None, the context manager does nothing.
    """
    return nullcontext() if device is None else tf.device("/device:" + device.upper())
