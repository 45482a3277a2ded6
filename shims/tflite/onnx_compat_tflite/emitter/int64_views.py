"""64-bit dtypes that hardly any kernel takes: uint64, float64 and complex64 are viewed as int64.

Operators that only move elements work on the bits. uint64 is added and multiplied as int64. For comparisons, the bits
are mapped to integers of the same order.
"""

from typing import Callable, Optional, Set, Tuple

import numpy as np

from onnx_compat_tflite.emitter import comparison, elementwise, extremes
from onnx_compat_tflite.emitter.builder import Builder
from onnx_compat_tflite.subgraph_builder import Handle

__all__ = ["INFINITY", "LEAST", "clear_sign", "find_views", "from_rank", "has_bitcast", "to_rank", "view_as"]

LEAST = -(2**63)  # the bits of a sign alone
INFINITY = 0x7FF << 52  # the bits of the float64 infinity
_MOVING = frozenset(
    "TRANSPOSE CONCATENATION TILE SLICE STRIDED_SLICE GATHER GATHER_ND BROADCAST_TO SELECT_V2 PACK PAD PADV2"
    " MIRROR_PAD REVERSE_V2 DYNAMIC_UPDATE_SLICE".split()
)
_MODULAR = _MOVING | frozenset("ADD SUB MUL NEG EQUAL NOT_EQUAL SUM REDUCE_PROD CUMSUM SCATTER_ND".split())
_ORDERED = frozenset("LESS LESS_EQUAL EQUAL MAXIMUM MINIMUM REDUCE_MAX REDUCE_MIN TOPK_V2 ARG_MAX ARG_MIN".split())


def has_bitcast(builder: Builder) -> bool:
    """Whether the runtime has BITCAST."""
    return builder.accepts("BITCAST", "float32", "float32")


def view_as(builder: Builder, x: Handle, dtype: str) -> Handle:
    """Return the bits of x as another dtype of the same width, by BITCAST.

    If x has this dtype, returns x. If x is a constant, returns a constant.
    """
    if x.dtype == dtype:
        return x
    if x.is_constant:
        return Handle.of(np.ascontiguousarray(x.array).view(dtype).reshape(x.array.shape))
    return builder.add_op("BITCAST", [x], dtype, x.dims)


def find_views(
    builder: Builder, dtype: str, builtins: Set[str]
) -> Optional[Tuple[Callable[..., Handle], Callable[..., Handle]]]:
    """Return (function to int64, function back to `dtype`), so that int64 kernels can compute the ops `builtins`.

    Each function takes and returns a handle. They depend on `dtype` (uint64, float64 or complex64) and the ops:

    - If all ops are in `_MOVING` (they move elements), the functions keep the bits.
    - If the dtype is uint64 and all ops are in `_MODULAR` (for example ADD, EQUAL), the functions keep the bits.
    - Otherwise, if the dtype is uint64 or float64 and all ops are in `_ORDERED` (for example LESS, TOPK_V2), the
      functions convert to int64 numbers of the same order and back (`to_rank`). Ranks of float64 results of REDUCE_MAX
      and REDUCE_MIN are clipped to those of -inf and inf.

    Returns None in all other cases: for another dtype or op, and if the runtime lacks BITCAST.
    """
    if dtype not in ("uint64", "float64", "complex64") or not has_bitcast(builder):
        return None
    if builtins <= (_MODULAR if dtype == "uint64" else _MOVING):
        return lambda x: view_as(builder, x, "int64"), lambda x: view_as(builder, x, dtype)
    if dtype == "float64" and builtins <= {"REDUCE_MAX", "REDUCE_MIN"}:
        return lambda x: to_rank(builder, x), lambda x: from_rank(builder, _clip_rank(builder, x), dtype)
    if builtins <= _ORDERED and dtype != "complex64":
        return lambda x: to_rank(builder, x), lambda x: from_rank(builder, x, dtype)
    return None


def to_rank(builder: Builder, x: Handle) -> Handle:
    """Map a uint64 or float64 x to int64 numbers (ranks) of the same order. `from_rank` is the inverse.

    - uint64: the rank is x - 2^63.
    - float64: the rank of x >= 0 is its bits as an integer. The rank of -x is the negative rank of x.

    Both zeros of float64 have the rank 0.
    """
    bits = view_as(builder, x, "int64")
    sign = builder.like(bits, LEAST)
    if x.dtype == "uint64":
        return elementwise.add(builder, bits, sign)
    is_negative = comparison.less(builder, bits, builder.like(bits, 0))
    return comparison.where(builder, is_negative, elementwise.sub(builder, sign, bits), bits)


def from_rank(builder: Builder, rank: Handle, dtype: str) -> Handle:
    """Map ranks of `to_rank` back to values of the dtype, uint64 or float64."""
    sign = builder.like(rank, LEAST)
    if dtype == "uint64":
        return view_as(builder, elementwise.add(builder, rank, sign), dtype)
    is_negative = comparison.less(builder, rank, builder.like(rank, 0))
    bits = comparison.where(builder, is_negative, elementwise.sub(builder, sign, rank), rank)
    return view_as(builder, bits, dtype)


def _clip_rank(builder: Builder, rank: Handle) -> Handle:
    """Clip ranks of float64 to the ranks of -inf and inf.

    The maximum or minimum of no elements needs this: int64 kernels return the least or greatest int64 for it.
    """
    return extremes.clip(builder, rank, -INFINITY, INFINITY)


def clear_sign(builder: Builder, bits: Handle) -> Handle:
    """Return int64 bits with the sign bit cleared."""
    flipped = elementwise.add(builder, bits, builder.like(bits, LEAST))
    return comparison.where(builder, comparison.less(builder, bits, builder.like(bits, 0)), flipped, bits)
