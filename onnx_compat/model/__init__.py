"""Models: read ONNX files into checked, plain Python objects, with the model's own functions inlined.

`load` reads a model, `Model` is the result.
"""

from onnx_compat.model.attributes import Empty
from onnx_compat.model.graph import Graph, GraphNode, Model, ValueInfo
from onnx_compat.model.initializer import Constant, Initializer
from onnx_compat.model.loading import load
from onnx_compat.model.types import MapType, OpaqueType, OptionalType, SequenceType, SparseTensorType, TensorType, Type
from onnx_compat.model.write import extract, to_proto

__all__ = [
    "Constant",
    "Empty",
    "Graph",
    "GraphNode",
    "Initializer",
    "MapType",
    "Model",
    "OpaqueType",
    "OptionalType",
    "SequenceType",
    "SparseTensorType",
    "TensorType",
    "Type",
    "ValueInfo",
    "extract",
    "load",
    "to_proto",
]
