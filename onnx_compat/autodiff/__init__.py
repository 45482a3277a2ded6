"""Reverse-mode automatic differentiation of recorded nodes. Derivatives are recorded in the same trace, as primitives.

Values are in storage order (physical), without a pending order, like the arguments and parameters of recorded nodes.
The rules of the primitives are in `elementwise`, `structure`, `indexing`, `reduction`, `linear` and `control`. `reasons`
lists the primitives without a derivative. A derivative consists of primitives, so it has a derivative again.
"""

import onnx_compat.autodiff.control
import onnx_compat.autodiff.elementwise
import onnx_compat.autodiff.indexing
import onnx_compat.autodiff.linear
import onnx_compat.autodiff.reduction
import onnx_compat.autodiff.structure
from onnx_compat.autodiff.backward import gradients, variable
from onnx_compat.autodiff.choices import Choices, choices, choose

__all__ = ["Choices", "choices", "choose", "gradients", "variable"]
