"""The tf2 shim: ONNX models on TensorFlow 2."""

__version__ = "0.1.0"
