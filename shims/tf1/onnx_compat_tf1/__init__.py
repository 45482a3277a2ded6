"""The tf1 shim: ONNX models on TensorFlow 1."""

__version__ = "0.1.0"
