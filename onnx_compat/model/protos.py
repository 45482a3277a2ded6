"""Walk the graphs and nodes of an onnx.ModelProto, with those in the attributes of nodes, and name operators."""

from typing import TYPE_CHECKING, Iterator, List, Sequence

from onnx_compat.model.versions import normalise

if TYPE_CHECKING:
    import onnx

__all__ = ["graphs_of", "operator_name", "subgraphs_of", "walk"]


def operator_name(node: "onnx.NodeProto") -> str:
    """Return the operator of a node, with its domain if that is not ai.onnx: "Conv", "ai.onnx.ml::Scaler"."""
    domain = normalise(node.domain)
    return "%s::%s" % (domain, node.op_type) if domain else node.op_type


def subgraphs_of(node: "onnx.NodeProto") -> "List[onnx.GraphProto]":
    """Return the graphs in the attributes of a node. The graphs inside of these are not included."""
    graphs: List[onnx.GraphProto] = []
    for attribute in node.attribute:
        if attribute.HasField("g"):
            graphs.append(attribute.g)
        graphs.extend(attribute.graphs)
    return graphs


def walk(nodes: "Sequence[onnx.NodeProto]") -> "Iterator[onnx.NodeProto]":
    """Yield every node in order. The nodes of subgraphs directly follow the node that holds them."""
    for node in nodes:
        yield node
        for graph in subgraphs_of(node):
            yield from walk(graph.node)


def graphs_of(graph: "onnx.GraphProto") -> "Iterator[onnx.GraphProto]":
    """Yield a graph, and every graph inside of it at any depth. A graph precedes the graphs inside of it."""
    yield graph
    for node in graph.node:
        for inner in subgraphs_of(node):
            yield from graphs_of(inner)
