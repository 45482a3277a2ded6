"""Narrowing int64 values to the int32 that kernels take for sizes, bounds and places, without wrapping.

A CAST keeps the low 32 bits: INT64_MAX, the end of an open slice in most exporters, becomes -1. So an int64 value
that is known at run time only is narrowed by what ONNX does with it:

- A bound of a slice is clamped to int32, which is beyond every axis, as ONNX clamps it to the axis.
- The k of a TopK is clamped too, which its kernel refuses as more than there are.
- Any other size that int32 does not hold becomes `INVALID`, which kernels refuse.

A value that provably fits (`Handle.fits_int32`) is cast alone.
"""

from typing import Any, Optional, Sequence

import numpy as np

from onnx_compat.shim import UnsupportedError
from onnx_compat_tflite.subgraph_builder import Handle

__all__ = ["INVALID", "int32_array", "keeps_int32", "may_overflow", "narrow_checked", "narrow_clamped", "narrow_stack"]

#: A size that every kernel refuses: negative, and not the wildcard -1 of RESHAPE.
INVALID = -2

_MAX = 2**31 - 1

#: Operators whose results of int64 count or locate elements, of which a tensor has at most 2^31 - 1.
_LOCATES = frozenset(("ARG_MAX", "ARG_MIN", "WHERE"))
#: Operators whose results hold nothing but elements of their operands.
_MOVES = frozenset(
    "RESHAPE TRANSPOSE SLICE STRIDED_SLICE GATHER GATHER_ND CONCATENATION PACK EXPAND_DIMS SQUEEZE TILE BROADCAST_TO"
    " REVERSE_V2 SELECT_V2 MAXIMUM MINIMUM REDUCE_MAX REDUCE_MIN FILL PADV2".split()
)
_NARROWER = frozenset("bool int8 uint8 int16 uint16 int32".split())


def int32_array(values: Any) -> Any:
    """Known sizes as int32; numpy before 1.24 would wrap them."""
    array = np.asarray(values, np.int64) if np.size(values) else np.asarray(values, np.int32)
    if array.size and (array.max() > _MAX or array.min() < -_MAX - 1):
        raise UnsupportedError("a size of %d is beyond the int32 of TFLite" % max(array.reshape(-1).tolist(), key=abs))
    return array.astype(np.int32)


def keeps_int32(builtin: str, inputs: Sequence[Optional[Handle]]) -> bool:
    """Whether an int64 result of an operator provably fits int32."""
    if builtin in _LOCATES:
        return True
    if builtin == "CAST":
        source = inputs[0]
        return source is not None and source.dtype in _NARROWER
    operands = [x for x in inputs if x is not None and x.dtype == "int64"]
    return builtin in _MOVES and all(not may_overflow(x) for x in operands)


def may_overflow(x: Handle) -> bool:
    """Whether an element of an int64 tensor may be beyond int32."""
    if x.dtype != "int64" or x.fits_int32:
        return False
    if x.is_constant:
        return bool(x.array.size and (x.array.max() > _MAX or x.array.min() < -_MAX - 1))
    return True


def narrow_clamped(emitter: Any, x: Handle) -> Handle:
    """x as int32, the nearest value where it does not fit."""
    if may_overflow(x):
        x = emitter.add_op("MAXIMUM", [emitter.like(x, -_MAX), x], "int64", x.dims)
        x = emitter.add_op("MINIMUM", [emitter.like(x, _MAX), x], "int64", x.dims)
    result: Handle = emitter.to(x, "int32")
    return result


def narrow_checked(emitter: Any, x: Handle) -> Handle:
    """x as int32, `INVALID` where it does not fit."""
    narrow: Handle = emitter.to(x, "int32")
    if not may_overflow(x):
        return narrow
    fits = emitter.add_op("EQUAL", [emitter.to(narrow, "int64"), x], "bool", x.dims)
    result: Handle = emitter.add_op("SELECT_V2", [fits, narrow, emitter.like(narrow, INVALID)], "int32", x.dims)
    return result


def narrow_stack(emitter: Any, scalars: Sequence[Any]) -> Handle:
    """Scalars of which some are int64 as one vector, for the primitive that is being emitted."""
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
