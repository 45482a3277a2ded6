"""The tflite shim: ONNX models as TensorFlow Lite flatbuffers."""

from onnx_compat_tflite.shim import SHIM

__version__ = "0.1.0"
__all__ = ["SHIM", "__version__"]
