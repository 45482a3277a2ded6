"""The tf1 shim: convert ONNX models to TensorFlow 1 graphs and files, and run them."""

from onnx_compat_tf1.shim import SHIM

__version__ = "0.1.0"
__all__ = ["SHIM"]
