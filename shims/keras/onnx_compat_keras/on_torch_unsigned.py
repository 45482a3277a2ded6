"""64-bit unsigned integers on torch, which has no kernels of them: their bits are carried in int64.

Sums, products and comparisons for equality are the same on the bits. What asks for the magnitude is done here: with the
highest bit turned round, signed numbers are in the order of the unsigned ones.
"""

from typing import Any, Sequence, Tuple

import torch

from onnx_compat.shim import Const, DType, Node, Ref

__all__ = ["Unsigned64"]

_TOP = -(2**63)
_MAX = 2**63 - 1


def _turned(x: Any) -> Any:
    return torch.bitwise_xor(x, _TOP)


def _half(x: Any) -> Any:
    """The bits without the lowest one, and that many places down: half of the number, as a signed one."""
    return torch.bitwise_and(torch.bitwise_right_shift(x, 1), _MAX)


def _below(x: Any, y: Any) -> Any:
    return torch.lt(_turned(x), _turned(y))


def _divided(x: Any, y: Any) -> Tuple[Any, Any]:
    """Quotient and remainder; what is divided by zero is divided by one."""
    y = torch.where(torch.eq(y, 0), 1, y)
    small = torch.where(torch.lt(y, 0), 1, y)
    near = torch.bitwise_left_shift(torch.div(_half(x), small, rounding_mode="floor"), 1)  # at most one too few
    near = torch.where(torch.lt(y, 0), 0, near)  # x is less than twice such a divisor
    rest = x - near * y
    more = torch.logical_not(_below(rest, y))
    return near + more, torch.where(more, rest - y, rest)


