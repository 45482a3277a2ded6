"""Graphs and cases as data, independent of the installed onnx; `to_model` builds the protobuf message."""

from __future__ import annotations

from typing import Any, Dict, Iterator, List, NamedTuple, Optional, Sequence, Set, Tuple, Union

import numpy as np
import onnx
from onnx import helper

__all__ = ["Case", "Graph", "Node", "Port", "Run", "Size", "free_names", "to_model", "walk"]

Size = Union[int, str]
"""A size of an axis: a number, the name of a symbol, or "?" for a size without a name."""
UNKNOWN = "?"

#: The IR version of an opset: the first that allows it, at least 8 for functions and sparse types.
_NEWEST_IR = ((23, 11), (21, 10), (19, 9))

#: Other domains, in the versions that the templates write.
_VERSIONS = {"ai.onnx.ml": 3, "com.microsoft": 1}

_KINDS = onnx.TensorProto
_TYPES = {
    "float32": _KINDS.FLOAT,
    "float64": _KINDS.DOUBLE,
    "float16": _KINDS.FLOAT16,
    "int8": _KINDS.INT8,
    "int16": _KINDS.INT16,
    "int32": _KINDS.INT32,
    "int64": _KINDS.INT64,
    "uint8": _KINDS.UINT8,
    "uint16": _KINDS.UINT16,
    "uint32": _KINDS.UINT32,
    "uint64": _KINDS.UINT64,
    "bool": _KINDS.BOOL,
    "object": _KINDS.STRING,
}


class Port(NamedTuple):
    """The name and the type of an input or an output. `shape`: None for an unknown rank."""

    name: str
    dtype: str
    shape: Optional[Tuple[Size, ...]]
    container: str = ""
    """`sequence` or `optional`; empty for a tensor."""


class Node(NamedTuple):
    """The application of an operator. An attribute is a number, a text, a list of these, an array or a graph."""

    operator: str
    inputs: Tuple[str, ...]
    outputs: Tuple[str, ...]
    attributes: Dict[str, Any]
    domain: str = ""


class Graph(NamedTuple):
    """A graph: the whole model, or the body of a node."""

    inputs: Tuple[Port, ...]
    outputs: Tuple[Port, ...]
    nodes: Tuple[Node, ...]
    initializers: Dict[str, np.ndarray]


class Run(NamedTuple):
    """A run of a graph: its feeds, its expected outputs, and the absolute tolerance of each output, all by name."""

    feeds: Dict[str, Any]
    expected: Dict[str, Any]
    atol: Dict[str, float]


class Case(NamedTuple):
    """A graph with its runs. `seed`: the seed from which the generator made the graph."""

    seed: int
    opset: int
    graph: Graph
    runs: Tuple[Run, ...]


def to_model(graph: Graph, opset: int) -> onnx.ModelProto:
    """Return the ONNX model of a graph. `opset`: the version of the default domain."""
    ir_version = next((ir for since, ir in _NEWEST_IR if opset >= since), 8)
    domains = sorted({node.domain for node in walk(graph)} - {""})
    imports = [helper.make_opsetid("", opset)] + [helper.make_opsetid(domain, _VERSIONS[domain]) for domain in domains]
    return helper.make_model(_to_proto(graph, "fuzz"), opset_imports=imports, ir_version=ir_version)


def element_type(dtype: str) -> int:
    """Return the number of a dtype in onnx's TensorProto, by its name: 1 for `float32`, 8 for `object` (strings)."""
    return int(_TYPES[dtype])


def walk(graph: Graph) -> Iterator[Node]:
    """Yield the nodes of a graph and of all its bodies. The nodes of a body follow its node."""
    for node in graph.nodes:
        yield node
        for attribute in node.attributes.values():
            if isinstance(attribute, Graph):
                yield from walk(attribute)


def free_names(nodes: Sequence[Node]) -> Set[str]:
    """Return the names of the values that nodes or their bodies read, and that these nodes do not define before."""
    read: Set[str] = set()
    defined: Set[str] = set()
    for node in nodes:
        read |= set(node.inputs) - defined
        for body in node.attributes.values():
            if isinstance(body, Graph):
                inner = free_names(body.nodes) | {port.name for port in body.outputs}
                own = {port.name for port in body.inputs} | set(body.initializers)
                own |= {name for inner_node in body.nodes for name in inner_node.outputs}
                read |= inner - own - defined
        defined |= set(node.outputs)
    return read - {""}


def _to_proto(graph: Graph, name: str) -> onnx.GraphProto:
    return helper.make_graph(
        [_node(node, "%s_%d" % (node.operator, i)) for i, node in enumerate(graph.nodes)],
        name,
        [_value_info(port) for port in graph.inputs],
        [_value_info(port) for port in graph.outputs],
        [_tensor(key, array) for key, array in graph.initializers.items()],
    )


def _node(node: Node, name: str) -> onnx.NodeProto:
    attributes: List[Any] = []
    for key, value in sorted(node.attributes.items()):
        if isinstance(value, Graph):
            value = _to_proto(value, "%s_%s" % (name, key))
        elif isinstance(value, np.ndarray):
            value = _tensor("", value)
        attributes.append(helper.make_attribute(key, value))
    proto = helper.make_node(node.operator, list(node.inputs), list(node.outputs), name, domain=node.domain or None)
    proto.attribute.extend(attributes)
    return proto


def _tensor(name: str, array: np.ndarray) -> onnx.TensorProto:
    if array.dtype == object:
        texts = [str(text).encode("utf-8") for text in array.reshape(-1)]
        return onnx.TensorProto(name=name, data_type=_KINDS.STRING, dims=array.shape, string_data=texts)
    tensor = onnx.TensorProto(name=name, data_type=element_type(array.dtype.name), dims=array.shape)
    tensor.raw_data = np.ascontiguousarray(array).tobytes()
    return tensor


def _value_info(port: Port) -> onnx.ValueInfoProto:
    shape = None if port.shape is None else [None if size == UNKNOWN else size for size in port.shape]
    type_ = helper.make_tensor_type_proto(element_type(port.dtype), shape)
    if port.container == "sequence":
        type_ = helper.make_sequence_type_proto(type_)
    elif port.container == "optional":
        type_ = helper.make_optional_type_proto(type_)
    return onnx.ValueInfoProto(name=port.name, type=type_)
