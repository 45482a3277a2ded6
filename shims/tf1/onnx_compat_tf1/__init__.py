"""The tf1 shim: ONNX models on TensorFlow 1."""

from onnx_compat_tf1.shim import SHIM

__version__ = "0.1.0"
__all__ = ["SHIM"]
