"""64-bit dtypes that hardly any kernel takes: uint64, float64 and complex64 are viewed as int64.

Operators that only move elements work on the bits. uint64 is added and multiplied as int64. For comparisons, the bits
are mapped to integers of the same order.
"""

from typing import Any, Callable, Dict, Optional, Sequence, Set, Tuple

import numpy as np

from onnx_compat_tflite.emitter.bitwise import Bitwise
from onnx_compat_tflite.subgraph_builder import Handle

__all__ = ["WideIntegers"]

_LEAST = -(2**63)
_INFINITY = 0x7FF << 52  # the bits of the float64 infinity

_MOVING = frozenset(
    "TRANSPOSE CONCATENATION TILE SLICE STRIDED_SLICE GATHER GATHER_ND BROADCAST_TO SELECT_V2 PACK PAD PADV2"
    " MIRROR_PAD REVERSE_V2 DYNAMIC_UPDATE_SLICE".split()
)
_MODULAR = _MOVING | frozenset("ADD SUB MUL NEG EQUAL NOT_EQUAL SUM REDUCE_PROD CUMSUM SCATTER_ND".split())
_ORDERED = frozenset("LESS LESS_EQUAL EQUAL MAXIMUM MINIMUM REDUCE_MAX REDUCE_MIN TOPK_V2 ARG_MAX ARG_MIN".split())


