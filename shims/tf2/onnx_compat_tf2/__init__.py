"""The tf2 shim: ONNX models on TensorFlow 2."""

from onnx_compat_tf2.shim import SHIM

__version__ = "0.1.0"
__all__ = ["SHIM"]
