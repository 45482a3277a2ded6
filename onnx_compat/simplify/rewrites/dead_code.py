"""Dead code elimination.

    node whose results are not read   =>  nothing
    initializer that is not read      =>  nothing

Outputs of the graph, and values that quantization annotations or training name, count as read. From IR version 4 on, an
initializer with the name of an input is the default of that input, and stays.
"""

from typing import Any

from onnx_compat.simplify.contract import model_pass
from onnx_compat.simplify.graph_draft import GraphDraft
from onnx_compat.simplify.rewrites.examples import example

__all__ = ["dead_code"]


def _example() -> Any:
    return example(("Relu", "x", "y"), ("Mul", "x w", "dead"), w=[1.0, 2.0])


@model_pass("dead_code", "node or initializer that is not read => nothing", _example)
def dead_code(draft: GraphDraft) -> int:
    """Remove from `draft` nodes, then initializers, that are not read. Return their number."""
    count = 0
    for node in reversed(list(draft.nodes)):
        if not any(name and draft.is_read(name) for name in node.outputs):
            draft.remove(node)
            count += 1
    for name in list(draft.initializers):
        is_default = name in draft.inputs and not draft.has_stored_inputs
        if not draft.is_read(name) and not is_default:
            draft.remove_initializer(name)
            count += 1
    return count
