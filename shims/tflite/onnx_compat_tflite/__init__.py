"""The tflite shim: convert ONNX models to TensorFlow Lite flatbuffers, and run them."""

from onnx_compat_tflite.shim import SHIM

__version__ = "0.1.0"
__all__ = ["SHIM", "__version__"]
