"""Stand-ins: replace large tensors by values of the same type.

Then a model can be traced and checked without weights. An initializer of the main graph becomes an input. Another
initializer, and the tensor of a Constant node, become random numbers: a trace knows nothing about them, and functions
cannot read inputs of the model.
"""

from typing import TYPE_CHECKING, Any, Iterator, List, Tuple

from onnx_compat.model.protos import graphs_of, subgraphs_of, walk
from onnx_compat.retarget.protos import all_graphs, value_info

if TYPE_CHECKING:
    import onnx

__all__ = [
    "CONSTANT",
    "INNER",
    "MAIN",
    "OTHER",
    "STAND_IN",
    "constant_of",
    "element_count",
    "replace_large_tensors",
    "stored_tensors",
]

#: How a model has a tensor: see `stored_tensors`.
MAIN, INNER, CONSTANT, OTHER = "main graph", "another graph", "Constant", "other"

#: The name of a node that stands for a large tensor.
STAND_IN = "onnx-compat stand-in"
_FLOAT = 1


def constant_of(node: "onnx.NodeProto") -> "List[onnx.TensorProto]":
    """Return a list with the dense tensor of a Constant node.

    The list is empty for another node, and for a Constant without the attribute `value`.
    """
    if node.op_type != "Constant" or node.domain not in ("", "ai.onnx"):
        return []
    return [attribute.t for attribute in node.attribute if attribute.name == "value" and attribute.HasField("t")]


def element_count(tensor: "onnx.TensorProto") -> int:
    """Return the number of elements of a tensor."""
    count = 1
    for size in tensor.dims:
        count *= size
    return count


def stored_tensors(model: "onnx.ModelProto") -> "Iterator[Tuple[onnx.TensorProto, str]]":
    """Yield (tensor, storage) of every dense tensor in the model, and of the parts of sparse tensors.

    The storage is one of these:

    - `MAIN`: an initializer of the main graph.
    - `INNER`: an initializer of another graph.
    - `CONSTANT`: the tensor of a Constant node.
    - `OTHER`: any other attribute, or a part of a sparse tensor.
    """
    sparse: List[onnx.SparseTensorProto] = []
    for number, outer in enumerate(all_graphs(model)):
        for depth, graph in enumerate(graphs_of(outer)):
            yield from ((tensor, INNER if number or depth else MAIN) for tensor in graph.initializer)
            sparse.extend(graph.sparse_initializer)
    nodes = [node for nodes in _node_lists(model) for node in walk(nodes)]
    attributes = [(attribute, bool(constant_of(node))) for node in nodes for attribute in node.attribute]
    for function in model.functions:
        attributes.extend((attribute, False) for attribute in getattr(function, "attribute_proto", ()))
    for attribute, is_constant in attributes:
        if attribute.HasField("t"):
            yield attribute.t, CONSTANT if is_constant else OTHER
        yield from ((tensor, OTHER) for tensor in attribute.tensors)
        sparse.extend([attribute.sparse_tensor] if attribute.HasField("sparse_tensor") else [])
        sparse.extend(attribute.sparse_tensors)
    for entry in sparse:
        yield entry.values, OTHER
        yield entry.indices, OTHER


def _node_lists(model: "onnx.ModelProto") -> List[Any]:
    return [graph.node for graph in all_graphs(model)] + [function.node for function in model.functions]


def replace_large_tensors(model: "onnx.ModelProto") -> None:
    """Replace the large tensors of a model by stand-ins, in place.

    Large are the initializers and the tensors of Constant nodes that have external data, as stripped tensors have.
    """
    declared = {port.name for port in model.graph.input}
    for tensor in _take(model.graph.initializer):
        if tensor.name not in declared:
            model.graph.input.append(value_info(tensor))
    opset = _opset(model, 1)
    for graph in all_graphs(model):
        _replace_in(graph.node, _take(graph.initializer), opset)
    for function in model.functions:
        _replace_in(function.node, [], _opset(function, opset))


def _opset(holder: Any, default: int) -> int:
    """Return the version of ai.onnx that a model or a function imports; `default` if it imports none."""
    return max([entry.version for entry in holder.opset_import if entry.domain in ("", "ai.onnx")], default=default)


def _take(initializers: Any) -> "List[onnx.TensorProto]":
    """Remove the initializers that have external data from a repeated field. Return copies of them, in order."""
    removed = []
    for position in reversed(range(len(initializers))):
        if initializers[position].data_location == initializers[position].EXTERNAL:
            removed.append(type(initializers[position]).FromString(initializers[position].SerializeToString()))
            del initializers[position]
    return removed[::-1]


def _replace_in(nodes: Any, tensors: "List[onnx.TensorProto]", opset: int) -> None:
    """Insert nodes that compute stand-ins for `tensors` before `nodes`, in place.

    Large Constant nodes in `nodes`, and large tensors in the subgraphs of `nodes`, are replaced too.
    """
    written: List[onnx.NodeProto] = []
    for tensor in tensors:
        written += _random_numbers(tensor, tensor.name, opset)
    is_changed = bool(tensors)
    for node in nodes:
        large = [tensor for tensor in constant_of(node) if tensor.data_location == tensor.EXTERNAL]
        written += _random_numbers(large[0], node.output[0], opset) if large else [node]
        is_changed = is_changed or bool(large)
        for graph in subgraphs_of(node):
            _replace_in(graph.node, _take(graph.initializer), opset)
    if is_changed:
        copies = [type(node).FromString(node.SerializeToString()) for node in written]
        del nodes[:]
        nodes.extend(copies)


def _random_numbers(tensor: "onnx.TensorProto", name: str, opset: int) -> "Tuple[onnx.NodeProto, ...]":
    """Return nodes that compute random numbers with the tensor's type and shape, as the value `name`.

    `opset`: the version of ai.onnx that the nodes have.
    """
    from onnx import helper

    drawn = name if tensor.data_type == _FLOAT else name + "/" + STAND_IN
    draw = helper.make_node("RandomUniform", [], [drawn], name=STAND_IN, dtype=_FLOAT, shape=list(tensor.dims))
    if drawn == name:
        return (draw,)
    to: Any = int(tensor.data_type) if opset >= 6 else tensor.DataType.Name(tensor.data_type)
    return draw, helper.make_node("Cast", [drawn], [name], name=STAND_IN, to=to)
