"""Emitter methods for the elementwise primitives, on TensorFlow tensors."""

import math
from typing import Any, Callable, Dict, Optional

import numpy as np

from onnx_compat.shim import DType, have_exact_reciprocals
from onnx_compat_tensorflow.base import Base
from onnx_compat_tensorflow.framework_types import TfDType, TfTensor
from onnx_compat_tensorflow.tensors import tf_dtype

__all__ = ["Elementwise"]


def _unary(op: str) -> Callable[[Any, Any], Any]:
    return lambda self, x: self.op(op, x)


def _binary(op: str) -> Callable[[Any, Any, Any], Any]:
    return lambda self, x, y: self.op(op, x, y)


#: The dtypes for which the graph optimizer rewrites a division, and for which DivNoNan has a kernel in each release.
_OPTIMIZED_DIVISIONS = ("float32", "float64")


_EXACT_DIVISION = "RealDiv by a constant is exact"


def _reciprocals(divisors: np.ndarray) -> np.ndarray:
    with np.errstate(divide="ignore", over="ignore"):
        return np.asarray(np.reciprocal(divisors))


class Elementwise(Base):
    """Emitter methods for the primitives of `onnx_compat.primitives.elementwise`."""

    # -- one operand ---------------------------------------------------------------------------------------------------
    def neg(self, x: TfTensor) -> TfTensor:
        if x.dtype.is_floating and not self.features.holds("Neg keeps zeros", x.dtype.name):
            return self.op("Mul", x, self.number(-1, x.dtype))
        return self.op("Neg", x)

    def round(self, x: TfTensor) -> TfTensor:
        return self.op("Round" if self.features.holds("Round keeps zeros", x.dtype.name) else "Rint", x)

    def sqrt(self, x: TfTensor) -> TfTensor:
        name = x.dtype.base_dtype.name
        if name not in ("float16", "float32") or self.features.holds("Sqrt is exact", name):
            return self.op("Sqrt", x)
        return self.raw.Cast(x=self.raw.Sqrt(x=self.raw.Cast(x=x, DstT=self.tf.float64)), DstT=x.dtype)

    def abs(self, x: TfTensor) -> TfTensor:
        if x.dtype.is_unsigned:
            return x
        if not x.dtype.is_complex:
            return self.op("Abs", x)
        return self.raw.Cast(x=self.raw.ComplexAbs(x=x, Tout=x.dtype.real_dtype), DstT=x.dtype)

    def sign(self, x: TfTensor) -> TfTensor:
        if x.dtype.is_unsigned:
            return self.raw.Cast(x=self.op("NotEqual", x, self._zero(x)), DstT=x.dtype)
        signs = self.op("Sign", x)
        if x.dtype.is_floating and not self.features.holds("Sign keeps NaN"):
            signs = self.where(self.op("IsNan", x), x, signs)
        return signs

    def erf(self, x: TfTensor) -> TfTensor:
        if not self.features.holds("Erf is bounded", self.accumulation_dtype(x)):
            x = self.clip(x, -8.0, 8.0)  # erf(8) rounds to 1 in every dtype
        return self.op("Erf", x)

    def sigmoid(self, x: TfTensor) -> TfTensor:
        if x.dtype != self.tf.float32 or self.features.holds("Sigmoid stays below one"):
            return self.op("Sigmoid", x)
        unit = self.number(1, x.dtype)
        return self.raw.RealDiv(x=unit, y=self.raw.AddV2(x=unit, y=self.raw.Exp(x=self.op("Neg", x))))

    def cast(self, x: TfTensor, dtype: DType) -> TfTensor:
        target = tf_dtype(self.tf, dtype)
        if x.dtype == target:
            return x
        return self.raw.Cast(x=x, DstT=target)

    def bitcast(self, x: TfTensor, dtype: DType) -> TfTensor:
        return self.raw.Bitcast(input=x, type=tf_dtype(self.tf, dtype))

    def clip(self, x: TfTensor, low: Optional[float] = None, high: Optional[float] = None) -> TfTensor:
        if x.dtype.is_floating and low == 0 and self._is_relu(high):
            return self.op("Relu" if high is None else "Relu6", x)
        if low is not None:
            x = self.maximum(x, self._bound(low, x.dtype, math.ceil))
        return x if high is None else self.minimum(x, self._bound(high, x.dtype, math.floor))

    def _is_relu(self, high: Optional[float]) -> bool:
        if high is None:
            return self.features.holds("Relu keeps NaN")
        return high == 6 and self.features.holds("Relu6 keeps NaN")

    def _bound(self, value: float, dtype: TfDType, rounding: Callable[[float], int]) -> TfTensor:
        """Return a bound of `clip` as a scalar tensor of this dtype.

        For an integer dtype, the bound is clamped to the range of the dtype, then rounded by `rounding`: ceil for a
        lower bound, floor for an upper bound.
        """
        if dtype.is_integer:
            info = np.iinfo(dtype.as_numpy_dtype)
            value = rounding(min(max(value, int(info.min)), int(info.max)))
        return self.number(value, dtype)

    def _zero(self, like: TfTensor) -> TfTensor:
        return self.number(0, like.dtype)

    def add(self, x: TfTensor, y: TfTensor) -> TfTensor:
        for biased, constant in ((x, y), (y, x)):
            if self._is_mistaken_for_value(biased, constant):
                return self.op("Sub", biased, self.derive_constant(constant, ("negative",), np.negative))
        return self.op("AddV2", x, y)

    def _is_mistaken_for_value(self, biased: TfTensor, constant: TfTensor) -> bool:
        """Whether TensorFlow's graph optimizer may rewrite the sum of a BiasAdd, `biased`, and a constant wrongly.

        The optimizer rewrites BiasAdd(x, bias) + constant to BiasAdd(constant, bias) + x. The kernel of BiasAdd refuses
        a constant whose last axis has length 1 and must be broadcast (TensorFlow 2.21). The optimizer does not rewrite
        a subtraction.
        """
        if getattr(getattr(biased, "op", None), "type", "") != "BiasAdd" or self.known_value(constant) is None:
            return False
        return self.rank(constant) > 0 and self.shape_list(constant)[-1] == 1 != self.shape_list(biased)[-1]

    # -- division ------------------------------------------------------------------------------------------------------
    def div(self, x: TfTensor, y: TfTensor) -> TfTensor:
        return self._quotient("TruncateDiv", x, y) if x.dtype.is_integer else self._real_quotient(x, y)

    def _real_quotient(self, x: TfTensor, y: TfTensor) -> TfTensor:
        """Divide floats. For a constant divisor, ops are chosen such that each quotient is exact.

        TensorFlow's graph optimizer rewrites RealDiv(x, constant) to x * Reciprocal(constant), and the kernel of
        Reciprocal is not exact: 1.75 / 0.5 is 3.4999998 in TensorFlow 2.21, which rounds to 3 and not to 4.

        DivNoNan is not rewritten, but gives 0 for x / 0. The product x * (1 / 0) = x * infinity is exact.
        """
        divisors = self.known_value(y)
        name = x.dtype.name
        if divisors is None or name not in _OPTIMIZED_DIVISIONS or self.features.holds(_EXACT_DIVISION, name):
            return self.op("RealDiv", x, y)
        if np.logical_and(divisors != 0, np.abs(divisors) < np.finfo(divisors.dtype).tiny).any():
            return self.op("RealDiv", x, y)  # DivNoNan counts a subnormal divisor as 0
        is_zero = divisors == 0
        if not is_zero.any() and not have_exact_reciprocals(divisors):
            return self.op("DivNoNan", x, y)
        product = self.op("Mul", x, self.derive_constant(y, ("reciprocal",), _reciprocals))
        if have_exact_reciprocals(divisors[~is_zero]):
            return product
        return self.where(self.tf.constant(is_zero), product, self.op("DivNoNan", x, y))

    def floordiv(self, x: TfTensor, y: TfTensor) -> TfTensor:
        if not x.dtype.is_integer:
            return self.op("Floor", self._real_quotient(x, y))
        if x.dtype.is_unsigned or self.features.holds("FloorDiv is exact", "int8"):
            return self._quotient("FloorDiv", x, y)
        whole = self._quotient("TruncateDiv", x, y)
        rest = self.op("Sub", x, self.op("Mul", whole, y))
        zero = self._zero(x)
        below = self.raw.NotEqual(x=self.op("Less", x, zero), y=self.op("Less", y, zero))
        below = self.raw.LogicalAnd(x=below, y=self.op("NotEqual", rest, zero))
        return self.op("Sub", whole, self.raw.Cast(x=below, DstT=x.dtype))

    def mod(self, x: TfTensor, y: TfTensor) -> TfTensor:
        return self._remainder("FloorMod", x, y)

    def fmod(self, x: TfTensor, y: TfTensor) -> TfTensor:
        return self._remainder("TruncateMod", x, y)

    def _quotient(self, op: str, x: TfTensor, y: TfTensor) -> TfTensor:
        """Divide integers by the op `op`, TruncateDiv or FloorDiv, in a way that cannot end the process.

        The kernels end the process for a division by 0, and for the least integer divided by -1. A divisor of 0
        therefore counts as 1, and a signed x / -1 is computed as -x.

        If `op` has no kernel and no route for uint64, `_unsigned_quotient` divides uint64.
        """
        if x.dtype == self.tf.uint64 and not self.features.can_run(op, "uint64", 2):
            return self._unsigned_quotient(x, self._divisor(y))
        known = self.known_value(y)
        if known is not None and not ((known == 0) | (known == -1)).any():
            return self.op(op, x, y)
        whole = self.op(op, x, self._divisor(y))
        if x.dtype.is_unsigned:
            return whole
        return self.where(self.equal(y, self.number(-1, y.dtype)), self.op("Neg", x), whole)

    def _remainder(self, op: str, x: TfTensor, y: TfTensor) -> TfTensor:
        if not x.dtype.is_integer:
            return self.op(op, x, y)
        safe = self._divisor(y)
        if x.dtype == self.tf.uint64 and not self.features.can_run(op, "uint64", 2):
            return self.op("Sub", x, self.op("Mul", self._quotient("TruncateDiv", x, safe), safe))
        return self.op(op, x, safe)

    def _divisor(self, y: TfTensor) -> TfTensor:
        """Return the integer divisors y with 0 replaced by 1. In a signed dtype, -1 is replaced by 1 as well."""
        unfit = self.equal(y, self._zero(y))
        if not y.dtype.is_unsigned:
            unfit = self.raw.LogicalOr(x=unfit, y=self.equal(y, self.number(-1, y.dtype)))
        return self.where(unfit, self.number(1, y.dtype), y)

    def _unsigned_quotient(self, x: TfTensor, y: TfTensor) -> TfTensor:
        """Divide uint64 tensors by the int64 kernel: q = 2 * ((x >> 1) / y), plus 1 if x - q * y >= y.

        For y >= 2**63, the quotient is 1 if x >= y, else 0. No divisor may be 0.
        """
        raw, tf = self.raw, self.tf
        upper = raw.Bitcast(input=raw.RightShift(x=x, y=self.number(1, x.dtype)), type=tf.int64)
        large = raw.Less(x=raw.Bitcast(input=y, type=tf.int64), y=self.number(0, tf.int64))
        divisor = raw.SelectV2(condition=large, t=self.number(1, tf.int64), e=raw.Bitcast(input=y, type=tf.int64))
        half = raw.TruncateDiv(x=upper, y=divisor)
        whole = raw.Bitcast(input=raw.AddV2(x=half, y=half), type=tf.uint64)
        rest = self.op("Sub", x, self.op("Mul", whole, y))
        more = self.op("AddV2", whole, raw.Cast(x=self.op("LessEqual", y, rest), DstT=tf.uint64))
        return self.where(large, raw.Cast(x=self.op("LessEqual", y, x), DstT=tf.uint64), more)

    # -- two operands --------------------------------------------------------------------------------------------------
    def pow(self, x: TfTensor, y: TfTensor) -> TfTensor:
        known = self.known_value(y)
        most = 2 ** (8 * x.dtype.size - 1) - 1
        if not x.dtype.is_integer or (known is not None and ((known >= 0) & (known <= most)).all()):
            return self.op("Pow", x, y)
        if x.dtype.is_unsigned:
            return self._unsigned_pow(x, y, self.number(most, x.dtype))
        zero, unit = self._zero(x), self.number(1, x.dtype)
        whole = self.op("Pow", x, self.op("Maximum", y, zero))
        is_odd = self.equal(self.raw.BitwiseAnd(x=y, y=unit), unit)
        # 1 / x^n is an integer for x = 1 and x = -1 only; it truncates to 0 for every other x.
        has_inverse = self.equal(self.op("Abs", x), unit)
        inverse = self.where(has_inverse, self.where(is_odd, x, unit), zero)
        return self.where(self.op("Less", y, zero), inverse, whole)

    def _unsigned_pow(self, x: TfTensor, y: TfTensor, most: TfTensor) -> TfTensor:
        """Return x ** y for unsigned integers by a kernel that reads the highest bit of y as a sign.

        The kernel gets y without its highest bit. For an odd x, the power modulo 2**bits is the same. For an even x and
        y > `most`, the power is 0. `most`: the tensor 2**(bits - 1) - 1.
        """
        zero, unit = self._zero(x), self.number(1, x.dtype)
        whole = self.op("Pow", x, self.op("BitwiseAnd", y, most))
        is_even = self.equal(self.op("BitwiseAnd", x, unit), zero)
        return self.where(self.raw.LogicalAnd(x=is_even, y=self.op("Less", most, y)), zero, whole)

    def maximum(self, x: TfTensor, y: TfTensor) -> TfTensor:
        return self.raw.LogicalOr(x=x, y=y) if x.dtype.is_bool else self._extremum_of_two("Maximum", x, y)

    def minimum(self, x: TfTensor, y: TfTensor) -> TfTensor:
        return self.raw.LogicalAnd(x=x, y=y) if x.dtype.is_bool else self._extremum_of_two("Minimum", x, y)

    def _extremum_of_two(self, op: str, x: TfTensor, y: TfTensor) -> TfTensor:
        chosen = self.op(op, x, y)
        if not x.dtype.is_floating or self.features.holds(op + " keeps NaN"):
            return chosen
        missing = self.raw.LogicalOr(x=self.op("IsNan", x), y=self.op("IsNan", y))
        return self.where(missing, self.op("AddV2", x, y), chosen)

    def equal(self, x: TfTensor, y: TfTensor) -> TfTensor:
        return self.op("Equal", x, y)

    def logical_not(self, x: TfTensor) -> TfTensor:
        """Return not x, computed as x == False.

        TensorFlow's optimiser would rewrite LogicalNot(Less) to GreaterEqual, which is wrong for NaN.
        """
        return self.raw.Equal(x=x, y=self.number(False, x.dtype))

    def logical_xor(self, x: TfTensor, y: TfTensor) -> TfTensor:
        return self.raw.NotEqual(x=x, y=y)

    def shift_left(self, x: TfTensor, y: TfTensor) -> TfTensor:
        return self._shift("LeftShift", x, y)

    def shift_right(self, x: TfTensor, y: TfTensor) -> TfTensor:
        return self._shift("RightShift", x, y)

    def _shift(self, op: str, x: TfTensor, y: TfTensor) -> TfTensor:
        last = self.number(8 * x.dtype.size - 1, y.dtype)
        shifted = self.op(op, x, self.op("Minimum", y, last))
        return self.where(self.op("Less", last, y), self._zero(x), shifted)

    def where(self, condition: TfTensor, x: TfTensor, y: TfTensor) -> TfTensor:
        has_many_axes = any(handle.shape.rank is None or handle.shape.rank > 5 for handle in (condition, x, y))
        if has_many_axes and not self.features.holds("SelectV2 takes six dimensions"):
            shape = self.tf.broadcast_dynamic_shape(self.tf.shape(condition), self.tf.shape(x))
            shape = self.tf.broadcast_dynamic_shape(shape, self.tf.shape(y))
            parts = (self.raw.BroadcastTo(input=handle, shape=shape) for handle in (condition, x, y))
            condition, x, y = (self.raw.Reshape(tensor=part, shape=[-1]) for part in parts)
            return self.raw.Reshape(tensor=self.op("SelectV2", x, y, condition=condition), shape=shape)
        return self.op("SelectV2", x, y, condition=condition)


_UNARY: Dict[str, str] = {
    "exp": "Exp", "log": "Log", "sin": "Sin", "cos": "Cos", "tan": "Tan", "asin": "Asin", "acos": "Acos", "atan": "Atan",
    "sinh": "Sinh", "cosh": "Cosh", "tanh": "Tanh", "asinh": "Asinh", "acosh": "Acosh", "atanh": "Atanh",
    "floor": "Floor", "ceil": "Ceil", "is_nan": "IsNan", "is_inf": "IsInf",
    "bitwise_not": "Invert",
}  # fmt: skip
_BINARY: Dict[str, str] = {
    "sub": "Sub", "mul": "Mul", "atan2": "Atan2", "less": "Less", "less_equal": "LessEqual",
    "logical_and": "LogicalAnd", "logical_or": "LogicalOr", "bitwise_and": "BitwiseAnd", "bitwise_or": "BitwiseOr",
    "bitwise_xor": "BitwiseXor",
}  # fmt: skip
for _name, _op in _UNARY.items():
    setattr(Elementwise, _name, _unary(_op))
for _name, _op in _BINARY.items():
    setattr(Elementwise, _name, _binary(_op))
