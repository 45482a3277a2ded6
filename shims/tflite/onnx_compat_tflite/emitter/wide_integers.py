"""Types of 64 bits that next to no kernel takes: they are looked at as int64, which is moved and computed exactly.

What only moves does not care. uint64 is added and multiplied as int64 is. And bits can be made numbers of the same order.
"""

from typing import Any, Callable, Dict, Optional, Sequence, Tuple

import numpy as np

from onnx_compat_tflite.emitter.bitwise import Bitwise
from onnx_compat_tflite.subgraph_builder import Handle

__all__ = ["WideIntegers"]

_LEAST = -(2**63)
_INFINITY = 0x7FF << 52  # the bits of infinity, of a float64

_MOVING = frozenset(
    "TRANSPOSE CONCATENATION TILE SLICE STRIDED_SLICE GATHER GATHER_ND BROADCAST_TO SELECT_V2 PACK PAD PADV2"
    " MIRROR_PAD REVERSE_V2 DYNAMIC_UPDATE_SLICE".split()
)
_MODULAR = _MOVING | frozenset("ADD SUB MUL NEG EQUAL NOT_EQUAL SUM REDUCE_PROD CUMSUM SCATTER_ND".split())
_ORDERED = frozenset("LESS LESS_EQUAL EQUAL MAXIMUM MINIMUM REDUCE_MAX REDUCE_MIN TOPK_V2 ARG_MAX ARG_MIN".split())


