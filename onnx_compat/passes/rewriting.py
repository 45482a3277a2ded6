"""The rewriting interface of recorded programs: passes change nodes and regions through these functions alone."""

from collections import Counter
from typing import Any, Callable, Dict, Sequence

from onnx_compat.ir import Arg, Node, Ref, Region, refs

__all__ = ["count_uses", "map_nodes", "node_in_place", "release_arguments", "take_outputs"]


def count_uses(region: Region) -> "Counter[Ref]":
    """The number of reads of each value, by live nodes and by the outputs of the region."""
    uses: Counter[Ref] = Counter(ref for node in region.live() for ref in node.uses())
    uses.update(ref for output in region.outputs for ref in refs(output))
    return uses


def map_nodes(region: Region, rewrite: Callable[[Node], Node]) -> Region:
    """A new region of the rewritten live nodes. The region that is given keeps its nodes."""
    result = Region(region.inputs)
    result.outputs = region.outputs
    result.replace([rewrite(node) for node in region.live()])
    return result


def node_in_place(node: Node, primitive: str, args: Sequence[Arg], params: Dict[str, Any]) -> Node:
    """A node that computes the outputs of another. The producer of these outputs, `Ref.node`, stays the other node."""
    other = Node(primitive, args, params, [], node.origin)
    other.outputs = node.outputs
    return other


def take_outputs(node: Node, other: Node) -> None:
    """Let a node compute the outputs of another, and be their producer."""
    node.outputs = other.outputs
    for output in node.outputs:
        output.node = node


def release_arguments(node: Node) -> None:
    """Drop what a dead node reads, so that its weights are freed before the pass ends."""
    node.args = ()
