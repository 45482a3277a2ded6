"""Compute uint64 on torch, which lacks kernels for this dtype: an int64 tensor stores the bits.

Sums, products and equality of int64 have the right bits. This module has the primitives that depend on the magnitude, such as
comparison and division. With the highest bit flipped, int64 numbers compare as the uint64 numbers do.
"""

from typing import Sequence, Tuple

import torch

from onnx_compat.shim import DType, Window
from onnx_compat_keras.on_torch_windows import Windows
from onnx_compat_keras.uint64 import reads_uint64

__all__ = ["Unsigned64"]

_TOP = -(2**63)
_MAX = 2**63 - 1


def _flip_sign_bit(x: torch.Tensor) -> torch.Tensor:
    return torch.bitwise_xor(x, _TOP)


def _half(x: torch.Tensor) -> torch.Tensor:
    """Return x // 2 of the uint64 number that x stores; the result is a non-negative int64."""
    return torch.bitwise_and(torch.bitwise_right_shift(x, 1), _MAX)


def _is_below(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    """Return a bool tensor: x < y, for uint64 numbers that int64 tensors store."""
    return torch.lt(_flip_sign_bit(x), _flip_sign_bit(y))


def _unsigned_divmod(x: torch.Tensor, y: torch.Tensor) -> Tuple[torch.Tensor, torch.Tensor]:
    """Return (quotient, remainder) of uint64 numbers, which x, y and the results store as int64.

    A divisor of 0 counts as 1.
    """
    y = torch.where(torch.eq(y, 0), 1, y)
    small = torch.where(torch.lt(y, 0), 1, y)
    near = torch.bitwise_left_shift(torch.div(_half(x), small, rounding_mode="floor"), 1)  # at most 1 too small
    near = torch.where(torch.lt(y, 0), 0, near)  # x < 2 * y, so the quotient is 0 or 1
    rest = x - near * y
    more = torch.logical_not(_is_below(rest, y))
    return near + more, torch.where(more, rest - y, rest)


class Unsigned64(Windows):
    """Emitter methods that depend on the magnitude of uint64 numbers, which int64 tensors store.

    A method computes uint64 if the first argument of the current node is uint64. Otherwise it calls the base class.
    `cast` also converts floats to uint64.
    """

    @property
    def is_unsigned(self) -> bool:
        """Whether the first argument of the current node is uint64."""
        return reads_uint64(self.node)

    # -- element by element ------------------------------------------------------------------------------------------
    def abs(self, x: torch.Tensor) -> torch.Tensor:
        return x if self.is_unsigned else super().abs(x)

    def sign(self, x: torch.Tensor) -> torch.Tensor:
        return torch.ne(x, 0).to(x.dtype) if self.is_unsigned else super().sign(x)

    def div(self, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        return _unsigned_divmod(x, y)[0] if self.is_unsigned else super().div(x, y)

    def floordiv(self, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        return _unsigned_divmod(x, y)[0] if self.is_unsigned else super().floordiv(x, y)

    def mod(self, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        return _unsigned_divmod(x, y)[1] if self.is_unsigned else super().mod(x, y)

    def fmod(self, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        return _unsigned_divmod(x, y)[1] if self.is_unsigned else super().fmod(x, y)

    def pow(self, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        """Return x ** y. For uint64, by exponentiation by squaring: products of int64 wrap with the right bits."""
        if not self.is_unsigned:
            return super().pow(x, y)
        x, y = torch.broadcast_tensors(x, y)
        total = torch.ones_like(x)
        while torch.any(torch.ne(y, 0)):
            total = torch.where(torch.eq(torch.bitwise_and(y, 1), 1), total * x, total)
            x, y = x * x, _half(y)
        return total

    def less(self, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        return _is_below(x, y) if self.is_unsigned else super().less(x, y)

    def less_equal(self, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        return torch.le(_flip_sign_bit(x), _flip_sign_bit(y)) if self.is_unsigned else super().less_equal(x, y)

    def maximum(self, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        return torch.where(_is_below(x, y), y, x) if self.is_unsigned else super().maximum(x, y)

    def minimum(self, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        return torch.where(_is_below(y, x), y, x) if self.is_unsigned else super().minimum(x, y)

    def shift_left(self, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        if not self.is_unsigned:
            return super().shift_left(x, y)
        return torch.where(_is_below(self._last_bit(y), y), 0, torch.bitwise_left_shift(x, torch.clamp(y, 0, 63)))

    def shift_right(self, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        if not self.is_unsigned:
            return super().shift_right(x, y)
        shifted = torch.bitwise_right_shift(_half(x), torch.clamp(y - 1, 0, 62))
        return torch.where(_is_below(self._last_bit(y), y), 0, torch.where(torch.eq(y, 0), x, shifted))

    def _last_bit(self, y: torch.Tensor) -> torch.Tensor:
        """Return a tensor like y filled with 63, the index of the highest bit of uint64."""
        return torch.full_like(y, 63)

    def cast(self, x: torch.Tensor, dtype: DType) -> torch.Tensor:
        if self.is_unsigned and dtype.kind in "fc" and not x.is_floating_point():
            return self._to_float(x, dtype)
        if dtype.name == "uint64" and x.is_floating_point():
            large = torch.ge(x, 2.0**63)
            return torch.where(large, _flip_sign_bit((x - 2.0**63).to(torch.int64)), x.to(torch.int64))
        return super().cast(x, dtype)

    def _to_float(self, x: torch.Tensor, dtype: DType) -> torch.Tensor:
        """Convert a uint64 tensor x, which is stored as int64, to a float or complex dtype.

        A number of 2**63 or more is halved, converted and doubled. If the halving shifts out a 1, the last bit of the
        half is set (sticky bit), so that the result is rounded correctly.
        """
        half = torch.bitwise_or(_half(x), torch.bitwise_and(x, 1))
        plain, doubled = (super(Unsigned64, self).cast(part, dtype) for part in (x, half))
        return torch.where(torch.lt(x, 0), doubled * 2, plain)

    # -- along axes ----------------------------------------------------------------------------------------------------
    def reduce_max(self, x: torch.Tensor, axes: Sequence[int], keepdims: bool = False) -> torch.Tensor:
        if not self.is_unsigned or not x.numel():
            return super().reduce_max(x, axes, keepdims)
        return _flip_sign_bit(torch.amax(_flip_sign_bit(x), tuple(axes), keepdim=keepdims))

    def reduce_min(self, x: torch.Tensor, axes: Sequence[int], keepdims: bool = False) -> torch.Tensor:
        if not self.is_unsigned or not x.numel():
            return super().reduce_min(x, axes, keepdims)
        return _flip_sign_bit(torch.amin(_flip_sign_bit(x), tuple(axes), keepdim=keepdims))

    def reduce_mean(self, x: torch.Tensor, axes: Sequence[int], keepdims: bool = False) -> torch.Tensor:
        if not self.is_unsigned:
            return super().reduce_mean(x, axes, keepdims)
        count = 1
        for axis in axes:
            count *= int(x.shape[axis])
        total = torch.sum(x, tuple(axes), keepdim=keepdims)
        return _unsigned_divmod(total, torch.full_like(total, count))[0]

    def argmax(self, x: torch.Tensor, axis: int) -> torch.Tensor:
        return super().argmax(_flip_sign_bit(x) if self.is_unsigned else x, axis)

    def argmin(self, x: torch.Tensor, axis: int) -> torch.Tensor:
        return super().argmin(_flip_sign_bit(x) if self.is_unsigned else x, axis)

    def argsort(self, x: torch.Tensor, axis: int, descending: bool) -> torch.Tensor:
        return super().argsort(_flip_sign_bit(x) if self.is_unsigned else x, axis, descending)

    def max_pool(self, x: torch.Tensor, window: Window) -> torch.Tensor:
        if not self.is_unsigned:
            return super().max_pool(x, window)
        return _flip_sign_bit(super().max_pool(_flip_sign_bit(x), window))

    def scatter_rows(self, table: torch.Tensor, rows: torch.Tensor, new: torch.Tensor, reduction: str) -> torch.Tensor:
        if not self.is_unsigned or reduction not in ("max", "min"):
            return super().scatter_rows(table, rows, new, reduction)
        return _flip_sign_bit(super().scatter_rows(_flip_sign_bit(table), rows, _flip_sign_bit(new), reduction))
