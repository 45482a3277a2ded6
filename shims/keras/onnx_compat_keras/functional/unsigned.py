"""Compute uint64 in a functional Keras model, where int64 tensors store the bits (see `storage`).

Sums, products and equality of int64 have the right bits. This module has the primitives that depend on the magnitude, such as
comparison and division. With the highest bit flipped, int64 numbers compare as the uint64 numbers do.
"""

import math
from typing import Any, Callable, Optional, Sequence, Tuple

import numpy as np

from onnx_compat.shim import DType, Sizes, Window, dtypes
from onnx_compat_keras.arrays.elementwise import clip_bound
from onnx_compat_keras.framework_types import Handle
from onnx_compat_keras.functional.base import Known, carrier
from onnx_compat_keras.functional.elementwise import Elementwise
from onnx_compat_keras.functional.indexing import Indexing
from onnx_compat_keras.functional.pools import Pools
from onnx_compat_keras.functional.reduction import Reduction
from onnx_compat_keras.uint64 import reads_uint64

__all__ = ["FunctionalUnsigned64"]

_TOP = Known(np.asarray(-(2**63), np.int64), dtypes.int64)
_MAX = Known(np.asarray(2**63 - 1, np.int64), dtypes.int64)
_ONE = Known(np.asarray(1, np.int64), dtypes.int64)


