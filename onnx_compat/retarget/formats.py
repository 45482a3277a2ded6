"""The file format (IR) of a target: the oldest version that holds a model, and what changes in an older one."""

from typing import TYPE_CHECKING, Dict, Iterator, List, Mapping, NamedTuple, Optional, Sequence, Tuple

from onnx_compat.ir.dtypes import DType
from onnx_compat.model.protos import graphs_of, operator_name, walk
from onnx_compat.model.versions import ir_for, ir_of_type
from onnx_compat.model.write import tensor_proto
from onnx_compat.retarget.outcomes import REFUSED, NodeOutcome
from onnx_compat.retarget.protos import all_graphs, constant_node, name_of, value_info

if TYPE_CHECKING:
    import onnx

__all__ = [
    "FUNCTIONS",
    "TypeUse",
    "adapt_to_ir",
    "declare_outputs",
    "element_types",
    "ignored_parts",
    "ir_version_for",
    "type_refusals",
]

#: The first IR versions that have functions, overloads of functions, and sparse initializers.
FUNCTIONS, OVERLOADS, SPARSE = 8, 10, 5
#: The attributes of ai.onnx that have the number of an element type.
_TYPE_ATTRIBUTES = ("dtype", "output_datatype", "output_dtype", "precision", "softmax_precision", "stash_type", "to")
#: The first IR version in which initializers need not be inputs.
_FREE_INITIALIZERS = 4


class TypeUse(NamedTuple):
    """A place in a model that uses an element type.

    - number: the number of the type in TensorProto.DataType.
    - name: the name of the node, tensor or value.
    - operator: the operator of the node; else "initializer", "sparse initializer" or "value".
    - function: the name of the function that has the node; "" for any other place.
    """

    number: int
    name: str
    operator: str
    function: str = ""


def element_types(model: "onnx.ModelProto") -> List[TypeUse]:
    """Return the uses of element types: in attributes of nodes, initializers and declared values of graphs."""
    return [use for use in _types_in(model) if use.number]


def _types_in(model: "onnx.ModelProto") -> Iterator[TypeUse]:
    """Yield the uses of element types in the model. The number is 0 where no type is set."""
    bodies = [(graph.node, "") for graph in all_graphs(model)]
    bodies += [(function.node, function.name) for function in model.functions]
    for nodes, function in bodies:
        for node in walk(nodes):
            for number in _types_in_attributes(node):
                yield TypeUse(number, name_of(node), operator_name(node), function)
    for graph in [inner for outer in all_graphs(model) for inner in graphs_of(outer)]:
        for tensor in graph.initializer:
            yield TypeUse(tensor.data_type, tensor.name, "initializer")
        for sparse in graph.sparse_initializer:
            yield TypeUse(sparse.values.data_type, sparse.values.name, "sparse initializer")
        for port in [*graph.input, *graph.output, *graph.value_info]:
            yield from (TypeUse(number, port.name, "value") for number in _types_of(port.type))


def _types_in_attributes(node: "onnx.NodeProto") -> Iterator[int]:
    """Yield the numbers of the element types in the attributes of a node; 0 where no type is set."""
    for attribute in node.attribute:
        if attribute.name in _TYPE_ATTRIBUTES and not node.domain:
            yield attribute.i
        for tensor in (attribute.t, attribute.sparse_tensor.values, *attribute.tensors):
            yield tensor.data_type
        for sparse in attribute.sparse_tensors:
            yield sparse.values.data_type
        for kind in (attribute.tp, *attribute.type_protos):
            yield from _types_of(kind)


def _types_of(kind: "onnx.TypeProto") -> Iterator[int]:
    """Yield the numbers of the element types in a type: the type of a map has two."""
    name = kind.WhichOneof("value")
    if name in ("tensor_type", "sparse_tensor_type"):
        yield getattr(kind, name).elem_type
    elif name in ("sequence_type", "optional_type"):
        yield from _types_of(getattr(kind, name).elem_type)
    elif name == "map_type":
        yield kind.map_type.key_type
        yield from _types_of(kind.map_type.value_type)


def ir_version_for(opsets: Mapping[str, int], types: Sequence[TypeUse], source: int, is_same: bool) -> int:
    """Return the IR version of the target: the oldest, from 3 on, that has the opsets and the element types.

    - opsets: domain -> version, of the target. A version of 0 is ignored.
    - source: the IR version of the source.
    - is_same: whether the opsets are those of the source. Then the result is at least `source`.

    Raises UnsupportedError for a version of a standard domain that no release has.
    """
    used = {domain: version for domain, version in opsets.items() if version}
    needed = ir_for(used, [DType.of(number) for number in {use.number for use in types}], floor=3)
    return max(source, needed) if is_same else needed


