"""Find, for each ONNX node, the recorded node that does its work: its layer gets the name of the ONNX node."""

from typing import Dict

from onnx_compat.shim import Node, Region

__all__ = ["MOVES", "main_nodes"]

#: Primitives that only move or convert elements. They do the work of an ONNX node that has no other recorded node.
MOVES = frozenset("broadcast_to cast concat extents pad reshape reverse slice take tile transpose".split())
#: Primitives and native operators that Keras has a layer with weights or a window for.
_LAYERS = frozenset(
    "avg_pool batch_normalization conv conv_transpose depthwise_conv gru layer_normalization lstm matmul max_pool resize "
    "rnn".split()
)


def main_nodes(region: Region) -> Dict[str, Node]:
    """Return {name of the ONNX node: the recorded node that does its work} for a region and its inner regions.

    Several live nodes of a region may stem from one ONNX node. Then a node with a primitive in `_LAYERS` is chosen.
    Without one, a node with a primitive that is not in `MOVES` is chosen, else any. Of several candidates, the last is
    chosen.
    """
    nodes: Dict[str, Node] = {}
    for node in region.live():
        if node.origin is not None:
            name = node.origin.node
            if name not in nodes or _rank(node) >= _rank(nodes[name]):
                nodes[name] = node
        for inner in node.regions:
            for name, inner_node in main_nodes(inner).items():
                nodes.setdefault(name, inner_node)
    return nodes


def _rank(node: Node) -> int:
    return 2 if node.primitive in _LAYERS else 0 if node.primitive in MOVES else 1