class WideIntegers(Bitwise):
    """Emit 64-bit dtypes on runtimes with BITCAST."""

    def _has_bitcast(self) -> bool:
        """Whether the runtime has BITCAST."""
        return self.accepts("BITCAST", "float32", "float32")

    def _view_as(self, x: Handle, dtype: str) -> Handle:
        """Return the same bits as another dtype of the same width."""
        if x.dtype == dtype:
            return x
        if x.is_constant:
            return Handle.of(np.ascontiguousarray(x.array).view(dtype).reshape(x.array.shape))
        return self.add_op("BITCAST", [x], dtype, x.dims)

    # -- kernels without the dtype -------------------------------------------------------------------------------------
    def call_widened(
        self,
        method: Callable[..., Any],
        builtins: Sequence[str],
        x: Handle,
        arguments: Sequence[Any],
        params: Dict[str, Any],
    ) -> Any:
        """Map the operands to int64, call the method, and map its results back.

        If these kernels allow no such mapping, `Base.call_widened` decides.
        """
        views = self._int64_views(x.dtype, {name.partition(" ")[0] for name in builtins})
        if views is None:
            return super().call_widened(method, builtins, x, arguments, params)
        to_int64, from_int64 = views

        def view_item(item: Any) -> Any:
            if isinstance(item, (list, tuple)):
                return type(item)(view_item(part) for part in item)
            return to_int64(item) if isinstance(item, Handle) and item.dtype == x.dtype else item

        result = method(self, view_item(x), *view_item(list(arguments)), **params)
        if isinstance(result, tuple):
            return tuple(from_int64(part) if part.dtype == "int64" else part for part in result)
        return from_int64(result) if result.dtype == "int64" else result

    def _int64_views(
        self, dtype: str, builtins: Set[str]
    ) -> Optional[Tuple[Callable[..., Handle], Callable[..., Handle]]]:
        """Return the functions that view operands of these kernels as int64, and results as the dtype; None without a
        view.
        """
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
        """Map values to int64 in the same order: uint64 less half its range, float64 as two's complement."""
        bits = self._view_as(x, "int64")
        sign = self.like(bits, _LEAST)
        if x.dtype == "uint64":
            return self.add(bits, sign)
        return self.where(self.less(bits, self.like(bits, 0)), self.sub(sign, bits), bits)

    def _from_rank(self, rank: Handle, dtype: str) -> Handle:
        """Map ranks back to values, by the same step."""
        sign = self.like(rank, _LEAST)
        if dtype == "uint64":
            return self._view_as(self.add(rank, sign), dtype)
        return self._view_as(self.where(self.less(rank, self.like(rank, 0)), self.sub(sign, rank), rank), dtype)

    def scatter_nd(self, x: Handle, indices: Handle, updates: Handle, reduction: str) -> Handle:
        """Emit ScatterND; the maximum and minimum of uint64 are taken of their ranks."""
        if x.dtype != "uint64" or reduction not in ("max", "min") or not self._has_bitcast():
            return super().scatter_nd(x, indices, updates, reduction)
        rank = super().scatter_nd(self._to_rank(x), indices, self._to_rank(updates), reduction)
        return self._from_rank(rank, "uint64")

    def _clip_rank(self, rank: Handle) -> Handle:
        """Clip ranks to those of infinity. The reduction of no elements gives the ends of int64."""
        return self.clip(rank, -_INFINITY, _INFINITY)

    def less(self, x: Handle, y: Handle) -> Handle:
        return self._false_on_nan(super().less, x, y)

    def less_equal(self, x: Handle, y: Handle) -> Handle:
        return self._false_on_nan(super().less_equal, x, y)

    def equal(self, x: Handle, y: Handle) -> Handle:
        return self._false_on_nan(super().equal, x, y)

    def _false_on_nan(self, method: Callable[..., Handle], x: Handle, y: Handle) -> Handle:
        """Return a comparison, false where an operand is a NaN of float64."""
        result = method(x, y)
        for operand in (x, y):
            if operand.dtype == "float64" and not (operand.is_constant and not np.isnan(operand.array).any()):
                result = self.logical_and(result, self.logical_not(self.is_nan(operand)))
        return result

    def maximum(self, x: Handle, y: Handle) -> Handle:
        return self._propagate_nan(super().maximum(x, y), x, y)

    def minimum(self, x: Handle, y: Handle) -> Handle:
        return self._propagate_nan(super().minimum(x, y), x, y)

    def _propagate_nan(self, extreme: Handle, *operands: Handle) -> Handle:
        """Return an extreme, NaN where an operand is a NaN of float64."""
        for operand in operands:
            if operand.dtype == "float64" and not (operand.is_constant and not np.isnan(operand.array).any()):
                extreme = self.where(self.is_nan(operand), operand, extreme)
        return extreme

    # -- bits of float64 -----------------------------------------------------------------------------------------------
    def is_nan(self, x: Handle) -> Handle:
        if not self._is_double(x):
            return super().is_nan(x)
        magnitude = self._magnitude_bits(x)
        return self.less(self.like(magnitude, _INFINITY), magnitude)

    def is_inf(self, x: Handle) -> Handle:
        if not self._is_double(x):
            return super().is_inf(x)
        magnitude = self._magnitude_bits(x)
        return self.equal(magnitude, self.like(magnitude, _INFINITY))

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
        """Return the bits of a float64 without the sign."""
        bits = self._view_as(x, "int64")
        return self._clear_sign(bits)

    def _clear_sign(self, bits: Handle) -> Handle:
        """Return bits with the sign cleared."""
        flipped = self.add(bits, self.like(bits, _LEAST))
        return self.where(self.less(bits, self.like(bits, 0)), flipped, bits)

    # -- casts of uint64 -----------------------------------------------------------------------------------------------
    def to(self, x: Handle, dtype: str) -> Handle:
        is_known_integer = x.is_constant and x.array.dtype.kind != "f"
        if x.dtype == dtype or is_known_integer or "uint64" not in (x.dtype, dtype) or not self._has_bitcast():
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
        """Return uint64 bits as float32: above the range of int64 twice the half, whose last bit is rounded to odd."""
        odd = self.mod(bits, self.like(bits, 2))
        half = self._halve(bits)
        half = self.where(self.equal(self.mod(half, self.like(half, 2)), self.like(half, 0)), self.add(half, odd), half)
        large = self.mul(super().to(half, "float32"), Handle.of(np.float32(2)))
        return self.where(self.less(bits, self.like(bits, 0)), large, super().to(bits, "float32"))

    def _truncate_float32(self, x: Handle) -> Handle:
        """Return the uint64 bits of a float32: above the range of int64, 2^63 is subtracted before the cast."""
        beyond = self.like(x, 2.0**63)
        small = self.less(x, beyond)
        bits = super().to(self.where(small, x, self.sub(x, beyond)), "int64")
        return self.where(small, bits, self.add(bits, self.like(bits, _LEAST)))

    # -- division of uint64 ------------------------------------------------------------------------------------------------
    def _halve(self, bits: Handle) -> Handle:
        """Return the bits shifted right by one, with a zero as the highest bit."""
        half = super().floordiv(bits, self.like(bits, 2))
        return self._clear_sign(half)

    def div(self, x: Handle, y: Handle) -> Handle:
        if x.dtype != "uint64" or not self._has_bitcast():
            return super().div(x, y)
        dividend, divisor = self._view_as(x, "int64"), self._view_as(y, "int64")
        zero = self.like(dividend, 0)
        is_one = self.to(self.less_equal(y, x), "int64")
        quotient = super().div(self._halve(dividend), divisor)
        quotient = self.add(quotient, quotient)
        remainder = self._view_as(self.sub(dividend, self.mul(quotient, divisor)), "uint64")
        quotient = self.add(quotient, self.to(self.less_equal(y, remainder), "int64"))
        return self._view_as(self.where(self.less(divisor, zero), is_one, quotient), "uint64")

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
        """Return the shift, at most 64, so that int64 kernels read it as positive."""
        return self.minimum(self.like(y, 64), y) if y.dtype == "uint64" and self._has_bitcast() else y

    def shift_right(self, x: Handle, y: Handle) -> Handle:
        """Emit a shift: by one bit as uint64, then by the others as int64."""
        if x.dtype != "uint64" or not self._has_bitcast():
            return super().shift_right(x, y)
        bits, shift = self._view_as(x, "int64"), self._view_as(self._limit_shift(y), "int64")
        is_zero = self.equal(shift, self.like(shift, 0))
        unit = self.like(shift, 1)
        remaining_shift = self.where(is_zero, self.like(shift, 0), self.sub(shift, unit))
        shifted = super().shift_right(self._halve(bits), remaining_shift)
        return self._view_as(self.where(is_zero, bits, shifted), "uint64")
