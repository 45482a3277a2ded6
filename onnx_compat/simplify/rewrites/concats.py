"""Nested concatenations.

    Concat(Concat(a, b), c)   =>  Concat(a, b, c)

Conditions: both join along the same axis; nothing else reads the inner result. An axis from the end, and an axis from
the front, are the same only where the rank is known.
"""

from typing import Any

from onnx_compat.simplify.contract import model_pass
from onnx_compat.simplify.graph_draft import GraphDraft
from onnx_compat.simplify.node import DraftNode
from onnx_compat.simplify.rewrites.examples import example

__all__ = ["merged_concats"]


def _example() -> Any:
    return example(
        ("Concat", "x w", "a", {"axis": 1}), ("Concat", "w a x", "y", {"axis": -1}), shape=(2, 3), w=[[1.0], [2.0]]
    )


@model_pass("merged_concats", "Concat(Concat(a, b), c) => Concat(a, b, c)", _example)
def merged_concats(draft: GraphDraft) -> int:
    """Merge each Concat of `draft` into the Concat that reads its result. Return the number of removed nodes."""
    count = 0
    for node in list(draft.nodes):
        for name in node.inputs if node.operator == "Concat" else ():
            inner = draft.producer(name)
            if inner is None or inner.operator != "Concat" or draft.only_reader(name) is not node:
                continue
            if _axis(draft, inner) == _axis(draft, node):
                position = node.inputs.index(name)
                inputs = node.inputs
                inputs[position : position + 1] = inner.inputs
                draft.set_inputs(node, inputs)
                draft.remove(inner)
                count += 1
    return count


def _axis(draft: GraphDraft, node: DraftNode) -> int:
    """Return the axis of a Concat, counted from the front. A negative axis stays if the rank is not known.

    Before opset 4, the axis is 1 by default.
    """
    axis, spec = int(node.attribute("axis", 1)), draft.spec(node.outputs[0])
    return axis + spec.rank if axis < 0 and spec is not None else axis
