"""Chains of two nodes of one operator."""

from typing import Optional

from onnx_compat.simplify.graph_draft import GraphDraft
from onnx_compat.simplify.node import DraftNode

__all__ = ["inner_node"]


def inner_node(draft: GraphDraft, node: DraftNode, operator: str) -> Optional[DraftNode]:
    """Return the node that computes the first input of `node`, if both nodes are of `operator`.

    None: one of them is of another operator, or not only `node` reads the input.
    """
    first = draft.producer(node.input(0)) if node.operator == operator else None
    is_pair = first is not None and first.operator == operator and draft.only_reader(node.input(0)) is node
    return first if is_pair else None
