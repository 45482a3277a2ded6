"""Types of 64 bits that next to no kernel takes: they are looked at as int64, which is moved and computed exactly.

What only moves does not care. uint64 is added and multiplied as int64 is. And bits can be made numbers of the same order.
"""

from typing import Any, Callable, Dict, Optional, Sequence, Tuple

import numpy as np

from onnx_compat_tflite.emitter.bitwise import Bitwise
from onnx_compat_tflite.subgraph_builder import Handle

__all__ = ["Long"]

_LEAST = -(2**63)
_INFINITY = 0x7FF << 52  # the bits of infinity, of a float64

_MOVING = frozenset(
    "TRANSPOSE CONCATENATION TILE SLICE STRIDED_SLICE GATHER GATHER_ND BROADCAST_TO SELECT_V2 PACK PAD PADV2"
    " MIRROR_PAD REVERSE_V2 DYNAMIC_UPDATE_SLICE".split()
)
_MODULAR = _MOVING | frozenset("ADD SUB MUL NEG EQUAL NOT_EQUAL SUM REDUCE_PROD CUMSUM SCATTER_ND".split())
_ORDERED = frozenset("LESS LESS_EQUAL EQUAL MAXIMUM MINIMUM REDUCE_MAX REDUCE_MIN TOPK_V2 ARG_MAX ARG_MIN".split())


