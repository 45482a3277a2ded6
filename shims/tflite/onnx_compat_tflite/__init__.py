"""The tflite shim: ONNX models as TensorFlow Lite flatbuffers."""

__version__ = "0.1.0"
