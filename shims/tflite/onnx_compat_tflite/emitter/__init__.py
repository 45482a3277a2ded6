"""The emitter: it writes each primitive as TFLite operators."""

from onnx_compat_tflite.emitter.activations import Activations
from onnx_compat_tflite.emitter.images import Images
from onnx_compat_tflite.emitter.implicit_padding import ImplicitPadding
from onnx_compat_tflite.emitter.random import Random
from onnx_compat_tflite.emitter.recurrent import Recurrent
from onnx_compat_tflite.emitter.suppression import Suppression
from onnx_compat_tflite.emitter.wide_integers import WideIntegers

__all__ = ["TFLiteEmitter"]


class TFLiteEmitter(WideIntegers, Images, ImplicitPadding, Recurrent, Activations, Random, Suppression):
    """Emit every primitive that TFLite kernels can compute. Each primitive is a method of its name."""
