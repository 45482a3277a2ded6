"""Operators of classical machine learning: the domain ai.onnx.ml.

The import of this package registers their meanings.
"""

from onnx_compat.ops.ml import features, labels, linear, maps, svm, trees

__all__ = ["features", "labels", "linear", "maps", "svm", "trees"]
