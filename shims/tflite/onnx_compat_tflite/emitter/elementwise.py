"""Elementwise arithmetic by one kernel, or by a few.

`comparison`, `extremes`, `division` and `powers` have the other elementwise primitives, `elementary_functions` the
functions without a kernel.
"""

from typing import Callable

from onnx_compat_tflite.emitter import broadcasting, casting, comparison, float64
from onnx_compat_tflite.emitter.builder import Builder
from onnx_compat_tflite.emitter.registry import primitive, register
from onnx_compat_tflite.emitter.widening import widen_for
from onnx_compat_tflite.subgraph_builder import Handle

__all__ = [
    "abs", "add", "ceil", "cos", "exp", "floor", "log", "logistic", "mul", "neg", "round", "sigmoid", "sign", "sin",
    "sqrt", "sub", "tanh", "unary",
]  # fmt: skip

Unary = Callable[[Builder, Handle], Handle]
Binary = Callable[[Builder, Handle, Handle], Handle]


def unary(builder: Builder, builtin: str, x: Handle) -> Handle:
    """Append an operator that keeps shape and dtype, and return its result. The kernel is not checked for the dtype."""
    return builder.add_op(builtin, [x], x.dtype, x.dims)


def _unary(builtin: str) -> Unary:
    """Return a function of (builder, x) that emits the unary op `builtin`.

    If the kernel lacks the dtype of x, the function computes in a wider dtype.
    """

    @widen_for(builtin)
    def emit(builder: Builder, x: Handle) -> Handle:
        return unary(builder, builtin, x)

    return emit


def _precise(builtin: str) -> Unary:
    """Return a function of (builder, x) that emits the unary op `builtin`, in float32 if x is float16.

    The float16 kernel is off by more than a rounding. For all other dtypes, the function is that of `_unary`.
    """

    @widen_for(builtin)
    def emit(builder: Builder, x: Handle) -> Handle:
        if x.dtype == "float16":
            return casting.call_in_float32(builder, emit, x)
        return unary(builder, builtin, x)

    return emit


def _binary(builtin: str) -> Binary:
    """Return a function of (builder, x, y) that emits the binary op `builtin` with broadcasting.

    If the kernel lacks the dtype of x, the function computes in a wider dtype.
    """

    @widen_for(builtin)
    def emit(builder: Builder, x: Handle, y: Handle) -> Handle:
        return broadcasting.add_op(builder, builtin, [x, y])

    return emit


log = register("log", _unary("LOG"))
sqrt = register("sqrt", _unary("SQRT"))
sin = register("sin", _precise("SIN"))
cos = register("cos", _precise("COS"))
tanh = register("tanh", _precise("TANH"))
logistic = _precise("LOGISTIC")
floor = register("floor", _unary("FLOOR"))
ceil = register("ceil", _unary("CEIL"))
round = register("round", _unary("ROUND"))
mul = register("mul", _binary("MUL"))
_plain_add = _binary("ADD")
_plain_sub = _binary("SUB")


@primitive
def add(builder: Builder, x: Handle, y: Handle) -> Handle:
    """Emit x + y, infinite where an operand is infinite; NaN for infinities of opposite signs."""
    return _keep_infinite(builder, _plain_add(builder, x, y), x, y)


@primitive
def sub(builder: Builder, x: Handle, y: Handle) -> Handle:
    """Emit x - y, infinite where an operand is infinite; NaN for infinities of the same sign."""
    total = _plain_sub(builder, x, y)
    operands = [x, neg(builder, y)] if _may_lose_infinity(builder, y) else [x]
    return _keep_infinite(builder, total, *operands)


def _may_lose_infinity(builder: Builder, x: Handle) -> bool:
    """Whether x may be infinite, and the kernels of arithmetic of the runtime clamp infinity."""
    return builder.finite_arithmetic and builder.may_be_infinite(x)


def _keep_infinite(builder: Builder, total: Handle, *operands: Handle) -> Handle:
    """Return `total`, with an operand in its place where the operand is infinite. This undoes the clamping of kernels.

    `total` is the sum of `operands`; a term that cannot lose infinity may be left out of `operands`. A NaN of `total`
    stays. If no operand can lose infinity (`_may_lose_infinity`), `total` itself is returned.
    """
    for operand in operands:
        if _may_lose_infinity(builder, operand):
            is_number = broadcasting.add_op(builder, "EQUAL", [total, total], "bool")
            is_lost = comparison.logical_and(builder, comparison.is_inf(builder, operand), is_number)
            total = comparison.where(builder, is_lost, operand, total)
    return total


@primitive
def sigmoid(builder: Builder, x: Handle) -> Handle:
    """Emit LOGISTIC, or for float32 above 15 on a runtime without XNNPACK: 1 - e^-x.

    Kernels without XNNPACK return 1 for a float32 from 15.9 on.
    """
    result = logistic(builder, x)
    if not builder.finite_arithmetic or x.dtype != "float32":
        return result
    near_one = _plain_sub(builder, builder.like(x, 1), unary(builder, "EXP", neg(builder, x)))
    return comparison.where(builder, comparison.less(builder, builder.like(x, 15), x), near_one, result)


@primitive
@widen_for("EXP")
def exp(builder: Builder, x: Handle) -> Handle:
    """Emit e^x as max(e^x, x), which is also NaN where x is NaN: XNNPACK returns 0 for e^NaN."""
    return broadcasting.add_op(builder, "MAXIMUM", [unary(builder, "EXP", x), x])


_plain_neg = _unary("NEG")


@primitive
def neg(builder: Builder, x: Handle) -> Handle:
    """Emit -x."""
    return float64.neg(builder, x) if float64.is_viewed(builder, x) else _plain_neg(builder, x)


@primitive
def abs(builder: Builder, x: Handle) -> Handle:
    """Emit |x|. An unsigned x is returned unchanged."""
    if float64.is_viewed(builder, x):
        return float64.abs(builder, x)
    if x.dtype.startswith("uint"):
        return x
    return unary(builder, "ABS", x) if x.dtype == "float32" else _magnitude(builder, x)


@widen_for("MAXIMUM", "NEG")
def _magnitude(builder: Builder, x: Handle) -> Handle:
    """Return |x| as max(x, -x), or by ABS if x is float32, as when the decorator has widened float16."""
    if x.dtype == "float32":
        return unary(builder, "ABS", x)
    return broadcasting.add_op(builder, "MAXIMUM", [x, neg(builder, x)])


@primitive
@widen_for("GREATER", "SELECT_V2")
def sign(builder: Builder, x: Handle) -> Handle:
    """Emit 1 for x > 0, -1 for x < 0, and x for zero and NaN."""
    zero = builder.like(x, 0)
    up = comparison.where(builder, comparison.less(builder, zero, x), builder.like(x, 1), x)
    if x.dtype.startswith("uint"):
        return up
    return comparison.where(builder, comparison.less(builder, x, zero), builder.like(x, -1), up)
