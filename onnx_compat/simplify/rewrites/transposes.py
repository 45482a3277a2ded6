"""Chains of transposes.

    Transpose(Transpose(x, p), q)   =>  Transpose(x, p[q])

Nothing else reads the value in between.
"""

from typing import Any

from onnx_compat.simplify.contract import model_pass
from onnx_compat.simplify.graph_draft import GraphDraft
from onnx_compat.simplify.rewrites.chains import inner_node
from onnx_compat.simplify.rewrites.examples import example

__all__ = ["merged_transposes"]


def _transposes_example() -> Any:
    nodes = (
        ("Transpose", "x", "a", {"perm": [1, 0, 2]}),
        ("Transpose", "a", "b", {"perm": [0, 2, 1]}),
        ("Relu", "b", "y"),
    )
    return example(*nodes, shape=(2, 3, 4))


@model_pass("merged_transposes", "Transpose(Transpose(x, p), q) => Transpose(x, p[q])", _transposes_example)
def merged_transposes(draft: GraphDraft) -> int:
    """Merge each Transpose of `draft` into the Transpose that reads its result. Return the number of removed nodes."""
    count = 0
    for node in list(draft.nodes):
        first = inner_node(draft, node, "Transpose")
        before = None if first is None else draft.spec(first.input(0))
        if first is None or before is None:
            continue
        default = list(range(before.rank))[::-1]
        inner, outer = first.attribute("perm", default), node.attribute("perm", default)
        draft.set_attribute(node, "perm", [inner[axis] for axis in outer])
        draft.set_inputs(node, first.inputs)
        draft.remove(first)
        count += 1
    return count
