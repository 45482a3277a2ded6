"""Division and remainders. Integer division by 0, and of the least integer by -1, ends a process: both are avoided."""

from typing import Any, Optional, Tuple

import numpy as np

from onnx_compat.onnx_shim.graph_builder import Value
from onnx_compat.onnx_shim.lowering import functions
from onnx_compat.onnx_shim.lowering.elementwise import ElementwiseLowering

__all__ = ["DivisionLowering"]


class DivisionLowering(ElementwiseLowering):
    """The primitives div, floordiv, mod and fmod."""

    def div(self, x: Value, y: Value) -> Value:
        if x.dtype.kind == "f":
            return self.call("Div", [x, y])
        safe, is_minus_one = self._safe_divisor(y)
        quotient = self.attempt("Div", [x, safe])
        if quotient is None:
            composed: Value = self.compose(functions.unsigned_quotient, x, safe)
            return composed
        return quotient if is_minus_one is None else self.where(is_minus_one, self.neg(x), quotient)

    def _safe_divisor(self, y: Value) -> Tuple[Value, Optional[Value]]:
        """Return (integers y with 1 in place of 0 and -1, mask of the elements that were -1).

        The mask is None if y is unsigned, or a constant without 0 and -1.
        """
        if y.array is not None and not np.any((y.array == 0) | (y.array == -1)):
            return y, None
        unit, is_minus_one = self.scalar(1, y.dtype), None
        unsafe = self.equal(y, self.scalar(0, y.dtype))
        if y.dtype.kind == "i":
            is_minus_one = self.equal(y, self.scalar(-1, y.dtype))
            unsafe = self.logical_or(unsafe, is_minus_one)
        return self.where(unsafe, unit, y), is_minus_one

    def floordiv(self, x: Value, y: Value) -> Value:
        if x.dtype.kind == "f":
            return self.floor(self.div(x, y))
        quotient = self.div(x, y)
        if x.dtype.kind == "u":
            return quotient
        zero = self.scalar(0, x.dtype)
        rest = self.sub(x, self.mul(quotient, y))
        is_negative = self.less(rest, zero) if _is_positive(y) else self._differs_in_sign(rest, y)
        is_cut = self.logical_and(self.nonzero_mask(rest), is_negative)
        return self.sub(quotient, self.convert(is_cut, x.dtype))

    def _differs_in_sign(self, x: Value, y: Value) -> Value:
        zero = self.scalar(0, x.dtype)
        return self.logical_xor(self.less(x, zero), self.less(y, zero))

    def mod(self, x: Value, y: Value) -> Value:
        results = None
        if x.dtype.kind != "f":
            results = self.attempt("Mod", [x, self._safe_divisor(y)[0]])
        if results is not None or x.dtype.kind == "u":
            return self.fmod(x, y) if results is None else results
        rest = self.fmod(x, y)
        is_other = self.logical_and(self.nonzero_mask(rest), self._differs_in_sign(rest, y))
        wrapped = self.where(is_other, self.add(rest, y), rest)
        return wrapped if x.dtype.kind != "f" else self.where(self._is_zero(rest), self._zero_like(y), wrapped)

    def _is_zero(self, x: Value) -> Value:
        return self.equal(x, self.scalar(0, x.dtype))

    def _zero_like(self, y: Value) -> Value:
        """Return for each float of y a zero with its sign."""
        is_negative: Value = self.compose(functions.is_negative, y)
        return self.where(is_negative, self.scalar(-0.0, y.dtype), self.scalar(0.0, y.dtype))

    def fmod(self, x: Value, y: Value) -> Value:
        if x.dtype.kind != "f":
            safe, _ = self._safe_divisor(y)
            return self.sub(x, self.mul(self.div(x, safe), safe))
        results = self.attempt("Mod", [x, y], fmod=1)
        if results is not None:
            return results
        composed: Any = self.compose(functions.float_remainder, x, y)
        result: Value = composed
        return result


def _is_positive(y: Value) -> bool:
    return y.array is not None and bool(np.all(y.array > 0))
