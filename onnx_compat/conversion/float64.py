"""Replace float64 by float32 in a model, for formats without kernels of float64: `float64_as_float32` of `convert`."""

from typing import Any, Optional

import numpy as np

from onnx_compat.ir.dtypes import float32, float64
from onnx_compat.model import Graph, GraphNode, Initializer, Model, SequenceType, TensorType, ValueInfo
from onnx_compat.model.initializer import Constant
from onnx_compat.model.types import MapType, OptionalType, Type

__all__ = ["narrow_float64"]

#: Attributes that name a dtype by its number in ONNX.
_DTYPES = ("to", "dtype", "output_dtype", "output_datatype", "precision", "stash_type")
#: Operators with such an attribute that read the bits of a number: they stay.
_BITS = ("BitCast",)


def narrow_float64(model: Model) -> Model:
    """Return a copy of the model with float32 in place of float64.

    Types of values, weights, constants, and attributes that name a dtype (as in Cast) change, also in subgraphs. The
    dtype that a BitCast names stays, and so do the functions of the model.

    Weights are converted when they are read. Numbers beyond the range of float32 become infinity.
    """
    return model.with_graph(_narrow_graph(model.graph))


def _narrow_graph(graph: Graph) -> Graph:
    return Graph(
        graph.name,
        [ValueInfo(port.name, _narrow_type(port.type)) for port in graph.inputs],
        [ValueInfo(port.name, _narrow_type(port.type)) for port in graph.outputs],
        [_narrow_node(node) for node in graph.nodes],
        {name: _narrow_initializer(stored) for name, stored in graph.initializers.items()},
        {name: _narrow_type(kind) for name, kind in graph.value_info.items()},
        graph.doc,
    )


def _narrow_type(kind: Optional[Type]) -> Optional[Type]:
    if isinstance(kind, TensorType):
        return kind._replace(dtype=float32) if kind.dtype == float64 else kind
    if isinstance(kind, (SequenceType, OptionalType)):
        return kind._replace(element=_narrow_type(kind.element))
    return kind._replace(value=_narrow_type(kind.value)) if isinstance(kind, MapType) else kind


def _narrow_initializer(stored: Initializer) -> Initializer:
    if stored.dtype != float64:
        return stored
    return Initializer(stored.name, float32, stored.shape, lambda: _narrow_array(stored.array()))


def _narrow_array(array: Any) -> np.ndarray:
    with np.errstate(over="ignore"):
        return np.asarray(array).astype(np.float32)


def _narrow_node(node: GraphNode) -> GraphNode:
    attributes = {name: _narrow_attribute(node, name, value) for name, value in node.attributes.items()}
    return GraphNode(
        node.operator, node.inputs, node.outputs, attributes, node.domain, node.opset, node.name, node.overload
    )


def _narrow_attribute(node: GraphNode, name: str, value: Any) -> Any:
    """Return the value of the attribute `name` of `node`, with float32 in place of float64.

    A graph, a type, a tensor, the number of a dtype and a tuple of these are converted. Any other value is returned
    unchanged.
    """
    if isinstance(value, Graph):
        return _narrow_graph(value)
    if isinstance(value, Constant):
        return Constant(_narrow_array(value.array), float32, value.name) if value.dtype == float64 else value
    if isinstance(value, (TensorType, SequenceType, OptionalType, MapType)):
        return _narrow_type(value)
    if type(value) is tuple:
        return tuple(_narrow_attribute(node, name, item) for item in value)
    is_dtype = name in _DTYPES and value == float64.onnx and node.operator not in _BITS
    return float32.onnx if is_dtype else value
