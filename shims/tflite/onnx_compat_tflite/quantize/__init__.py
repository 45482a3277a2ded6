"""Quantisation of a .tflite file: of its weights alone, or of weights and computed values.

`weights` and `products` store weights in fewer bits and need no other package. `library` calls ai-edge-quantizer for operators
that compute with integers; `ranges` measures the ranges of their values.
"""

from onnx_compat_tflite.quantize.rewrite import quantize
from onnx_compat_tflite.quantize.schemes import SCHEMES, scheme_of

__all__ = ["SCHEMES", "quantize", "scheme_of"]
