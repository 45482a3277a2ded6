"""The keras shim: ONNX models as Keras 3 models, on any back end."""

__version__ = "0.1.0"
