"""Elementwise primitives as ONNX operators."""

import math
from typing import Any, Callable, Optional, Tuple

import numpy as np

from onnx_compat.ir import dtypes
from onnx_compat.ir.dtypes import DType
from onnx_compat.onnx_shim.graph_builder import Value
from onnx_compat.onnx_shim.lowering import functions
from onnx_compat.onnx_shim.lowering.base import EXACT, WRAPPING, broadcast_shape
from onnx_compat.onnx_shim.lowering.vectors import VectorLowering

__all__ = ["ElementwiseLowering"]

_LEAST = -(2**63)


def _unary(operator: str, otherwise: Any = None) -> Callable[[Any, Value], Value]:
    """Return a method that emits a primitive of one operand as `operator`.

    Where the target lacks the operator, the method emits `otherwise`, a function over Tensors. Without `otherwise`, it
    raises UnsupportedError.
    """

    def apply_unary(self: "ElementwiseLowering", x: Value) -> Value:
        results = self.attempt(operator, [x])
        if results is None and otherwise is not None:
            composed: Value = self.compose(otherwise, x)
            return composed
        return self.call(operator, [x]) if results is None else results

    return apply_unary


def _wrapping(operator: str) -> Callable[[Any, Value, Value], Value]:
    """Return a method that emits a binary primitive as `operator`, in a dtype of the same or more bits.

    The result of integers wraps. The method raises UnsupportedError if the target has no such dtype.
    """

    def apply_wrapping(self: "ElementwiseLowering", x: Value, y: Value) -> Value:
        return self.call(operator, [x, y], ladder=WRAPPING)

    return apply_wrapping


def _logical(operator: str) -> Callable[[Any, Value, Value], Value]:

    def apply_logical(self: "ElementwiseLowering", x: Value, y: Value) -> Value:
        return self.call(operator, [x, y])

    return apply_logical


