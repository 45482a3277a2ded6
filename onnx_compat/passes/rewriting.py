"""The rewriting interface for recorded programs. Passes change nodes and regions by these functions alone."""

from collections import Counter

from onnx_compat.ir import Node, Ref, Region, refs

__all__ = ["count_uses", "release_arguments", "take_outputs"]


def count_uses(region: Region) -> "Counter[Ref]":
    """Return value -> number of its reads: by live nodes, by their inner regions, and as an output of the region.

    An inner region counts once for each value that it captures. A value in a symbolic size of an argument counts as
    well. The Counter gives 0 for a value without reads.
    """
    uses: Counter[Ref] = Counter(ref for node in region.live() for ref in node.uses())
    uses.update(ref for output in region.outputs for ref in refs(output))
    return uses


def take_outputs(node: Node, original: Node) -> None:
    """Make `node` the producer of the outputs of the node `original`. The values stay, so readers need no change."""
    node.outputs = original.outputs
    for output in node.outputs:
        output.node = node


def release_arguments(node: Node) -> None:
    """Drop the arguments of a dead node, so that its weights are freed before the pass ends."""
    node.args = ()