def type_refusals(types: Sequence[TypeUse], ir_version: int) -> List[NodeOutcome]:
    """Return a refused outcome for each use of an element type that the IR version lacks.

    Several uses of one type in the same place give one outcome.
    """
    refusals: Dict[TypeUse, NodeOutcome] = {}
    for use in types:
        dtype = DType.of(use.number)
        if ir_of_type(dtype) > ir_version:
            reason = "it has the type %s, which begins with IR version %d" % (dtype, ir_of_type(dtype))
            refusals[use] = NodeOutcome(use.name, use.operator, REFUSED, reason, function=use.function)
    return list(refusals.values())


def adapt_to_ir(model: "onnx.ModelProto", ir_version: int) -> List[str]:
    """Set the IR version of a model, and rewrite the parts that this version lacks, in place. Return texts of changes.

    Before IR version 5, sparse initializers become dense. Before 4, initializers of the main graph become inputs too,
    and those of subgraphs become Constant nodes.
    """
    notes = []
    if ir_version < SPARSE:
        count = _make_dense(model)
        if count:
            notes.append("%d sparse initializers are dense" % count)
    if ir_version < _FREE_INITIALIZERS:
        count = _declare_initializers(model)
        if count:
            notes.append("%d initializers are inputs too, as IR version %d demands" % (count, ir_version))
    model.ir_version = ir_version
    return notes


def _make_dense(model: "onnx.ModelProto") -> int:
    """Replace sparse initializers of the main graph of `model` by dense tensors. Return their number."""
    from onnx_compat.model import load

    sparse = list(model.graph.sparse_initializer)
    if sparse:
        import onnx

        part = onnx.ModelProto(ir_version=8, opset_import=[onnx.helper.make_opsetid("", 13)])
        part.graph.name = "sparse"
        part.graph.sparse_initializer.extend(sparse)
        part.graph.output.extend(onnx.ValueInfoProto(name=entry.values.name) for entry in sparse)
        for name, initializer in load(part.SerializeToString()).graph.initializers.items():
            model.graph.initializer.append(tensor_proto(initializer.array(), initializer.dtype, name))
        del model.graph.sparse_initializer[:]
    return len(sparse)


def _declare_initializers(model: "onnx.ModelProto") -> int:
    """Declare initializers of the main graph of `model` as inputs. Make those of subgraphs Constant nodes.

    The model is changed in place. Return the number of changed initializers.
    """
    declared = {port.name for port in model.graph.input}
    ports = [value_info(tensor) for tensor in model.graph.initializer if tensor.name not in declared]
    model.graph.input.extend(ports)
    count = len(ports)
    for outer in all_graphs(model):
        for graph in reversed(list(graphs_of(outer))[1:]):  # a graph is copied after the graphs inside of it
            nodes = [constant_node(tensor) for tensor in graph.initializer] + list(graph.node)
            if graph.initializer:
                count += len(graph.initializer)
                del graph.initializer[:]
                copies = [type(node).FromString(node.SerializeToString()) for node in nodes]
                del graph.node[:]
                graph.node.extend(copies)
    return count


def declare_outputs(model: "onnx.ModelProto") -> List[str]:
    """Declare the types that onnx infers for outputs without a declared type or shape, in place.

    onnx.checker demands these types. `model` may lack its large weights. Return a list of one note if a type is added,
    otherwise an empty list. If the inference fails, nothing is added.
    """
    import onnx

    untyped = [port.name for port in model.graph.output if not _is_declared(port.type)]
    if not untyped:
        return []
    try:
        inferred = {port.name: port.type for port in onnx.shape_inference.infer_shapes(model).graph.output}
    except Exception:  # noqa: BLE001 (its errors have no common base)
        return []
    names = [name for name in untyped if _is_declared(inferred[name])]
    for port in model.graph.output:
        if port.name in names:
            port.type.CopyFrom(inferred[port.name])
    return ["the types of these outputs are declared now: %s" % ", ".join(names)] if names else []


def _is_declared(kind: "onnx.TypeProto") -> bool:
    """Whether a type is declared; for a tensor, with its shape. The sizes in the shape may be missing."""
    name = kind.WhichOneof("value")
    return name is not None and (name != "tensor_type" or kind.tensor_type.HasField("shape"))


def ignored_parts(model: "onnx.ModelProto", ir_version: int) -> List[str]:
    """Return a text for each part of the model that readers of the IR version ignore. These parts stay in the file.

    The parts are training information, quantization annotations, metadata and device configurations. They have no
    effect on the results of the model.
    """
    nodes = [node for graph in all_graphs(model) for node in walk(graph.node)]
    parts: List[Tuple[int, Optional[object], str]] = [
        (7, model.training_info, "the training information"),
        (5, model.graph.quantization_annotation, "the quantization annotations"),
        (10, _has_any(nodes, "metadata_props"), "the metadata of nodes"),
        (11, _has_any(nodes, "device_configurations"), "the device configurations of nodes"),
        (11, getattr(model, "configuration", None), "the device configurations"),
    ]
    return [
        "%s stay, and readers of IR version %d ignore them" % (text, ir_version)
        for first, present, text in parts
        if present and first > ir_version
    ]


def _has_any(nodes: "List[onnx.NodeProto]", field: str) -> bool:
    return any(getattr(node, field, None) for node in nodes)