class ElementwiseLowering(VectorLowering):
    """The primitives of `onnx_compat.primitives.elementwise`, except integer division and bits."""

    exp = _unary("Exp")
    log = _unary("Log")
    sin = _unary("Sin")
    cos = _unary("Cos", functions.cos)
    tan = _unary("Tan", functions.tan)
    asin = _unary("Asin", functions.asin)
    acos = _unary("Acos", functions.acos)
    atan = _unary("Atan", functions.atan)
    sinh = _unary("Sinh", functions.sinh)
    cosh = _unary("Cosh", functions.cosh)
    tanh = _unary("Tanh", functions.tanh)
    asinh = _unary("Asinh", functions.asinh)
    acosh = _unary("Acosh", functions.acosh)
    atanh = _unary("Atanh", functions.atanh)
    _erf = _unary("Erf", functions.erf)
    sigmoid = _unary("Sigmoid", functions.sigmoid)
    _floor = _unary("Floor", functions.floor)
    _ceil = _unary("Ceil", functions.ceil)
    round = _unary("Round", functions.round_half_even)
    logical_not = _unary("Not")

    add = _wrapping("Add")
    sub = _wrapping("Sub")
    mul = _wrapping("Mul")
    logical_and = _logical("And")
    logical_or = _logical("Or")
    logical_xor = _logical("Xor")

    def sqrt(self, x: Value) -> Value:
        root = self.call("Sqrt", [x])
        is_infinite = None if self.has_behaviour("Sqrt", x.dtype) else self.less(self.scalar(x.dtype.max, x.dtype), x)
        return root if is_infinite is None else self.where(is_infinite, x, root)

    def erf(self, x: Value) -> Value:
        value = self._erf(x)
        return value if self.has_behaviour("Erf", x.dtype) else self.where(self.is_nan(x), x, value)

    def floor(self, x: Value) -> Value:
        return self._unless_whole(x, self._floor(x), "Floor")

    def ceil(self, x: Value) -> Value:
        return self._unless_whole(x, self._ceil(x), "Ceil")

    def _unless_whole(self, x: Value, rounded: Value, operator: str) -> Value:
        """Return `rounded`, or x where it is too large for a fraction, if the target changes such numbers.

        - rounded: x after the operator.
        - operator: Floor or Ceil. onnxruntime 1.10 changes large numbers.
        """
        if self.has_behaviour(operator, x.dtype):
            return rounded
        has_fraction = self.less(self.abs(x), self.scalar(2.0 ** np.finfo(x.dtype.numpy).nmant, x.dtype))
        return self.where(has_fraction, rounded, x)

    def neg(self, x: Value) -> Value:
        results = self.attempt("Neg", [x], ladder=WRAPPING)
        return self.sub(self.scalar(0, x.dtype), x) if results is None else results

    def abs(self, x: Value) -> Value:
        return x if x.dtype.kind == "u" else self.call("Abs", [x])

    def sign(self, x: Value) -> Value:
        if x.dtype.kind == "u":
            return self.convert(self.nonzero_mask(x), x.dtype)
        signs = self.call("Sign", [x])
        return signs if x.dtype.kind != "f" else self.where(self.is_nan(x), x, signs)

    def nonzero_mask(self, x: Value) -> Value:
        """Return whether each element is not zero, as a bool value."""
        return self.logical_not(self.equal(x, self.scalar(0, x.dtype)))

    def is_nan(self, x: Value) -> Value:
        results = self.attempt("IsNaN", [x], result=dtypes.bool_)
        return self.logical_not(self.equal(x, x)) if results is None else results

    def is_inf(self, x: Value) -> Value:
        results = self.attempt("IsInf", [x], result=dtypes.bool_)
        return self.less(self.scalar(x.dtype.max, x.dtype), self.abs(x)) if results is None else results

    # -- comparisons ---------------------------------------------------------------------------------------------------
    def to_order(self, x: Value) -> Value:
        """Return uint64 numbers as int64 numbers in the same order, by subtracting 2^63."""
        signed = self.convert(x, dtypes.int64)
        return self.add(signed, self.scalar(_LEAST, dtypes.int64))

    def compare(self, operator: str, x: Value, y: Value) -> Optional[Value]:
        """Call a comparison and return its result. None: the target lacks it for these dtypes."""
        results = self.attempt(operator, [x, y], result=dtypes.bool_)
        if results is None and x.dtype is dtypes.uint64:
            results = self.attempt(operator, [self.to_order(x), self.to_order(y)], result=dtypes.bool_)
        return results

    def equal(self, x: Value, y: Value) -> Value:
        results = self.attempt("Equal", [x, y], ladder=WRAPPING, result=dtypes.bool_)
        if results is not None:
            return results
        if x.dtype.kind == "f":  # opset 7 compares integers only
            differs = self.logical_or(self.less(x, y), self.less(y, x))
            unordered = self.logical_or(self.call_nan(x), self.call_nan(y))
            return self.logical_not(self.logical_or(differs, unordered))
        if x.dtype.kind == "s":
            return self.equal_texts(x, y)
        raise self.refusal("Equal", x.dtype)

    def call_nan(self, x: Value) -> Value:
        """Return whether each element is NaN, by IsNaN."""
        return self.call("IsNaN", [x], result=dtypes.bool_)

    def equal_texts(self, x: Value, y: Value) -> Value:
        """Return whether texts are equal. Implemented by the family of strings."""
        raise NotImplementedError

    def less(self, x: Value, y: Value) -> Value:
        results = self.compare("Less", x, y)
        if results is None:
            raise self.refusal("Less", x.dtype)
        return results

    def less_equal(self, x: Value, y: Value) -> Value:
        results = self.compare("LessOrEqual", x, y)
        if results is not None:
            return results
        if x.dtype.kind == "f":
            return self.logical_or(self.less(x, y), self.equal(x, y))
        return self.logical_not(self.less(y, x))

    def maximum(self, x: Value, y: Value) -> Value:
        return self._extreme("Max", self.logical_or, x, y)

    def minimum(self, x: Value, y: Value) -> Value:
        return self._extreme("Min", self.logical_and, x, y)

    def _extreme(self, operator: str, of_bools: Any, x: Value, y: Value) -> Value:
        if x.dtype.kind == "b":
            combined: Value = of_bools(x, y)
            return combined
        results = self.attempt(operator, [x, y], behaviour=operator)
        if results is not None:
            return results
        low, high = (y, x) if operator == "Max" else (x, y)
        chosen = self.where(self.less(low, high), x, y)
        return chosen if x.dtype.kind != "f" else self.where(self.is_nan(x), x, self.where(self.is_nan(y), y, chosen))

    def where(self, condition: Value, x: Value, y: Value) -> Value:
        if x.dtype.kind == "b":
            return self._where_bools(condition, x, y)
        shape = self.broadcast(condition, x, y)
        return self.call("Where", [x, y], ladder=WRAPPING, first=[condition], shape=shape)

    def _where_bools(self, condition: Value, x: Value, y: Value) -> Value:
        shape = self.broadcast(condition, x, y)
        results = self.attempt("Where", [x, y], ladder=WRAPPING, first=[condition], shape=shape)
        if results is not None:
            return results
        rest = self.logical_and(self.logical_not(condition), y)
        return self.logical_or(self.logical_and(condition, x), rest)

    @staticmethod
    def broadcast(*values: Value) -> Tuple[Any, ...]:
        """Return the shape to which values broadcast."""
        return broadcast_shape(*[value.shape for value in values])

    # -- cast and clip -------------------------------------------------------------------------------------------------
    def cast(self, x: Value, dtype: DType) -> Value:
        carrier = DType.of(dtype.numpy)
        if x.dtype == carrier:
            return x
        if "c" in (x.dtype.kind, carrier.kind):
            raise self.refusal("Cast to %s" % dtype.name, x.dtype)
        if carrier.kind == "b":
            return self.nonzero_mask(x)
        if x.dtype is dtypes.float64 and carrier is dtypes.float16:  # through float32 it would be rounded twice
            from onnx_compat.primitives.carried import to_odd

            return self.convert(self.compose(to_odd, x), carrier)
        return self.convert(x, carrier)

    def clip(self, x: Value, low: Optional[float] = None, high: Optional[float] = None) -> Value:
        if x.dtype.kind == "f":
            results = self.attempt("Relu", [x], behaviour="Relu") if low == 0 and high is None else None
            if results is not None:
                return results
            return self._clip_floats(x, low, high)
        limits = x
        if low is not None:
            limits = self.maximum(x, self._bound(x.dtype, low, math.ceil))
        return limits if high is None else self.minimum(limits, self._bound(x.dtype, high, math.floor))

    def _clip_floats(self, x: Value, low: Optional[float], high: Optional[float]) -> Value:
        """Return floats clipped to [low, high]; None is no bound.

        No bound is written as an infinity: Clip takes the largest finite number for an omitted bound.
        """
        pair = [
            self.scalar(-np.inf if low is None else low, x.dtype),
            self.scalar(np.inf if high is None else high, x.dtype),
        ]
        for kind in self.kinds(x.dtype, EXACT):
            if not self.offer.is_reliable("Clip", kind):
                continue
            bounds = [self.convert(bound, kind) for bound in pair]
            results = self.attempts("Clip", [self.convert(x, kind), *bounds], [(kind, x.shape)])
            if results is not None:
                return self.convert(results[0], x.dtype)
        bounded = x if low is None else self.maximum(x, pair[0])
        return bounded if high is None else self.minimum(bounded, pair[1])

    def _bound(self, dtype: DType, value: float, rounding: Any) -> Value:
        info = np.iinfo(dtype.numpy)
        return self.scalar(int(rounding(min(max(value, int(info.min)), int(info.max)))), dtype)

    # -- powers and angles ---------------------------------------------------------------------------------------------
    def pow(self, x: Value, y: Value) -> Value:
        if x.dtype.kind == "f":
            return self.call("Pow", [x, y])
        composed: Value = self.compose(functions.integer_power, x, y)
        return composed

    def atan2(self, x: Value, y: Value) -> Value:
        composed: Value = self.compose(functions.atan2, x, y)
        return composed