class FunctionalUnsigned64(Elementwise, Pools, Indexing, Reduction):
    """Emitter methods that depend on the magnitude of uint64 numbers, which int64 tensors store.

    A method computes uint64 if the first argument of the current node is uint64. Otherwise it calls the base class.
    `cast` also converts floats to uint64.
    """

    @property
    def is_unsigned(self) -> bool:
        """Whether the first argument of the current node is uint64."""
        return reads_uint64(self.node)

    def _flip_sign_bit(self, x: Handle) -> Handle:
        """Return the numbers x with the highest bit flipped, by a sum that wraps."""
        if isinstance(x, Known):
            return Known(np.bitwise_xor(x.array, _TOP.array), dtypes.int64)
        return self.ops.add(self.tensor(x), self.tensor(_TOP))

    def _call_with_flipped_bits(self, method: Callable[..., Any], *operands: Handle, **params: Any) -> Any:
        """Return the result of a method for operands whose highest bit is flipped. The result is not flipped back."""
        return method(*map(self._flip_sign_bit, operands), **params)

    # -- comparison ----------------------------------------------------------------------------------------------------
    def less(self, x: Handle, y: Handle) -> Handle:
        return self._call_with_flipped_bits(super().less, x, y) if self.is_unsigned else super().less(x, y)

    def less_equal(self, x: Handle, y: Handle) -> Handle:
        return self._call_with_flipped_bits(super().less_equal, x, y) if self.is_unsigned else super().less_equal(x, y)

    def maximum(self, x: Handle, y: Handle) -> Handle:
        if not self.is_unsigned:
            return super().maximum(x, y)
        return self._flip_sign_bit(self._call_with_flipped_bits(super().maximum, x, y))

    def minimum(self, x: Handle, y: Handle) -> Handle:
        if not self.is_unsigned:
            return super().minimum(x, y)
        return self._flip_sign_bit(self._call_with_flipped_bits(super().minimum, x, y))

    def clip(self, x: Handle, low: Optional[float] = None, high: Optional[float] = None) -> Handle:
        if not self.is_unsigned:
            return super().clip(x, low, high)
        for bound, rounding, extreme in ((low, math.ceil, self.maximum), (high, math.floor, self.minimum)):
            if bound is not None:
                x = extreme(x, self.constant(clip_bound(bound, dtypes.uint64)(rounding), dtypes.uint64))
        return x

    def reduce_max(self, x: Handle, axes: Sequence[int], keepdims: bool = False) -> Handle:
        if not self.is_unsigned:
            return super().reduce_max(x, axes, keepdims)
        return self._flip_sign_bit(self._call_with_flipped_bits(super().reduce_max, x, axes=axes, keepdims=keepdims))

    def reduce_min(self, x: Handle, axes: Sequence[int], keepdims: bool = False) -> Handle:
        if not self.is_unsigned:
            return super().reduce_min(x, axes, keepdims)
        return self._flip_sign_bit(self._call_with_flipped_bits(super().reduce_min, x, axes=axes, keepdims=keepdims))

    def argmax(self, x: Handle, axis: int) -> Handle:
        return (
            self._call_with_flipped_bits(super().argmax, x, axis=axis) if self.is_unsigned else super().argmax(x, axis)
        )

    def argmin(self, x: Handle, axis: int) -> Handle:
        return (
            self._call_with_flipped_bits(super().argmin, x, axis=axis) if self.is_unsigned else super().argmin(x, axis)
        )

    def top_k(self, x: Handle, k: Sizes, axis: int, largest: bool = True) -> Tuple[Handle, Handle]:
        if not self.is_unsigned:
            return super().top_k(x, k, axis, largest)
        values, positions = self._call_with_flipped_bits(super().top_k, x, k=k, axis=axis, largest=largest)
        return self._flip_sign_bit(values), positions

    def max_pool(self, x: Handle, window: Window) -> Handle:
        if not self.is_unsigned:
            return super().max_pool(x, window)
        return self._flip_sign_bit(self._call_with_flipped_bits(super().max_pool, x, window=window))

    def scatter_nd(self, x: Handle, indices: Handle, updates: Handle, reduction: str) -> Handle:
        if not self.is_unsigned or reduction not in ("min", "max"):
            return super().scatter_nd(x, indices, updates, reduction)
        x, updates = self._flip_sign_bit(x), self._flip_sign_bit(updates)
        return self._flip_sign_bit(super().scatter_nd(x, indices, updates, reduction))

    # -- arithmetic ------------------------------------------------------------------------------------------------------
    def abs(self, x: Handle) -> Handle:
        return x if self.is_unsigned else super().abs(x)

    def neg(self, x: Handle) -> Handle:
        return self.ops.negative(self.tensor(x)) if self.is_unsigned else super().neg(x)

    def sign(self, x: Handle) -> Handle:
        if not self.is_unsigned:
            return super().sign(x)
        return self.ops.cast(self.ops.not_equal(self.tensor(x), 0), "int64")

    def div(self, x: Handle, y: Handle) -> Handle:
        return self._divmod(x, y)[0] if self.is_unsigned else super().div(x, y)

    def floordiv(self, x: Handle, y: Handle) -> Handle:
        return self._divmod(x, y)[0] if self.is_unsigned else super().floordiv(x, y)

    def mod(self, x: Handle, y: Handle) -> Handle:
        return self._divmod(x, y)[1] if self.is_unsigned else super().mod(x, y)

    def fmod(self, x: Handle, y: Handle) -> Handle:
        return self._divmod(x, y)[1] if self.is_unsigned else super().fmod(x, y)

    def _divmod(self, x: Handle, y: Handle) -> Tuple[Handle, Handle]:
        """Return (quotient, remainder) of uint64 numbers. A divisor of 0 counts as 1."""
        ops, x, y = self.ops, self.tensor(x), self.tensor(y)
        unit = self.tensor(_ONE)
        y = ops.where(ops.equal(y, 0), unit, y)
        is_large = ops.less(y, 0)
        small = ops.where(is_large, unit, y)
        near = ops.left_shift(ops.floor_divide(self._half(x), small), unit)  # at most 1 too small
        near = ops.where(is_large, ops.zeros_like(near), near)  # x < 2 * y, so the quotient is 0 or 1
        rest = ops.subtract(x, ops.multiply(near, y))
        more = ops.less_equal(self._flip_sign_bit(y), self._flip_sign_bit(rest))
        return ops.add(near, ops.cast(more, "int64")), ops.where(more, ops.subtract(rest, y), rest)

    def _half(self, x: Handle) -> Handle:
        """Return x // 2 of the uint64 number that x stores; the result is a non-negative int64."""
        return self.ops.bitwise_and(self.ops.right_shift(x, self.tensor(_ONE)), self.tensor(_MAX))

    def shift_left(self, x: Handle, y: Handle) -> Handle:
        if not self.is_unsigned:
            return super().shift_left(x, y)
        x, y = self.tensor(x), self.tensor(y)
        shifted = self.ops.left_shift(x, self._clamp_shift(y, 63))
        return self.ops.where(self._is_shift(y), shifted, self.ops.zeros_like(shifted))

    def shift_right(self, x: Handle, y: Handle) -> Handle:
        if not self.is_unsigned:
            return super().shift_right(x, y)
        ops, x, y = self.ops, self.tensor(x), self.tensor(y)
        shifted = ops.right_shift(self._half(x), self._clamp_shift(ops.subtract(y, 1), 62))
        shifted = ops.where(ops.equal(y, 0), x, shifted)
        return ops.where(self._is_shift(y), shifted, ops.zeros_like(shifted))

    def _clamp_shift(self, y: Handle, last: int) -> Handle:
        return self.ops.minimum(self.ops.maximum(y, 0), last)

    def _is_shift(self, y: Handle) -> Handle:
        """Return a bool tensor: where y, as a uint64 number, is below 64. A shift by 64 or more leaves no bit."""
        return self.ops.logical_and(self.ops.less_equal(0, y), self.ops.less(y, 64))

    def cast(self, x: Handle, dtype: DType) -> Handle:
        if self.is_unsigned and dtype.kind == "f":
            return self._to_float(self.tensor(x), carrier(dtype))
        if dtype.name == "uint64" and not self.is_unsigned:
            x = self.tensor(x)
            if x.dtype.startswith("float"):
                return self._from_float(x)
        return super().cast(x, dtype)

    def _to_float(self, x: Handle, dtype: DType) -> Handle:
        """Convert the uint64 numbers that x stores to a float dtype.

        A number of 2**63 or more is halved, converted and doubled. If the halving shifts out a 1, the last bit of the
        half is set (sticky bit), so that the result is rounded correctly.
        """
        ops = self.ops
        half = ops.bitwise_or(self._half(x), ops.bitwise_and(x, self.tensor(_ONE)))
        plain, doubled = ops.cast(x, dtype.name), ops.multiply(ops.cast(half, dtype.name), 2)
        return ops.where(ops.less(x, 0), doubled, plain)

    def _from_float(self, x: Handle) -> Handle:
        """Convert floats to uint64, stored as int64.

        2**63 is subtracted from numbers of at least 2**63 before the conversion, and added again after it.
        """
        ops = self.ops
        limit = 2.0**63
        is_large = ops.less_equal(limit, x)
        below = ops.cast(ops.where(is_large, ops.subtract(x, limit), x), "int64")
        return ops.where(is_large, ops.add(below, self.tensor(_TOP)), below)