class WideIntegers(Bitwise):
    """Needs the BITCAST of newer runtimes."""

    def _has_bitcast(self) -> bool:
        return self.accepts("BITCAST", "float32", "float32")

    def _view_as(self, x: Handle, dtype: str) -> Handle:
        """The same bits as another type of as many."""
        if x.dtype == dtype:
            return x
        if x.is_constant:
            return Handle.of(np.ascontiguousarray(x.array).view(dtype).reshape(x.array.shape))
        return self.add_op("BITCAST", [x], dtype, x.dims)

    # -- what a kernel does not take -----------------------------------------------------------------------------------
    def call_widened(
        self,
        method: Callable[..., Any],
        builtins: Sequence[str],
        x: Handle,
        rest: Sequence[Any],
        params: Dict[str, Any],
    ) -> Any:
        ways = self._int64_views(x.dtype, {name.partition(" ")[0] for name in builtins})
        if ways is None:
            return super().call_widened(method, builtins, x, rest, params)
        there, back = ways

        def seen(item: Any) -> Any:
            if isinstance(item, (list, tuple)):
                return type(item)(seen(part) for part in item)
            return there(item) if isinstance(item, Handle) and item.dtype == x.dtype else item

        result = method(self, seen(x), *seen(list(rest)), **params)
        if isinstance(result, tuple):
            return tuple(back(part) if part.dtype == "int64" else part for part in result)
        return back(result) if result.dtype == "int64" else result

    def _int64_views(self, dtype: str, builtins: Any) -> Optional[Tuple[Callable[..., Handle], Callable[..., Handle]]]:
        """How values become int64 for these kernels, and how their results come back."""
        if dtype not in ("uint64", "float64", "complex64") or not self._has_bitcast():
            return None
        if builtins <= (_MODULAR if dtype == "uint64" else _MOVING):
            return lambda x: self._view_as(x, "int64"), lambda x: self._view_as(x, dtype)
        if dtype == "float64" and builtins <= {"REDUCE_MAX", "REDUCE_MIN"}:
            return self._to_rank, lambda x: self._from_rank(self._clip_rank(x), dtype)
        if builtins <= _ORDERED and dtype != "complex64":
            return self._to_rank, lambda x: self._from_rank(x, dtype)
        return None

    # -- order -----------------------------------------------------------------------------------------------------------
    def _to_rank(self, x: Handle) -> Handle:
        """int64 in the order of the values: of uint64 with half the range less, of float64 as a sign and a magnitude."""
        bits = self._view_as(x, "int64")
        least = self.like(bits, _LEAST)
        if x.dtype == "uint64":
            return self.add(bits, least)
        return self.where(self.less(bits, self.like(bits, 0)), self.sub(least, bits), bits)

    def _from_rank(self, rank: Handle, dtype: str) -> Handle:
        """The same step leads back."""
        least = self.like(rank, _LEAST)
        if dtype == "uint64":
            return self._view_as(self.add(rank, least), dtype)
        return self._view_as(self.where(self.less(rank, self.like(rank, 0)), self.sub(least, rank), rank), dtype)

    def scatter_nd(self, x: Handle, indices: Handle, updates: Handle, reduction: str) -> Handle:
        """The larger of two uint64 is not that of the same bits as int64."""
        if x.dtype != "uint64" or reduction not in ("max", "min") or not self._has_bitcast():
            return super().scatter_nd(x, indices, updates, reduction)
        rank = super().scatter_nd(self._to_rank(x), indices, self._to_rank(updates), reduction)
        return self._from_rank(rank, "uint64")

    def _clip_rank(self, rank: Handle) -> Handle:
        """The ends of int64, which are the extremes of nothing, as those of float64."""
        return self.clip(rank, -_INFINITY, _INFINITY)

    def less(self, x: Handle, y: Handle) -> Handle:
        return self._false_on_nan(super().less, x, y)

    def less_equal(self, x: Handle, y: Handle) -> Handle:
        return self._false_on_nan(super().less_equal, x, y)

    def equal(self, x: Handle, y: Handle) -> Handle:
        return self._false_on_nan(super().equal, x, y)

    def _false_on_nan(self, method: Callable[..., Handle], x: Handle, y: Handle) -> Handle:
        """Nothing is true of a NaN."""
        found = method(x, y)
        for one in (x, y):
            if one.dtype == "float64" and not (one.is_constant and not np.isnan(one.array).any()):
                found = self.logical_and(found, self.logical_not(self.is_nan(one)))
        return found

    def maximum(self, x: Handle, y: Handle) -> Handle:
        return self._propagate_nan(super().maximum(x, y), x, y)

    def minimum(self, x: Handle, y: Handle) -> Handle:
        return self._propagate_nan(super().minimum(x, y), x, y)

    def _propagate_nan(self, extreme: Handle, *operands: Handle) -> Handle:
        for one in operands:
            if one.dtype == "float64" and not (one.is_constant and not np.isnan(one.array).any()):
                extreme = self.where(self.is_nan(one), one, extreme)
        return extreme

    # -- float64 by its bits ---------------------------------------------------------------------------------------------
    def is_nan(self, x: Handle) -> Handle:
        if not self._is_double(x):
            return super().is_nan(x)
        size = self._magnitude_bits(x)
        return self.less(self.like(size, _INFINITY), size)

    def is_inf(self, x: Handle) -> Handle:
        if not self._is_double(x):
            return super().is_inf(x)
        size = self._magnitude_bits(x)
        return self.equal(size, self.like(size, _INFINITY))

    def abs(self, x: Handle) -> Handle:
        return self._view_as(self._magnitude_bits(x), x.dtype) if self._is_double(x) else super().abs(x)

    def neg(self, x: Handle) -> Handle:
        if not self._is_double(x):
            return super().neg(x)
        bits = self._view_as(x, "int64")
        return self._view_as(self.add(bits, self.like(bits, _LEAST)), x.dtype)

    def _is_double(self, x: Handle) -> bool:
        return x.dtype == "float64" and self._has_bitcast()

    def _magnitude_bits(self, x: Handle) -> Handle:
        """Without the sign."""
        bits = self._view_as(x, "int64")
        return self._clear_sign(bits)

    def _clear_sign(self, bits: Handle) -> Handle:
        flipped = self.add(bits, self.like(bits, _LEAST))
        return self.where(self.less(bits, self.like(bits, 0)), flipped, bits)

    # -- uint64 to and from other types ------------------------------------------------------------------------------------
    def to(self, x: Handle, dtype: str) -> Handle:
        whole = x.is_constant and x.array.dtype.kind != "f"
        if x.dtype == dtype or whole or "uint64" not in (x.dtype, dtype) or not self._has_bitcast():
            return super().to(x, dtype)
        if x.dtype == "uint64":
            if dtype in ("float32", "float16"):
                return self.to(self._round_to_float32(self._view_as(x, "int64")), dtype)
            if dtype == "float64":
                return super().to(x, dtype)
            return self.to(self._view_as(x, "int64"), dtype)
        if x.dtype in ("float32", "float16"):
            return self._view_as(self._truncate_float32(self.to(x, "float32")), dtype)
        return super().to(x, dtype) if x.dtype == "float64" else self._view_as(self.to(x, "int64"), dtype)

    def _round_to_float32(self, bits: Handle) -> Handle:
        """As float32: of a number beyond int64 twice its half, whose last bit still says if there was more."""
        odd = self.mod(bits, self.like(bits, 2))
        half = self._halve(bits)
        half = self.where(self.equal(self.mod(half, self.like(half, 2)), self.like(half, 0)), self.add(half, odd), half)
        large = self.mul(super().to(half, "float32"), Handle.of(np.float32(2)))
        return self.where(self.less(bits, self.like(bits, 0)), large, super().to(bits, "float32"))

    def _truncate_float32(self, x: Handle) -> Handle:
        """The bits of a float32 as an integer: what lies beyond int64 is cast without 2^63."""
        beyond = self.like(x, 2.0**63)
        small = self.less(x, beyond)
        bits = super().to(self.where(small, x, self.sub(x, beyond)), "int64")
        return self.where(small, bits, self.add(bits, self.like(bits, _LEAST)))

    # -- division of uint64 ------------------------------------------------------------------------------------------------
    def _halve(self, bits: Handle) -> Handle:
        """Shifted by one; zeros come in."""
        half = super().floordiv(bits, self.like(bits, 2))
        return self._clear_sign(half)

    def div(self, x: Handle, y: Handle) -> Handle:
        if x.dtype != "uint64" or not self._has_bitcast():
            return super().div(x, y)
        over, under = self._view_as(x, "int64"), self._view_as(y, "int64")
        zero = self.like(over, 0)
        once = self.to(self.less_equal(y, x), "int64")
        quotient = super().div(self._halve(over), under)
        quotient = self.add(quotient, quotient)
        rest = self._view_as(self.sub(over, self.mul(quotient, under)), "uint64")
        quotient = self.add(quotient, self.to(self.less_equal(y, rest), "int64"))
        return self._view_as(self.where(self.less(under, zero), once, quotient), "uint64")

    def floordiv(self, x: Handle, y: Handle) -> Handle:
        return self.div(x, y) if x.dtype == "uint64" and self._has_bitcast() else super().floordiv(x, y)

    def mod(self, x: Handle, y: Handle) -> Handle:
        if x.dtype != "uint64" or not self._has_bitcast():
            return super().mod(x, y)
        return self.sub(x, self.mul(self.div(x, y), y))

    def fmod(self, x: Handle, y: Handle) -> Handle:
        return self.mod(x, y) if x.dtype == "uint64" else super().fmod(x, y)

    # -- shifts ------------------------------------------------------------------------------------------------------------
    def shift_left(self, x: Handle, y: Handle) -> Handle:
        return super().shift_left(x, self._limit_shift(y))

    def _limit_shift(self, y: Handle) -> Handle:
        """No more than there are, as int64 looks at them."""
        return self.minimum(self.like(y, 64), y) if y.dtype == "uint64" and self._has_bitcast() else y

    def shift_right(self, x: Handle, y: Handle) -> Handle:
        """By one, then as int64 by the rest."""
        if x.dtype != "uint64" or not self._has_bitcast():
            return super().shift_right(x, y)
        bits, places = self._view_as(x, "int64"), self._view_as(self._limit_shift(y), "int64")
        none = self.equal(places, self.like(places, 0))
        one = self.like(places, 1)
        rest = self.where(none, self.like(places, 0), self.sub(places, one))
        shifted = super().shift_right(self._halve(bits), rest)
        return self._view_as(self.where(none, bits, shifted), "uint64")
