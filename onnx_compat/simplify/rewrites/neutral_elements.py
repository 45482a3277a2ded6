"""Arithmetic with a neutral element.

    Add(x, 0)   =>  x; also Sub(x, 0), Mul(x, 1), Div(x, 1), Pow(x, 1), And(x, True), Or(x, False)

Condition: the constant does not broadcast x to another shape.
"""

from typing import Any

from onnx_compat.ir.dims import is_equal_shape
from onnx_compat.simplify.contract import model_pass
from onnx_compat.simplify.graph_draft import GraphDraft
from onnx_compat.simplify.rewrites.examples import example

__all__ = ["neutral_elements"]

#: Operator -> (its neutral element, whether the operands can be exchanged).
_NEUTRAL = {
    "Add": (0, True),
    "And": (1, True),
    "Div": (1, False),
    "Mul": (1, True),
    "Or": (0, True),
    "Pow": (1, False),
    "Sub": (0, False),
}


def _example() -> Any:
    return example(("Relu", "x", "a"), ("Mul", "a one", "b"), ("Neg", "b", "y"), one=[1.0, 1.0])


@model_pass("neutral_elements", "Add(x, 0) => x; also Mul(x, 1), Sub, Div, Pow, And, Or", _example)
def neutral_elements(draft: GraphDraft) -> int:
    """Remove operators with a neutral element. Return their number."""
    count = 0
    for node in list(draft.nodes):
        if node.operator not in _NEUTRAL or len(node.inputs) != 2:
            continue
        neutral, is_commutative = _NEUTRAL[node.operator]
        pairs = [node.inputs, node.inputs[::-1]] if is_commutative else [node.inputs]
        for operand, constant in pairs:
            array, before, after = draft.constant(constant), draft.spec(operand), draft.spec(node.outputs[0])
            if array is None or before is None or after is None or not (array == neutral).all():
                continue
            if (
                before.dtype is after.dtype
                and is_equal_shape(before.shape, after.shape)
                and draft.bypass(node, operand)
            ):
                count += 1
                break
    return count
