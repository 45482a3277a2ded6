"""Models: read, checked, functions inlined, and seen as plain objects. See `load` and `Model`."""

from .attributes import Empty
from .graph import Graph, Model, Node, ValueInfo
from .initializer import Constant, Initializer
from .loading import load
from .types import MapType, OpaqueType, OptionalType, SequenceType, SparseTensorType, TensorType, Type
from .write import extract, to_proto

__all__ = [
    "Constant",
    "Empty",
    "Graph",
    "Initializer",
    "MapType",
    "Model",
    "Node",
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
