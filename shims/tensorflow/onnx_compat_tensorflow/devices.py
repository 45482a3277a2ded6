"""Where a model runs."""

from typing import Any, Optional

from onnx_compat.errors import UnsupportedError

__all__ = ["device_name"]


def device_name(tf: Any, device: Optional[str]) -> Optional[str]:
    """TensorFlow's name of 'cpu', 'gpu' or 'gpu:1'; None leaves the choice to TensorFlow."""
    if device is None:
        return None
    kind, _, number = device.upper().partition(":")
    if kind not in ("CPU", "GPU") or not (number or "0").isdigit():
        raise UnsupportedError("there is no device '%s'" % device, hint="'cpu', 'gpu', 'gpu:1' … or None")
    index = int(number or 0)
    listed = tf.config.experimental.list_physical_devices(kind)
    if index >= len(listed):
        raise UnsupportedError(
            "TensorFlow sees %d %s device%s here" % (len(listed), kind, "" if len(listed) == 1 else "s"),
            hint="run on device='cpu', or install what TensorFlow needs for the %s" % kind,
        )
    return "/%s:%d" % (kind, index)
