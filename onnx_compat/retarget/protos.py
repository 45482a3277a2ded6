"""Small functions over the messages of onnx: collect graphs and names, make nodes and declarations."""

from typing import TYPE_CHECKING, List, Set

from onnx_compat.model.protos import graphs_of, walk

if TYPE_CHECKING:
    import onnx

__all__ = [
    "all_graphs",
    "constant_node",
    "name_of",
    "names_used",
    "value_info",
]


def name_of(node: "onnx.NodeProto") -> str:
    """Return the name of a node; without a name, its first output; without outputs, its operator."""
    return node.name or next(filter(None, node.output), node.op_type)


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