class Long(Bitwise):
    """Needs the BITCAST of newer runtimes."""

    def _reads_bits(self) -> bool:
        return self.accepts("BITCAST", "float32", "float32")

    def _seen(self, x: Handle, dtype: str) -> Handle:
        """The same bits as another type of as many."""
        if x.dtype == dtype:
            return x
        if x.constant:
            return Handle.of(np.ascontiguousarray(x.array).view(dtype).reshape(x.array.shape))
        return self.add_op("BITCAST", [x], dtype, x.dims)

    # -- what a kernel does not take -----------------------------------------------------------------------------------
    def widened(
        self,
        method: Callable[..., Any],
        builtins: Sequence[str],
        x: Handle,
        rest: Sequence[Any],
        params: Dict[str, Any],
    ) -> Any:
        ways = self._ways(x.dtype, {name.partition(" ")[0] for name in builtins})
        if ways is None:
            return super().widened(method, builtins, x, rest, params)
        there, back = ways

        def seen(item: Any) -> Any:
            if isinstance(item, (list, tuple)):
                return type(item)(seen(part) for part in item)
            return there(item) if isinstance(item, Handle) and item.dtype == x.dtype else item

        result = method(self, seen(x), *seen(list(rest)), **params)
        if isinstance(result, tuple):
            return tuple(back(part) if part.dtype == "int64" else part for part in result)
        return back(result) if result.dtype == "int64" else result

    def _ways(self, dtype: str, builtins: Any) -> Optional[Tuple[Callable[..., Handle], Callable[..., Handle]]]:
        """How values become int64 for these kernels, and how their results come back."""
        if dtype not in ("uint64", "float64", "complex64") or not self._reads_bits():
            return None
        if builtins <= (_MODULAR if dtype == "uint64" else _MOVING):
            return lambda x: self._seen(x, "int64"), lambda x: self._seen(x, dtype)
        if dtype == "float64" and builtins <= {"REDUCE_MAX", "REDUCE_MIN"}:
            return self._ranked, lambda x: self._unranked(self._within_infinities(x), dtype)
        if builtins <= _ORDERED and dtype != "complex64":
            return self._ranked, lambda x: self._unranked(x, dtype)
        return None

    # -- order -----------------------------------------------------------------------------------------------------------
    def _ranked(self, x: Handle) -> Handle:
        """int64 in the order of the values: of uint64 with half the range less, of float64 as a sign and a magnitude."""
        bits = self._seen(x, "int64")
        least = self.like(bits, _LEAST)
        if x.dtype == "uint64":
            return self.add(bits, least)
        return self.where(self.less(bits, self.like(bits, 0)), self.sub(least, bits), bits)

    def _unranked(self, rank: Handle, dtype: str) -> Handle:
        """The same step leads back."""
        least = self.like(rank, _LEAST)
        if dtype == "uint64":
            return self._seen(self.add(rank, least), dtype)
        return self._seen(self.where(self.less(rank, self.like(rank, 0)), self.sub(least, rank), rank), dtype)

    def scatter_nd(self, x: Handle, indices: Handle, updates: Handle, reduction: str) -> Handle:
        """The larger of two uint64 is not that of the same bits as int64."""
        if x.dtype != "uint64" or reduction not in ("max", "min") or not self._reads_bits():
            return super().scatter_nd(x, indices, updates, reduction)
        rank = super().scatter_nd(self._ranked(x), indices, self._ranked(updates), reduction)
        return self._unranked(rank, "uint64")

    def _within_infinities(self, rank: Handle) -> Handle:
        """The ends of int64, which are the extremes of nothing, as those of float64."""
        return self.clip(rank, -_INFINITY, _INFINITY)

    def less(self, x: Handle, y: Handle) -> Handle:
        return self._compared(super().less, x, y)

    def less_equal(self, x: Handle, y: Handle) -> Handle:
        return self._compared(super().less_equal, x, y)

    def equal(self, x: Handle, y: Handle) -> Handle:
        return self._compared(super().equal, x, y)

    def _compared(self, method: Callable[..., Handle], x: Handle, y: Handle) -> Handle:
        """Nothing is true of a NaN."""
        found = method(x, y)
        for one in (x, y):
            if one.dtype == "float64" and not (one.constant and not np.isnan(one.array).any()):
                found = self.logical_and(found, self.logical_not(self.is_nan(one)))
        return found

    def maximum(self, x: Handle, y: Handle) -> Handle:
        return self._or_nan(super().maximum(x, y), x, y)

    def minimum(self, x: Handle, y: Handle) -> Handle:
        return self._or_nan(super().minimum(x, y), x, y)

    def _or_nan(self, extreme: Handle, *operands: Handle) -> Handle:
        for one in operands:
            if one.dtype == "float64" and not (one.constant and not np.isnan(one.array).any()):
                extreme = self.where(self.is_nan(one), one, extreme)
        return extreme

    # -- float64 by its bits ---------------------------------------------------------------------------------------------
    def is_nan(self, x: Handle) -> Handle:
        if not self._is_double(x):
            return super().is_nan(x)
        size = self._size_bits(x)
        return self.less(self.like(size, _INFINITY), size)

    def is_inf(self, x: Handle) -> Handle:
        if not self._is_double(x):
            return super().is_inf(x)
        size = self._size_bits(x)
        return self.equal(size, self.like(size, _INFINITY))

    def abs(self, x: Handle) -> Handle:
        return self._seen(self._size_bits(x), x.dtype) if self._is_double(x) else super().abs(x)

    def neg(self, x: Handle) -> Handle:
        if not self._is_double(x):
            return super().neg(x)
        bits = self._seen(x, "int64")
        return self._seen(self.add(bits, self.like(bits, _LEAST)), x.dtype)

    def _is_double(self, x: Handle) -> bool:
        return x.dtype == "float64" and self._reads_bits()

    def _size_bits(self, x: Handle) -> Handle:
        """Without the sign."""
        bits = self._seen(x, "int64")
        return self._bits_below_sign(bits)

    def _bits_below_sign(self, bits: Handle) -> Handle:
        flipped = self.add(bits, self.like(bits, _LEAST))
        return self.where(self.less(bits, self.like(bits, 0)), flipped, bits)

    # -- uint64 to and from other types ------------------------------------------------------------------------------------
    def to(self, x: Handle, dtype: str) -> Handle:
        whole = x.constant and x.array.dtype.kind != "f"
        if x.dtype == dtype or whole or "uint64" not in (x.dtype, dtype) or not self._reads_bits():
            return super().to(x, dtype)
        if x.dtype == "uint64":
            if dtype in ("float32", "float16"):
                return self.to(self._rounded(self._seen(x, "int64")), dtype)
            if dtype == "float64":
                return super().to(x, dtype)
            return self.to(self._seen(x, "int64"), dtype)
        if x.dtype in ("float32", "float16"):
            return self._seen(self._truncated_long(self.to(x, "float32")), dtype)
        return super().to(x, dtype) if x.dtype == "float64" else self._seen(self.to(x, "int64"), dtype)

    def _rounded(self, bits: Handle) -> Handle:
        """As float32: of a number beyond int64 twice its half, whose last bit still says if there was more."""
        odd = self.mod(bits, self.like(bits, 2))
        half = self._halved(bits)
        half = self.where(self.equal(self.mod(half, self.like(half, 2)), self.like(half, 0)), self.add(half, odd), half)
        large = self.mul(super().to(half, "float32"), Handle.of(np.float32(2)))
        return self.where(self.less(bits, self.like(bits, 0)), large, super().to(bits, "float32"))

    def _truncated_long(self, x: Handle) -> Handle:
        """The bits of a float32 as an integer: what lies beyond int64 is cast without 2^63."""
        beyond = self.like(x, 2.0**63)
        small = self.less(x, beyond)
        bits = super().to(self.where(small, x, self.sub(x, beyond)), "int64")
        return self.where(small, bits, self.add(bits, self.like(bits, _LEAST)))

    # -- division of uint64 ------------------------------------------------------------------------------------------------
    def _halved(self, bits: Handle) -> Handle:
        """Shifted by one; zeros come in."""
        half = super().floordiv(bits, self.like(bits, 2))
        return self._bits_below_sign(half)

    def div(self, x: Handle, y: Handle) -> Handle:
        if x.dtype != "uint64" or not self._reads_bits():
            return super().div(x, y)
        over, under = self._seen(x, "int64"), self._seen(y, "int64")
        zero = self.like(over, 0)
        once = self.to(self.less_equal(y, x), "int64")
        quotient = super().div(self._halved(over), under)
        quotient = self.add(quotient, quotient)
        rest = self._seen(self.sub(over, self.mul(quotient, under)), "uint64")
        quotient = self.add(quotient, self.to(self.less_equal(y, rest), "int64"))
        return self._seen(self.where(self.less(under, zero), once, quotient), "uint64")

    def floordiv(self, x: Handle, y: Handle) -> Handle:
        return self.div(x, y) if x.dtype == "uint64" and self._reads_bits() else super().floordiv(x, y)

    def mod(self, x: Handle, y: Handle) -> Handle:
        if x.dtype != "uint64" or not self._reads_bits():
            return super().mod(x, y)
        return self.sub(x, self.mul(self.div(x, y), y))

    def fmod(self, x: Handle, y: Handle) -> Handle:
        return self.mod(x, y) if x.dtype == "uint64" else super().fmod(x, y)

    # -- shifts ------------------------------------------------------------------------------------------------------------
    def shift_left(self, x: Handle, y: Handle) -> Handle:
        return super().shift_left(x, self._no_more(y))

    def _no_more(self, y: Handle) -> Handle:
        """No more than there are, as int64 looks at them."""
        return self.minimum(self.like(y, 64), y) if y.dtype == "uint64" and self._reads_bits() else y

    def shift_right(self, x: Handle, y: Handle) -> Handle:
        """By one, then as int64 by the rest."""
        if x.dtype != "uint64" or not self._reads_bits():
            return super().shift_right(x, y)
        bits, places = self._seen(x, "int64"), self._seen(self._no_more(y), "int64")
        none = self.equal(places, self.like(places, 0))
        one = self.like(places, 1)
        rest = self.where(none, self.like(places, 0), self.sub(places, one))
        shifted = super().shift_right(self._halved(bits), rest)
        return self._seen(self.where(none, bits, shifted), "uint64")
