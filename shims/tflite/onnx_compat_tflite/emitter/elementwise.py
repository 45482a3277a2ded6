"""Elementwise primitives that consist of a kernel or a few."""

import functools
from typing import Callable, Optional

import numpy as np

from onnx_compat.shim import DType
from onnx_compat_tflite.emitter.base import is_same_shape, widen_for
from onnx_compat_tflite.emitter.broadcast import Broadcasting
from onnx_compat_tflite.subgraph_builder import Handle, storage_type

__all__ = ["Elementwise"]

Method = Callable[..., Handle]


def _unary(builtin: str) -> Method:
    """Return a method that emits a unary operator."""

    @widen_for(builtin)
    def method(self: "Elementwise", x: Handle) -> Handle:
        return self.unary(builtin, x)

    return method


def _precise(builtin: str) -> Method:
    """Return a method that emits a unary operator, in float32 for float16: the float16 kernel is off by more than a
    rounding.
    """

    @widen_for(builtin)
    def method(self: "Elementwise", x: Handle) -> Handle:
        return (
            self.call_in_float32(functools.partial(method, self), x) if x.dtype == "float16" else self.unary(builtin, x)
        )

    return method


def _binary(builtin: str) -> Method:
    """Return a method that emits a binary operator."""

    @widen_for(builtin)
    def method(self: "Elementwise", x: Handle, y: Handle) -> Handle:
        return self.elementwise(builtin, [x, y])

    return method


def _compare(builtin: str) -> Method:
    """Return a method that emits a comparison."""

    @widen_for(builtin)
    def method(self: "Elementwise", x: Handle, y: Handle) -> Handle:
        return self.elementwise(builtin, [x, y], "bool")

    return method


def _extreme(builtin: str, logical: str) -> Method:
    """Return a method that emits MAXIMUM or MINIMUM and keeps a NaN of either operand.

    The kernels keep a NaN of the second operand only. If operands broadcast, some kernels lose that NaN too. For
    float16 all do. For booleans the method emits `logical`.
    """

    def method(self: "Elementwise", x: Handle, y: Handle) -> Handle:
        if x.dtype == "bool":
            return self.elementwise(logical, [x, y])
        if y.is_constant:
            x, y = y, x
        if x.dtype == "float16":
            x = Handle.of(x.array.astype(np.float32)) if x.is_constant else x
            return self.call_in_float32(functools.partial(extreme, self), x, y)
        return extreme(self, x, y)

    @widen_for(builtin)
    def extreme(self: "Elementwise", x: Handle, y: Handle) -> Handle:
        result = self.elementwise(builtin, [x, y])
        operands_with_nan = [x] if self.kernels.quirks.maximum_keeps_nan or is_same_shape(x.dims, y.dims) else [x, y]
        for operand in operands_with_nan if x.dtype == "float32" else []:
            if not (operand.is_constant and not np.isnan(operand.array).any()):
                result = self.where(self.is_nan(operand), operand, result)
        return result

    return method


