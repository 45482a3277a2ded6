"""The parts of the emitter: the modules whose functions emit primitives and natives.

The import of a part registers its functions in `FUNCTIONS`. A part calls another part by its module:
`slicing.reverse(builder, x, axes)`.
"""

from onnx_compat_tflite.emitter import (
    activations,
    bitwise,
    branches,
    casting,
    comparison,
    convolution,
    counting,
    division,
    elementary_functions,
    elementwise,
    extremes,
    gathering,
    gradient,
    images,
    implicit_padding,
    joining,
    linear,
    loops,
    pad,
    pools,
    powers,
    random,
    recurrent,
    reductions,
    repeating,
    reshaping,
    scans,
    scatter,
    slicing,
    softmax,
    sorting,
    suppression,
    transposed_convolution,
    transposing,
)
from onnx_compat_tflite.emitter.registry import FUNCTIONS

__all__ = ["FUNCTIONS", "PARTS"]

PARTS = (
    activations, bitwise, branches, casting, comparison, convolution, counting, division, elementary_functions,
    elementwise, extremes, gathering, gradient, images, implicit_padding, joining, linear, loops, pad, pools,
    powers, random, recurrent, reductions, repeating, reshaping, scans, scatter, slicing, softmax, sorting,
    suppression, transposed_convolution, transposing,
)  # fmt: skip
