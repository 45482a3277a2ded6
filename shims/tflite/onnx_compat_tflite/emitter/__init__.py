"""The primitives as TFLite operators."""

from onnx_compat_tflite.emitter.curves import Curves
from onnx_compat_tflite.emitter.images import Images
from onnx_compat_tflite.emitter.long import Long
from onnx_compat_tflite.emitter.random import Random
from onnx_compat_tflite.emitter.recurrent import Recurrent
from onnx_compat_tflite.emitter.same import Same
from onnx_compat_tflite.emitter.suppression import Suppression

__all__ = ["TFLiteEmitter"]


class TFLiteEmitter(Long, Images, Same, Recurrent, Curves, Random, Suppression):
    """Every primitive that some kernels can do, by its name."""