class Elementwise(Broadcasting):
    """Emit elementwise primitives, except functions without a kernel (`elementary_functions`) and division
    (`integers`).
    """

    log = _unary("LOG")
    sqrt = _unary("SQRT")
    sin = _precise("SIN")
    cos = _precise("COS")
    tanh = _precise("TANH")
    logistic = _precise("LOGISTIC")
    floor = _unary("FLOOR")
    ceil = _unary("CEIL")
    round = _unary("ROUND")
    logical_not = _unary("LOGICAL_NOT")
    plain_add = _binary("ADD")
    plain_sub = _binary("SUB")
    mul = _binary("MUL")
    maximum = _extreme("MAXIMUM", "LOGICAL_OR")
    minimum = _extreme("MINIMUM", "LOGICAL_AND")
    less = _compare("LESS")
    less_equal = _compare("LESS_EQUAL")
    logical_and = _compare("LOGICAL_AND")
    logical_or = _compare("LOGICAL_OR")

    def unary(self, builtin: str, x: Handle) -> Handle:
        """Append an operator that keeps shape and dtype."""
        return self.add_op(builtin, [x], x.dtype, x.dims)

    def add(self, x: Handle, y: Handle) -> Handle:
        return self._keep_infinite(self.plain_add(x, y), x, y)

    def sub(self, x: Handle, y: Handle) -> Handle:
        total = self.plain_sub(x, y)
        return (
            self._keep_infinite(total, x, self.neg(y)) if self._may_lose_infinity(y) else self._keep_infinite(total, x)
        )

    def _may_lose_infinity(self, x: Handle) -> bool:
        """Whether kernels of arithmetic would clamp an infinite element of x."""
        return self.finite_arithmetic and self.may_be_infinite(x)

    def _keep_infinite(self, total: Handle, *operands: Handle) -> Handle:
        """Return the sum, with the operand in place of elements where the operand is infinite and the kernel clamps."""
        for operand in operands:
            if self._may_lose_infinity(operand):
                is_number = self.elementwise("EQUAL", [total, total], "bool")
                total = self.where(self.logical_and(self.is_inf(operand), is_number), operand, total)
        return total

    def sigmoid(self, x: Handle) -> Handle:
        """Emit LOGISTIC. Its older kernels return 1 from 15.9 on, so 1 - e^-x replaces it above 15."""
        result = self.logistic(x)
        if not self.finite_arithmetic or x.dtype != "float32":
            return result
        near_one = self.plain_sub(self.like(x, 1), self.unary("EXP", self.neg(x)))
        return self.where(self.less(self.like(x, 15), x), near_one, result)

    @widen_for("EXP")
    def exp(self, x: Handle) -> Handle:
        """Emit max(e^x, x), which is e^x, and NaN for NaN: XNNPACK returns 0 for e^NaN."""
        return self.elementwise("MAXIMUM", [self.unary("EXP", x), x])

    @widen_for("NEG")
    def _add_neg(self, x: Handle) -> Handle:
        return self.unary("NEG", x)

    def neg(self, x: Handle) -> Handle:
        return self._add_neg(x)

    def abs(self, x: Handle) -> Handle:
        if x.dtype.startswith("uint"):
            return x
        if x.dtype == "float32":
            return self.unary("ABS", x)
        return self._magnitude(x)

    @widen_for("MAXIMUM", "NEG")
    def _magnitude(self, x: Handle) -> Handle:
        if x.dtype == "float32":
            return self.unary("ABS", x)
        return self.elementwise("MAXIMUM", [x, self.neg(x)])

    @widen_for("GREATER", "SELECT_V2")
    def sign(self, x: Handle) -> Handle:
        zero = self.like(x, 0)
        up = self.where(self.less(zero, x), self.like(x, 1), x)
        return up if x.dtype.startswith("uint") else self.where(self.less(x, zero), self.like(x, -1), up)

    @widen_for("NOT_EQUAL")
    def is_nan(self, x: Handle) -> Handle:
        return self.elementwise("NOT_EQUAL", [x, x], "bool")

    @widen_for("ABS", "EQUAL")
    def is_inf(self, x: Handle) -> Handle:
        return self.elementwise("EQUAL", [self.unary("ABS", x), self.like(x, np.inf)], "bool")

    @widen_for("EQUAL")
    def equal(self, x: Handle, y: Handle) -> Handle:
        return self.elementwise("EQUAL", [x, y], "bool")

    def logical_xor(self, x: Handle, y: Handle) -> Handle:
        return self.elementwise("NOT_EQUAL", [x, y], "bool")

    def where(self, condition: Handle, x: Handle, y: Handle) -> Handle:
        return self._select(x, y, condition)

    @widen_for("SELECT_V2")
    def _select(self, x: Handle, y: Handle, condition: Handle) -> Handle:
        return self.elementwise("SELECT_V2", [condition, x, y])

    def cast(self, x: Handle, dtype: DType) -> Handle:
        return self.to(x, self.require_type(storage_type(dtype.numpy)))

    def clip(self, x: Handle, low: Optional[float] = None, high: Optional[float] = None) -> Handle:
        if x.dtype == "float32" and low == 0 and high in (None, 6):
            result = self.unary("RELU" if high is None else "RELU6", x)
            result.is_nonnegative = True
            return result
        if x.dtype == "float32" and not self.kernels.quirks.maximum_keeps_nan:
            return self._clip_keeping_nan(x, low, high)
        if low is not None:
            x = self.maximum(_bound(x, low, np.ceil), x)
        if high is not None:
            x = self.minimum(_bound(x, high, np.floor), x)
        return x

    def _clip_keeping_nan(self, x: Handle, low: Optional[float], high: Optional[float]) -> Handle:
        """Clip, then restore NaN once, for kernels of MAXIMUM and MINIMUM that lose it.

        The pass `hard_activations` recognises this form.
        """
        bounded = x
        if low is not None:
            bounded = self.elementwise("MAXIMUM", [_bound(x, low, np.ceil), bounded])
        if high is not None:
            bounded = self.elementwise("MINIMUM", [_bound(x, high, np.floor), bounded])
        return self.where(self.is_nan(x), x, bounded)


def _bound(x: Handle, value: float, rounding: Callable[[float], float]) -> Handle:
    """Return a bound as a scalar of x's dtype. For integers it is the nearest integer inside the range of the dtype."""
    kind = np.dtype(x.dtype)
    if kind.kind == "f":
        return Handle.of(np.asarray(value).astype(kind))
    info = np.iinfo(kind)
    return Handle.of(np.asarray(int(rounding(min(max(value, int(info.min)), int(info.max)))), kind))
