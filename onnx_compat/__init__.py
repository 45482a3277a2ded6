"""One ONNX model, any TensorFlow-family runtime, any version of it."""

__version__ = "0.1.0"
