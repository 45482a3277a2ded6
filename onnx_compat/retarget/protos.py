"""Small functions over the messages of onnx: walk nodes, collect names, make tensors and declarations."""

from typing import TYPE_CHECKING, Iterator, List, Sequence, Set

import numpy as np

from onnx_compat.ir.dtypes import DType
from onnx_compat.model.storage import encode_elements
from onnx_compat.model.versions import normalise

if TYPE_CHECKING:
    import onnx

__all__ = [
    "all_graphs",
    "constant_node",
    "graphs_of",
    "name_of",
    "names_used",
    "operator_name",
    "subgraphs_of",
    "tensor_of",
    "value_info",
    "walk",
]


def name_of(node: "onnx.NodeProto") -> str:
    """Return the name of a node; without a name, its first output; without outputs, its operator."""
    return node.name or next(filter(None, node.output), node.op_type)


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


def names_used(model: "onnx.ModelProto") -> Set[str]:
    """Return the names of all values and nodes of a model, with those of its functions and training graphs."""
    graphs = [inner for graph in all_graphs(model) for inner in graphs_of(graph)]
    names: Set[str] = set()
    for graph in graphs:
        names.update(port.name for port in [*graph.input, *graph.output, *graph.value_info])
        names.update(tensor.name for tensor in graph.initializer)
        names.update(tensor.values.name for tensor in graph.sparse_initializer)
    sources = [graph.node for graph in all_graphs(model)] + [function.node for function in model.functions]
    for nodes in sources:
        for node in walk(nodes):
            names.update([node.name, *node.input, *node.output])
    for function in model.functions:
        names.update([*function.input, *function.output])
    return names


def all_graphs(model: "onnx.ModelProto") -> "List[onnx.GraphProto]":
    """Return the main graph, and the graphs of the training information. Their subgraphs are not included."""
    training = [graph for info in model.training_info for graph in (info.initialization, info.algorithm)]
    return [model.graph, *training]


def tensor_of(name: str, array: np.ndarray, dtype: DType) -> "onnx.TensorProto":
    """Return a TensorProto with the elements of a carrier array of the type `dtype`."""
    import onnx

    return onnx.TensorProto(name=name, data_type=dtype.onnx, dims=array.shape, raw_data=encode_elements(array, dtype))


def constant_node(tensor: "onnx.TensorProto") -> "onnx.NodeProto":
    """Return a Constant node of a tensor. Its output has the tensor's name."""
    import onnx

    node = onnx.helper.make_node("Constant", [], [tensor.name], value=tensor)
    node.attribute[0].t.ClearField("name")
    return node


def value_info(tensor: "onnx.TensorProto") -> "onnx.ValueInfoProto":
    """Return the declaration of an initializer as an input: its name, element type and shape."""
    import onnx

    return onnx.helper.make_tensor_value_info(tensor.name, tensor.data_type, list(tensor.dims))
