"""Does a model say the same on a shim, or as a converted file, as it does elsewhere?

The package is not called `verify`, because `onnx_compat.verify` is the function.
"""

from .compare import Comparison, compare
from .examine import named, verify
from .fate import Gone
from .generate import generate
from .layers import Layer, Layers
from .npz import load_npz, save_npz
from .report import Fed, Report

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
    "named",
    "save_npz",
    "verify",
]
