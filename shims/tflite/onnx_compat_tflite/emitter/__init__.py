"""The primitives as TFLite operators."""

from onnx_compat_tflite.emitter.bitwise import Bitwise
from onnx_compat_tflite.emitter.random import Random

__all__ = ["TFLiteEmitter"]


class TFLiteEmitter(Bitwise, Random):
    """Every primitive that some kernels can do, by its name."""
