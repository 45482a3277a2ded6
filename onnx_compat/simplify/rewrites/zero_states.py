"""Initial states of recurrent layers that are zero are omitted, because an omitted state is zero.

    LSTM(x, w, r, b, , zeros, zeros)   =>  LSTM(x, w, r, b); also GRU, RNN

A state is zero if it is an initializer of zeros, or an Expand or ConstantOfShape of zero.
"""

from typing import Any, List

import numpy as np

from onnx_compat.simplify.contract import model_pass
from onnx_compat.simplify.graph_draft import GraphDraft
from onnx_compat.simplify.rewrites.examples import example

__all__ = ["zero_states"]

#: Operator -> indices of the inputs with initial states.
_STATES = {"GRU": (5,), "LSTM": (5, 6), "RNN": (5,)}


def _example() -> Any:
    nodes = (("ConstantOfShape", "sizes", "h"), ("RNN", "x w r - - h", "y", {"hidden_size": 2}))
    weights = np.ones((1, 2, 2))
    return example(*nodes, shape=(3, 1, 2), sizes=np.array([1, 1, 2]), w=weights, r=weights)


@model_pass("zero_states", "LSTM(x, w, r, b, , zeros, zeros) => LSTM(x, w, r, b); also GRU, RNN", _example)
def zero_states(draft: GraphDraft) -> int:
    """Omit initial states of zeros. Return their number."""
    count = 0
    for node in draft.nodes:
        inputs: List[str] = node.inputs
        zeros = [k for k in _STATES.get(node.operator, ()) if k < len(inputs) and _is_zero(draft, inputs[k])]
        if zeros:
            draft.set_inputs(node, ["" if k in zeros else name for k, name in enumerate(inputs)])
            count += len(zeros)
    return count


def _is_zero(draft: GraphDraft, name: str) -> bool:
    """Whether every element of a value is zero, for certain. False for an omitted input."""
    array = draft.constant(name)
    if array is not None:
        return not array.any()
    node = draft.producer(name)
    if node is None:
        return False
    if node.operator == "ConstantOfShape":
        import onnx

        value = node.attribute("value")
        return value is None or not np.any(onnx.numpy_helper.to_array(value))
    return node.operator == "Expand" and _is_zero(draft, node.input(0))
