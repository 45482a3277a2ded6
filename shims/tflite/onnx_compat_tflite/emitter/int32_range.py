"""The range of int32, the dtype of sizes: known values that fit it, and results of operators that provably do."""

from typing import Any, Optional, Sequence, Union

import numpy as np

from onnx_compat.shim import UnsupportedError
from onnx_compat_tflite.subgraph_builder import Handle

__all__ = ["MAX", "int32_array", "keeps_int32", "may_overflow"]

MAX = 2**31 - 1
#: Operators whose int64 results count or locate elements. A tensor has at most 2^31 - 1 elements.
_COUNTS_OR_LOCATES = frozenset(("ARG_MAX", "ARG_MIN", "WHERE"))
#: Operators whose results hold only elements of their operands.
_MOVES_ELEMENTS = frozenset(
    "RESHAPE TRANSPOSE SLICE STRIDED_SLICE GATHER GATHER_ND CONCATENATION PACK EXPAND_DIMS SQUEEZE TILE BROADCAST_TO"
    " REVERSE_V2 SELECT_V2 MAXIMUM MINIMUM FILL PADV2".split()
)
#: Operators whose results hold only elements of their operand, unless a reduced axis is empty: then the extreme of int64.
_EXTREMES = frozenset(("REDUCE_MAX", "REDUCE_MIN"))
_NARROWER = frozenset("bool int8 uint8 int16 uint16 int32".split())


def int32_array(values: Union[int, np.integer, np.ndarray, Sequence[int]]) -> Any:
    """Return known sizes as an int32 array in the shape of `values`; the array has rank 0 for a number.

    Raises UnsupportedError if a size does not fit int32.
    """
    array = np.asarray(values, np.int64) if np.size(values) else np.asarray(values, np.int32)
    if array.size and (array.max() > MAX or array.min() < -MAX - 1):
        raise UnsupportedError(
            "a size is %d, and TFLite stores sizes as int32" % max(array.reshape(-1).tolist(), key=abs)
        )
    return array.astype(np.int32)


def keeps_int32(builtin: str, inputs: Sequence[Optional[Handle]]) -> bool:
    """Whether the int64 result of the op `builtin` on `inputs` provably fits int32. True in these cases:

    - The result holds indices: ARG_MAX, ARG_MIN and WHERE.
    - The op is a CAST from bool or from an integer dtype in `_NARROWER`.
    - The result has only elements of the inputs, as for GATHER or MAXIMUM, and `may_overflow` holds for no input. For
      REDUCE_MAX and REDUCE_MIN, the sizes of all reduced axes must be known to be 1 or more.

    False for all other ops, such as ADD. An omitted input is None.
    """
    if builtin in _COUNTS_OR_LOCATES:
        return True
    if builtin == "CAST":
        source = inputs[0]
        return source is not None and source.dtype in _NARROWER
    if builtin not in _MOVES_ELEMENTS and not (builtin in _EXTREMES and _has_elements(*inputs)):
        return False
    return not any(x is not None and may_overflow(x) for x in inputs)


def _has_elements(x: Optional[Handle], axes: Optional[Handle]) -> bool:
    """Whether `axes` is a constant, and x has a known size of 1 or more on each axis. False if an argument is None."""
    if x is None or axes is None or not axes.is_constant:
        return False
    sizes = [x.dims[int(axis)] for axis in axes.array.reshape(-1)]
    return all(isinstance(size, int) and size > 0 for size in sizes)


def may_overflow(x: Handle) -> bool:
    """Whether x is int64, and an element may lie outside the range of int32. False for another dtype.

    For an int64 constant, the elements decide. For a computed int64 tensor, the result is True unless `x.fits_int32`.
    """
    if x.dtype != "int64" or x.fits_int32:
        return False
    if x.is_constant:
        return bool(x.array.size and (x.array.max() > MAX or x.array.min() < -MAX - 1))
    return True
