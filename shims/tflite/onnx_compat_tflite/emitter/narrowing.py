"""Narrow int64 values to int32, the dtype of sizes, bounds and indices in kernels, without wrapping.

A CAST keeps the low 32 bits: INT64_MAX, the end of an open slice in most exporters, becomes -1. So an int64 value
that is known at run time only is narrowed according to its use in ONNX:

- A bound of a slice is clamped to int32. That is beyond every axis, and ONNX clamps it to the axis.
- The k of a TopK is clamped too. Its kernel refuses a k beyond the axis.
- Any other size that does not fit int32 becomes `INVALID`, which kernels refuse.

A value that provably fits (`Handle.fits_int32`) is only cast.
"""

from typing import Any, Sequence

import numpy as np

from onnx_compat_tflite.emitter import casting
from onnx_compat_tflite.emitter.builder import Builder
from onnx_compat_tflite.emitter.int32_range import MAX, may_overflow
from onnx_compat_tflite.subgraph_builder import Handle

__all__ = ["INVALID", "narrow_checked", "narrow_clamped", "narrow_stack"]

#: A size that every kernel refuses: negative, and not the wildcard -1 of RESHAPE.
INVALID = -2


def narrow_clamped(builder: Builder, x: Handle) -> Handle:
    """Cast x, of an integer dtype, to int32. If an int64 x may not fit, its elements are clamped to +-(2^31 - 1).

    The clamp runs at run time. If x provably fits (`may_overflow` is false), x is only cast.
    """
    if may_overflow(x):
        x = builder.add_op("MAXIMUM", [builder.like(x, -MAX), x], "int64", x.dims)
        x = builder.add_op("MINIMUM", [builder.like(x, MAX), x], "int64", x.dims)
    result: Handle = casting.to(builder, x, "int32")
    return result


def narrow_checked(builder: Builder, x: Handle) -> Handle:
    """Cast x, of an integer dtype, to int32. An int64 element that does not fit becomes `INVALID` at run time."""
    narrow: Handle = casting.to(builder, x, "int32")
    if not may_overflow(x):
        return narrow
    fits = builder.add_op("EQUAL", [casting.to(builder, narrow, "int64"), x], "bool", x.dims)
    result: Handle = builder.add_op("SELECT_V2", [fits, narrow, builder.like(narrow, INVALID)], "int32", x.dims)
    return result


def narrow_stack(builder: Builder, scalars: Sequence[Any]) -> Handle:
    """Stack scalars (ints and scalar handles) by PACK of int64, and return a vector.

    The primitive of the builder's node decides the dtype, and the result for a value that does not fit int32:

    - slice: int32; the value is clamped (`narrow_clamped`)
    - extents: the dtype that the node requests; int64 keeps the value, int32 wraps it
    - any other primitive: int32; the value becomes `INVALID`
    """
    handles = [x if isinstance(x, Handle) else Handle.of(np.asarray(x, np.int64)) for x in scalars]
    handles = [casting.to(builder, x, "int64") for x in handles]
    vector: Handle = builder.add_op("PACK", handles, "int64", (len(handles),), values_count=len(handles), axis=0)
    node = builder.node
    if node.primitive == "slice":
        return narrow_clamped(builder, vector)
    if node.primitive == "extents":  # the sizes are the result
        exact: Handle = casting.to(builder, vector, "int32") if node.params["dtype"].name == "int32" else vector
        return exact
    return narrow_checked(builder, vector)