class Unsigned64:
    """The primitives that look at magnitudes; each does as the others do where the node is not about uint64."""

    node: Node

    @property
    def unsigned(self) -> bool:
        """Whether the node under way is about 64-bit unsigned integers."""
        first = self.node.args[0] if self.node.args else None
        return isinstance(first, (Ref, Const)) and first.spec.dtype.name == "uint64"

    # -- element by element ------------------------------------------------------------------------------------------
    def abs(self, x: Any) -> Any:
        return x if self.unsigned else super().abs(x)  # type: ignore[misc]

    def sign(self, x: Any) -> Any:
        return torch.ne(x, 0).to(x.dtype) if self.unsigned else super().sign(x)  # type: ignore[misc]

    def div(self, x: Any, y: Any) -> Any:
        return _divided(x, y)[0] if self.unsigned else super().div(x, y)  # type: ignore[misc]

    def floordiv(self, x: Any, y: Any) -> Any:
        return _divided(x, y)[0] if self.unsigned else super().floordiv(x, y)  # type: ignore[misc]

    def mod(self, x: Any, y: Any) -> Any:
        return _divided(x, y)[1] if self.unsigned else super().mod(x, y)  # type: ignore[misc]

    def fmod(self, x: Any, y: Any) -> Any:
        return _divided(x, y)[1] if self.unsigned else super().fmod(x, y)  # type: ignore[misc]

    def pow(self, x: Any, y: Any) -> Any:
        """Squared as often as the exponent has bits: a product wraps as it does for signed numbers."""
        if not self.unsigned:
            return super().pow(x, y)  # type: ignore[misc]
        x, y = torch.broadcast_tensors(x, y)
        total = torch.ones_like(x)
        while torch.any(torch.ne(y, 0)):
            total = torch.where(torch.eq(torch.bitwise_and(y, 1), 1), total * x, total)
            x, y = x * x, _half(y)
        return total

    def less(self, x: Any, y: Any) -> Any:
        return _below(x, y) if self.unsigned else super().less(x, y)  # type: ignore[misc]

    def less_equal(self, x: Any, y: Any) -> Any:
        return torch.le(_turned(x), _turned(y)) if self.unsigned else super().less_equal(x, y)  # type: ignore[misc]

    def maximum(self, x: Any, y: Any) -> Any:
        return torch.where(_below(x, y), y, x) if self.unsigned else super().maximum(x, y)  # type: ignore[misc]

    def minimum(self, x: Any, y: Any) -> Any:
        return torch.where(_below(y, x), y, x) if self.unsigned else super().minimum(x, y)  # type: ignore[misc]

    def shift_left(self, x: Any, y: Any) -> Any:
        if not self.unsigned:
            return super().shift_left(x, y)  # type: ignore[misc]
        return torch.where(_below(self._places(y), y), 0, torch.bitwise_left_shift(x, torch.clamp(y, 0, 63)))

    def shift_right(self, x: Any, y: Any) -> Any:
        if not self.unsigned:
            return super().shift_right(x, y)  # type: ignore[misc]
        shifted = torch.bitwise_right_shift(_half(x), torch.clamp(y - 1, 0, 62))
        return torch.where(_below(self._places(y), y), 0, torch.where(torch.eq(y, 0), x, shifted))

    def _places(self, y: Any) -> Any:
        return torch.full_like(y, 63)

    def cast(self, x: Any, dtype: DType) -> Any:
        if self.unsigned and dtype.kind in "fc" and not x.is_floating_point():
            return self._to_float(x, dtype)
        if dtype.name == "uint64" and x.is_floating_point():
            large = torch.ge(x, 2.0**63)
            return torch.where(large, _turned((x - 2.0**63).to(torch.int64)), x.to(torch.int64))
        return super().cast(x, dtype)  # type: ignore[misc]

    def _to_float(self, x: Any, dtype: DType) -> Any:
        """Large numbers by their half, whose last bit stays set if the one below was: then it rounds the same way."""
        half = torch.bitwise_or(_half(x), torch.bitwise_and(x, 1))
        plain, doubled = (super(Unsigned64, self).cast(part, dtype) for part in (x, half))  # type: ignore[misc]
        return torch.where(torch.lt(x, 0), doubled * 2, plain)

    # -- along axes ----------------------------------------------------------------------------------------------------
    def reduce_max(self, x: Any, axes: Sequence[int], keepdims: bool = False) -> Any:
        if not self.unsigned or not x.numel():
            return super().reduce_max(x, axes, keepdims)  # type: ignore[misc]
        return _turned(torch.amax(_turned(x), tuple(axes), keepdim=keepdims))

    def reduce_min(self, x: Any, axes: Sequence[int], keepdims: bool = False) -> Any:
        if not self.unsigned or not x.numel():
            return super().reduce_min(x, axes, keepdims)  # type: ignore[misc]
        return _turned(torch.amin(_turned(x), tuple(axes), keepdim=keepdims))

    def reduce_mean(self, x: Any, axes: Sequence[int], keepdims: bool = False) -> Any:
        if not self.unsigned:
            return super().reduce_mean(x, axes, keepdims)  # type: ignore[misc]
        count = 1
        for axis in axes:
            count *= int(x.shape[axis])
        total = torch.sum(x, tuple(axes), keepdim=keepdims)
        return _divided(total, torch.full_like(total, count))[0]

    def argmax(self, x: Any, axis: int) -> Any:
        return super().argmax(_turned(x) if self.unsigned else x, axis)  # type: ignore[misc]

    def argmin(self, x: Any, axis: int) -> Any:
        return super().argmin(_turned(x) if self.unsigned else x, axis)  # type: ignore[misc]

    def ordered(self, x: Any, axis: int, descending: bool) -> Any:
        return super().ordered(_turned(x) if self.unsigned else x, axis, descending)  # type: ignore[misc]

    def max_pool(self, x: Any, kernel: Any, strides: Any, dilations: Any, pads: Any) -> Any:
        if not self.unsigned:
            return super().max_pool(x, kernel, strides, dilations, pads)  # type: ignore[misc]
        return _turned(super().max_pool(_turned(x), kernel, strides, dilations, pads))  # type: ignore[misc]

    def scattered(self, table: Any, rows: Any, new: Any, reduction: str) -> Any:
        if not self.unsigned or reduction not in ("max", "min"):
            return super().scattered(table, rows, new, reduction)  # type: ignore[misc]
        return _turned(super().scattered(_turned(table), rows, _turned(new), reduction))  # type: ignore[misc]
