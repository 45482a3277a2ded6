"""Making a finished file small: its weights alone, or all that is computed with them.

`weights` stores weights in fewer bits and lets DEQUANTIZE bring them back, which takes nothing but the file. What computes
with integers is the work of ai-edge-quantizer (`library`), which learns the ranges of values from `ranges`.
"""

from onnx_compat_tflite.quantize.rewrite import quantize
from onnx_compat_tflite.quantize.schemes import SCHEMES, scheme_of

__all__ = ["SCHEMES", "quantize", "scheme_of"]
