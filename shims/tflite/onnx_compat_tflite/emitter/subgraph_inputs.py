"""The inputs of the subgraph of a branch or loop.

A value from outside becomes a further input of the subgraph. A constant is copied into each subgraph that reads it.
"""

from typing import List, Sequence

from onnx_compat.shim import Ref
from onnx_compat_tflite.emitter import casting
from onnx_compat_tflite.emitter.builder import Builder
from onnx_compat_tflite.subgraph_builder import Graph, Handle

__all__ = ["add_inner_input", "inner_handles", "non_constants", "stored_type", "to_scalar_bool"]


def inner_handles(graph: Graph, outer: Sequence[Handle]) -> List[Handle]:
    """Return handles of a subgraph for handles of the enclosing subgraph, in the same order.

    A constant is returned itself. For any other handle, an input is appended to the subgraph, and its handle returned.
    """
    return [handle if handle.is_constant else add_inner_input(graph, handle) for handle in outer]


def add_inner_input(graph: Graph, handle: Handle) -> Handle:
    """Append an input to a subgraph for a handle of the enclosing subgraph, and return the handle of the input.

    The input has the dtype and sizes of `handle`, and its flags `is_nonnegative`, `has_infinite` and `fits_int32`.
    """
    inner = graph.add_input("%s/in_%d" % (graph.spec.name, len(graph.spec.inputs)), handle.dtype, handle.dims)
    inner.is_nonnegative, inner.has_infinite = handle.is_nonnegative, handle.has_infinite
    inner.fits_int32 = handle.fits_int32
    return inner


def non_constants(handles: Sequence[Handle]) -> List[Handle]:
    """Return the handles that are no constants."""
    return [handle for handle in handles if not handle.is_constant]


def to_scalar_bool(builder: Builder, pred: Handle) -> Handle:
    """Return a condition `pred` of a single element, cast to a boolean of rank 0."""
    pred = casting.to(builder, pred, "bool")
    return pred if pred.rank == 0 else builder.add_op("RESHAPE", [pred], "bool", (), new_shape=[])


def stored_type(ref: Ref) -> str:
    """Return the TFLite type of a recorded value: the name of its carrier's numpy dtype, or "string"."""
    name = ref.spec.dtype.numpy.name
    return "string" if name == "object" else str(name)
