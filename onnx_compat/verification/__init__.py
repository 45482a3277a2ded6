"""Does a model say the same on a shim, or as a converted file, as it does elsewhere?

The package is not called `verify`, because `onnx_compat.verify` is the function.
"""

from onnx_compat.verification.compare import Comparison, compare
from onnx_compat.verification.generate import generate
from onnx_compat.verification.layers import Layer, Layers
from onnx_compat.verification.missing_values import Gone
from onnx_compat.verification.npz import load_npz, save_npz
from onnx_compat.verification.report import Fed, Report
from onnx_compat.verification.verify_model import name_outputs, verify

__all__ = [
    "Comparison",
    "Fed",
    "Gone",
    "Layer",
    "Layers",
    "Report",
    "compare",
    "generate",
    "load_npz",
    "name_outputs",
    "save_npz",
    "verify",
]
