"""The tf2 shim: convert ONNX models to TensorFlow 2 modules and SavedModels, and run them."""

from onnx_compat_tf2.shim import SHIM

__version__ = "0.1.0"
__all__ = ["SHIM"]
