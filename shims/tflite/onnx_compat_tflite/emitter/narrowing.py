"""Narrow int64 values to int32, the dtype of sizes, bounds and indices in kernels, without wrapping.

A CAST keeps the low 32 bits: INT64_MAX, the end of an open slice in most exporters, becomes -1. So an int64 value
that is known at run time only is narrowed according to its use in ONNX:

- A bound of a slice is clamped to int32. That is beyond every axis, and ONNX clamps it to the axis.
- The k of a TopK is clamped too. Its kernel refuses a k beyond the axis.
- Any other size that does not fit int32 becomes `INVALID`, which kernels refuse.

A value that provably fits (`Handle.fits_int32`) is only cast.
"""

from typing import TYPE_CHECKING, Any, Optional, Sequence, Union

import numpy as np

from onnx_compat.shim import UnsupportedError
from onnx_compat_tflite.subgraph_builder import Handle

if TYPE_CHECKING:
    from onnx_compat_tflite.emitter.base import Base

__all__ = ["INVALID", "int32_array", "keeps_int32", "may_overflow", "narrow_checked", "narrow_clamped", "narrow_stack"]

#: A size that every kernel refuses: negative, and not the wildcard -1 of RESHAPE.
INVALID = -2

_MAX = 2**31 - 1

#: Operators whose int64 results count or locate elements. A tensor has at most 2^31 - 1 elements.
_COUNTS_OR_LOCATES = frozenset(("ARG_MAX", "ARG_MIN", "WHERE"))
#: Operators whose results hold only elements of their operands.
_MOVES_ELEMENTS = frozenset(
    "RESHAPE TRANSPOSE SLICE STRIDED_SLICE GATHER GATHER_ND CONCATENATION PACK EXPAND_DIMS SQUEEZE TILE BROADCAST_TO"
    " REVERSE_V2 SELECT_V2 MAXIMUM MINIMUM REDUCE_MAX REDUCE_MIN FILL PADV2".split()
)
_NARROWER = frozenset("bool int8 uint8 int16 uint16 int32".split())


def int32_array(values: Union[int, np.integer, np.ndarray, Sequence[int]]) -> Any:
    """Return known sizes as int32; raise UnsupportedError if a size does not fit. numpy before 1.24 would wrap it."""
    array = np.asarray(values, np.int64) if np.size(values) else np.asarray(values, np.int32)
    if array.size and (array.max() > _MAX or array.min() < -_MAX - 1):
        raise UnsupportedError(
            "a size is %d, and TFLite stores sizes as int32" % max(array.reshape(-1).tolist(), key=abs)
        )
    return array.astype(np.int32)


def keeps_int32(builtin: str, inputs: Sequence[Optional[Handle]]) -> bool:
    """Whether an int64 result of an operator provably fits int32."""
    if builtin in _COUNTS_OR_LOCATES:
        return True
    if builtin == "CAST":
        source = inputs[0]
        return source is not None and source.dtype in _NARROWER
    operands = [x for x in inputs if x is not None and x.dtype == "int64"]
    return builtin in _MOVES_ELEMENTS and all(not may_overflow(x) for x in operands)


def may_overflow(x: Handle) -> bool:
    """Whether an element of an int64 tensor may exceed int32."""
    if x.dtype != "int64" or x.fits_int32:
        return False
    if x.is_constant:
        return bool(x.array.size and (x.array.max() > _MAX or x.array.min() < -_MAX - 1))
    return True


def narrow_clamped(emitter: "Base", x: Handle) -> Handle:
    """Return x as int32, clamped to its range."""
    if may_overflow(x):
        x = emitter.add_op("MAXIMUM", [emitter.like(x, -_MAX), x], "int64", x.dims)
        x = emitter.add_op("MINIMUM", [emitter.like(x, _MAX), x], "int64", x.dims)
    result: Handle = emitter.to(x, "int32")
    return result


def narrow_checked(emitter: "Base", x: Handle) -> Handle:
    """Return x as int32, with `INVALID` for a value that does not fit."""
    narrow: Handle = emitter.to(x, "int32")
    if not may_overflow(x):
        return narrow
    fits = emitter.add_op("EQUAL", [emitter.to(narrow, "int64"), x], "bool", x.dims)
    result: Handle = emitter.add_op("SELECT_V2", [fits, narrow, emitter.like(narrow, INVALID)], "int32", x.dims)
    return result


def narrow_stack(emitter: "Base", scalars: Sequence[Any]) -> Handle:
    """Return scalars, some of them int64, as a vector that suits the primitive that is being emitted."""
    handles = [x if isinstance(x, Handle) else Handle.of(np.asarray(x, np.int64)) for x in scalars]
    handles = [emitter.to(x, "int64") for x in handles]
    vector: Handle = emitter.add_op("PACK", handles, "int64", (len(handles),), values_count=len(handles), axis=0)
    node = emitter.node
    if node.primitive == "slice":
        return narrow_clamped(emitter, vector)
    if node.primitive == "extents":  # the sizes are the result
        exact: Handle = emitter.to(vector, "int32") if node.params["dtype"].name == "int32" else vector
        return exact
    return narrow_checked(emitter, vector)
