"""Verification: compare the outputs of a model on a shim, or of a converted file, with the outputs of an oracle.

The package is not named `verify`, because `onnx_compat.verify` is the function.
"""

from onnx_compat.verification.compare import Comparison, compare
from onnx_compat.verification.generate import generate
from onnx_compat.verification.layers import Layer, Layers
from onnx_compat.verification.missing_values import MissingValue
from onnx_compat.verification.npz import load_npz, save_npz
from onnx_compat.verification.report import FedInput, Report
from onnx_compat.verification.verify_model import name_inputs, verify

__all__ = [
    "Comparison",
    "FedInput",
    "Layer",
    "Layers",
    "MissingValue",
    "Report",
    "compare",
    "generate",
    "load_npz",
    "name_inputs",
    "save_npz",
    "verify",
]
