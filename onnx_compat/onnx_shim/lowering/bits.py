"""Operations on bits: BitCast and the Bitwise operators, and arithmetic in their place where the target lacks them."""

from typing import Any

import numpy as np

from onnx_compat.ir import dtypes
from onnx_compat.ir.dtypes import DType
from onnx_compat.onnx_shim.graph_builder import Value
from onnx_compat.onnx_shim.lowering import bit_arithmetic
from onnx_compat.onnx_shim.lowering.base import WRAPPING
from onnx_compat.onnx_shim.lowering.text import TextLowering

__all__ = ["BitLowering"]


class BitLowering(TextLowering):
    """The bitwise primitives, the shifts and bitcast."""

    def bitwise_and(self, x: Value, y: Value) -> Value:
        return self._bitwise("BitwiseAnd", bit_arithmetic.bitwise_and, x, y)

    def bitwise_or(self, x: Value, y: Value) -> Value:
        return self._bitwise("BitwiseOr", bit_arithmetic.bitwise_or, x, y)

    def bitwise_xor(self, x: Value, y: Value) -> Value:
        return self._bitwise("BitwiseXor", bit_arithmetic.bitwise_xor, x, y)

    def _bitwise(self, operator: str, otherwise: Any, x: Value, y: Value) -> Value:
        results = self.attempt(operator, [x, y], ladder=WRAPPING)
        if results is not None:
            return results
        wide = [self.convert(value, dtypes.int64) for value in (x, y)]
        bits = self.compose(lambda a, b: otherwise(a, b, x.dtype.bits, x.dtype.kind == "i"), *wide)
        return self.convert(bits, x.dtype)

    def bitwise_not(self, x: Value) -> Value:
        return self.sub(self.scalar(np.iinfo(x.dtype.numpy).max if x.dtype.kind == "u" else -1, x.dtype), x)

    def shift_left(self, x: Value, y: Value) -> Value:
        return self._apply_shift(bit_arithmetic.shift_left, x, y)

    def shift_right(self, x: Value, y: Value) -> Value:
        return self._apply_shift(bit_arithmetic.shift_right, x, y)

    def _apply_shift(self, shift: Any, x: Value, y: Value) -> Value:
        """Return x shifted by y bits, by a product or a quotient with a power of 2 from a table.

        BitShift does not define shifts by the width of the dtype or more.
        `shift`: a function of `bit_arithmetic`.
        """
        shifted: Value = self.compose(shift, x, y)
        return shifted

    def bitcast(self, x: Value, dtype: DType) -> Value:
        if x.dtype == dtype:
            return x
        results = self.attempts("BitCast", [x], [(dtype, x.shape)], to=dtype.onnx)
        if results is not None:
            return results[0]
        if "c" in (x.dtype.kind, dtype.kind):
            raise self.refusal("BitCast to %s" % dtype.name, x.dtype)
        if x.dtype.kind != "f" and dtype.kind != "f":
            return self.convert(x, dtype)
        if x.dtype.kind == "f":
            codes = self.compose(bit_arithmetic.float_to_bits, x)
            return self.convert(codes, dtype)
        signed = self.convert(x, dtypes.int64)  # a cast through int32 could be merged with this one
        if x.dtype.kind == "u" and x.dtype.bits < 64:
            is_negative = self.less(self.scalar((1 << (x.dtype.bits - 1)) - 1, dtypes.int64), signed)
            wrapped = self.sub(signed, self.scalar(1 << x.dtype.bits, dtypes.int64))
            signed = self.where(is_negative, wrapped, signed)
        number: Value = self.compose(lambda code: bit_arithmetic.bits_to_float(code, dtype), signed)
        return number
