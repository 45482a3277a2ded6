"""Operators over axes of a single element.

    ReduceMean(x, axes of length 1)     =>  x; also ReduceMax, ReduceMin, ReduceProd, ReduceSum
    GlobalAveragePool(x of 1x1 pixels)  =>  x; also GlobalMaxPool

Condition: the result has the shape of x, so the axes stay.
"""

from typing import Any

import numpy as np

from onnx_compat.ir.dims import is_equal_shape
from onnx_compat.simplify.contract import model_pass
from onnx_compat.simplify.graph_draft import GraphDraft
from onnx_compat.simplify.rewrites.examples import example

__all__ = ["single_elements"]

#: These operators return their operand where they combine single elements.
_COMBINING = frozenset(
    ["GlobalAveragePool", "GlobalMaxPool", "ReduceMax", "ReduceMean", "ReduceMin", "ReduceProd", "ReduceSum"]
)


def _example() -> Any:
    nodes = (("Relu", "x", "a"), ("ReduceMean", "a axes", "b"), ("Neg", "b", "y"))
    return example(*nodes, shape=("N", 4, 1, 1), opset=18, axes=np.array([2, 3]))


@model_pass("single_elements", "ReduceMean(x, axes of length 1) => x; also GlobalAveragePool", _example)
def single_elements(draft: GraphDraft) -> int:
    """Remove operators that combine single elements. Return their number."""
    count = 0
    for node in list(draft.nodes):
        if node.operator not in _COMBINING:
            continue
        before, after = draft.spec(node.input(0)), draft.spec(node.outputs[0])
        # A combined axis that stays has length 1 afterwards: with equal shapes, it has length 1 before.
        if before is None or after is None or not is_equal_shape(before.shape, after.shape):
            continue
        count += draft.bypass(node, node.input(0))
    return count
