"""The primitives as TFLite operators."""

from onnx_compat_tflite.emitter.activations import Curves
from onnx_compat_tflite.emitter.images import Images
from onnx_compat_tflite.emitter.implicit_padding import Same
from onnx_compat_tflite.emitter.random import Random
from onnx_compat_tflite.emitter.recurrent import Recurrent
from onnx_compat_tflite.emitter.suppression import Suppression
from onnx_compat_tflite.emitter.wide_integers import Long

__all__ = ["TFLiteEmitter"]


class TFLiteEmitter(Long, Images, Same, Recurrent, Curves, Random, Suppression):
    """Every primitive that some kernels can do, by its name."""
