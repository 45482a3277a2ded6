"""Elementwise primitives with numpy's broadcasting. Results keep the pending order of the operands.

All operands have one dtype: nothing is promoted, and integers wrap. A Python number takes the other operand's dtype.
"""

import functools
from typing import Any, Callable, Dict, Optional, Sequence

from onnx_compat.errors import InvalidModelError
from onnx_compat.ir import dtypes
from onnx_compat.ir.dims import is_equal_shape
from onnx_compat.ir.dtypes import DType
from onnx_compat.primitives.base import apply_primitive, broadcast, elementwise_rule, fold, primitive
from onnx_compat.primitives.shape import broadcast_source, broadcast_to, is_broadcastable
from onnx_compat.tracing.layout import broadcast_operand, common_order
from onnx_compat.tracing.values import Tensor, TensorLike, lift, scalar_like

Unary = Callable[[Any], Tensor]
_Meaning = Callable[..., Any]
Binary = Callable[[Any, Any], Tensor]


def elementwise(
    name: str, operands: Sequence[Tensor], result: DType, params: Optional[Dict[str, Any]] = None
) -> Tensor:
    """Fold or record an elementwise primitive with result dtype `result`; operands broadcast. Return a Tensor.

    `params`: the keyword parameters of the primitive; None: it has none. Raises InvalidModelError if the shapes do not
    broadcast.
    """
    params = params or {}
    folded = fold(name, operands, [result], **params)
    if folded is not None:
        return folded[0]
    shape = broadcast(*[operand.shape for operand in operands])
    narrow = [broadcast_source(operand) for operand in operands]
    if any(source is not operand for source, operand in zip(narrow, operands)) and is_broadcastable(
        broadcast(*[source.shape for source in narrow]), shape
    ):  # the broadcast sinks below the node; mostly a consumer broadcasts the result anyway
        return broadcast_to(elementwise(name, narrow, result, params), shape)
    order = common_order(operands, len(shape))
    args = [broadcast_operand(operand, order, len(shape)) for operand in operands]
    return apply_primitive(name, args, params, [order])[0]


def unary(kinds: str, dtype: Optional[DType] = None) -> Callable[[_Meaning], Unary]:
    """Return a decorator that makes a unary primitive. Its result has `dtype`; None: the dtype of the operand.

    Of the decorated function, only the name and the docstring count. `kinds` are the dtype kinds of the operand.
    Another kind raises InvalidModelError.
    """

    def declare(function: _Meaning) -> Unary:
        name = function.__name__

        def apply_unary(x: TensorLike) -> Tensor:
            x = lift(x)
            return elementwise(name, [_check_kind(name, x, kinds)], dtype or x.dtype)

        return functools.update_wrapper(apply_unary, primitive(kinds, elementwise_rule(dtype))(function))

    return declare


def binary(
    kinds: str, dtype: Optional[DType] = None, neutral: Optional[int] = None, either: bool = False
) -> Callable[[_Meaning], Binary]:
    """Return a decorator that makes a primitive f(x, y) of two operands. Its result has `dtype`; None: the dtype of x.

    Of the decorated function, only the name and the docstring count. `kinds` are the dtype kinds of the operands.
    Another kind, and two different dtypes, raise InvalidModelError.

    f(x, neutral)  =>  x; with `either` also f(neutral, x)  =>  x.

    The condition: `neutral` is the only element of a known operand, and the result has the shape of x.
    """

    def declare(function: _Meaning) -> Binary:
        name = function.__name__

        def apply_binary(x: TensorLike, y: TensorLike) -> Tensor:
            left, right = lift_pair(name, x, y)
            _check_kind(name, left, kinds)
            for kept, factor in () if neutral is None else ((left, right), (right, left))[: 1 + either]:
                if _is_number(factor, neutral) and is_equal_shape(broadcast(kept.shape, factor.shape), kept.shape):
                    return kept
            return elementwise(name, [left, right], dtype or left.dtype)

        return functools.update_wrapper(apply_binary, primitive(kinds, elementwise_rule(dtype))(function))

    return declare


def lift_pair(name: str, x: TensorLike, y: TensorLike) -> "tuple[Tensor, Tensor]":
    """Convert two operands to Tensors. A number takes the dtype of the other operand.

    Raises InvalidModelError if two Tensors have different dtypes; `name` is the primitive in the error.
    """
    if not isinstance(x, Tensor) and isinstance(y, Tensor):
        x = scalar_like(x, y)
    x = lift(x)
    y = scalar_like(y, x)
    if x.dtype != y.dtype:
        raise InvalidModelError("%s of %s and %s: both must have one dtype" % (name, x.dtype.name, y.dtype.name))
    return x, y


def _check_kind(name: str, x: Tensor, kinds: str) -> Tensor:
    if x.dtype.kind not in kinds:
        raise InvalidModelError("%s is not defined for %s" % (name, x.dtype.name))
    return x


def _is_number(y: Tensor, number: Optional[int]) -> bool:
    return y.known and y.value is not None and y.value.size == 1 and bool(y.value.reshape(()) == number)


# -- one operand -------------------------------------------------------------------------------------------------------
@unary("fiuc")
def neg(x: TensorLike) -> Any:
    """-x. An integer wraps: the least signed integer stays as it is."""


@unary("fiuc")
def abs(x: TensorLike) -> Any:
    """|x|, with an imaginary part of zero for a complex x; the least signed integer stays, because |x| overflows."""


@unary("fiu")
def sign(x: TensorLike) -> Any:
    """The sign of x: -1, 0 or 1; NaN stays NaN."""


@unary("fc")
def exp(x: TensorLike) -> Any:
    """e to the x."""


@unary("fc")
def log(x: TensorLike) -> Any:
    """The natural logarithm. Of a float: NaN below zero, -inf at zero."""


@unary("fc")
def sqrt(x: TensorLike) -> Any:
    """The square root. Of a float: NaN below zero."""


@unary("f")
def sin(x: TensorLike) -> Any:
    """The sine of radians."""


@unary("f")
def cos(x: TensorLike) -> Any:
    """The cosine of radians."""


@unary("f")
def tan(x: TensorLike) -> Any:
    """The tangent of radians."""


@unary("f")
def asin(x: TensorLike) -> Any:
    """The inverse sine, NaN outside of [-1, 1]."""


@unary("f")
def acos(x: TensorLike) -> Any:
    """The inverse cosine, NaN outside of [-1, 1]."""


@unary("f")
def atan(x: TensorLike) -> Any:
    """The inverse tangent."""


@unary("f")
def sinh(x: TensorLike) -> Any:
    """The hyperbolic sine."""


@unary("f")
def cosh(x: TensorLike) -> Any:
    """The hyperbolic cosine."""


@unary("f")
def tanh(x: TensorLike) -> Any:
    """The hyperbolic tangent."""


@unary("f")
def asinh(x: TensorLike) -> Any:
    """The inverse hyperbolic sine."""


@unary("f")
def acosh(x: TensorLike) -> Any:
    """The inverse hyperbolic cosine, NaN below one."""


@unary("f")
def atanh(x: TensorLike) -> Any:
    """The inverse hyperbolic tangent: NaN outside of [-1, 1], an infinity at -1 and 1."""


@unary("f")
def erf(x: TensorLike) -> Any:
    """The error function."""


@unary("f")
def sigmoid(x: TensorLike) -> Any:
    """1 / (1 + e^-x), without overflow for any x."""


@unary("f")
def floor(x: TensorLike) -> Any:
    """The greatest integer not above x, in the dtype of x. NaN and infinities stay."""


@unary("f")
def ceil(x: TensorLike) -> Any:
    """The least integer not below x, in the dtype of x. NaN and infinities stay."""


@unary("f")
def round(x: TensorLike) -> Any:
    """The nearest integer, in the dtype of x; halves round to the even integer. NaN and infinities stay."""


@unary("f", dtypes.bool_)
def is_nan(x: TensorLike) -> Any:
    """Whether x is not a number."""


@unary("f", dtypes.bool_)
def is_inf(x: TensorLike) -> Any:
    """Whether x is an infinity of either sign."""


@unary("b")
def logical_not(x: TensorLike) -> Any:
    """The logical negation: not x."""


@unary("iu")
def bitwise_not(x: TensorLike) -> Any:
    """x with all bits flipped."""


# -- two operands ------------------------------------------------------------------------------------------------------
@binary("fiuc")
def add(x: TensorLike, y: TensorLike) -> Any:
    """x + y; integers wrap."""


@binary("fiuc")
def sub(x: TensorLike, y: TensorLike) -> Any:
    """x - y; integers wrap."""


@binary("fiuc", neutral=1)
def mul(x: TensorLike, y: TensorLike) -> Any:
    """x * y; integers wrap."""


@binary("fiuc", neutral=1)
def div(x: TensorLike, y: TensorLike) -> Any:
    """x / y. An integer quotient truncates toward zero; a division by 0 gives any integer, without an exception."""


@binary("fiu", neutral=1)
def floordiv(x: TensorLike, y: TensorLike) -> Any:
    """x / y rounded down. An integer division by 0 gives any integer, without an exception."""


@binary("fiu")
def mod(x: TensorLike, y: TensorLike) -> Any:
    """x - floor(x / y) * y: the remainder with the sign of y. A division by 0 gives NaN for floats.

    For integers, a division by 0 gives any integer, without an exception.
    """


@binary("fiu")
def fmod(x: TensorLike, y: TensorLike) -> Any:
    """The exact remainder of x / y with the sign of x, as in C. A division by 0 gives NaN for floats.

    For integers, a division by 0 gives any integer, without an exception.
    """


@binary("fiu", neutral=1)
def pow(x: TensorLike, y: TensorLike) -> Any:
    """x to the y. Integers wrap, and a negative exponent gives 1 / x^-y truncated toward zero."""


@binary("f")
def atan2(x: TensorLike, y: TensorLike) -> Any:
    """The angle of the point (y, x): the first operand is the ordinate, as in C."""


@binary("fiub")
def maximum(x: TensorLike, y: TensorLike) -> Any:
    """The larger of x and y, elementwise. NaN if x or y is NaN. For booleans, logical OR."""


@binary("fiub")
def minimum(x: TensorLike, y: TensorLike) -> Any:
    """The smaller of x and y, elementwise. NaN if x or y is NaN. For booleans, logical AND."""


@binary("fiubsc", dtypes.bool_)
def equal(x: TensorLike, y: TensorLike) -> Any:
    """x == y; NaN is equal to nothing, not even to NaN."""


@binary("fiu", dtypes.bool_)
def less(x: TensorLike, y: TensorLike) -> Any:
    """Whether x < y, elementwise, as a bool Tensor. False if x or y is NaN."""


@binary("fiu", dtypes.bool_)
def less_equal(x: TensorLike, y: TensorLike) -> Any:
    """Whether x <= y, elementwise, as a bool Tensor. False if x or y is NaN."""


@binary("b", neutral=1, either=True)
def logical_and(x: TensorLike, y: TensorLike) -> Any:
    """x AND y, elementwise. x and y are booleans and broadcast."""


@binary("b", neutral=0, either=True)
def logical_or(x: TensorLike, y: TensorLike) -> Any:
    """x OR y, elementwise. x and y are booleans and broadcast."""


@binary("b")
def logical_xor(x: TensorLike, y: TensorLike) -> Any:
    """x XOR y, elementwise: whether exactly one of the booleans is true."""


@binary("iu")
def bitwise_and(x: TensorLike, y: TensorLike) -> Any:
    """The bitwise AND of two integers: the bits that are set in both."""


@binary("iu")
def bitwise_or(x: TensorLike, y: TensorLike) -> Any:
    """The bitwise OR of two integers: the bits that are set in x, in y or in both."""


@binary("iu")
def bitwise_xor(x: TensorLike, y: TensorLike) -> Any:
    """The bitwise XOR of two integers: the bits that are set in exactly one of them."""


@binary("u")
def shift_left(x: TensorLike, y: TensorLike) -> Any:
    """x * 2^y of unsigned integers, modulo the range of the dtype; zero if y is at least the width of the dtype."""


@binary("u")
def shift_right(x: TensorLike, y: TensorLike) -> Any:
    """x / 2^y of unsigned integers, rounded down; zero if y is at least the width of the dtype."""


def greater(x: TensorLike, y: TensorLike) -> Tensor:
    """x > y; False if either is NaN. Raises InvalidModelError if the dtypes differ."""
    x, y = lift_pair("greater", x, y)
    return less(y, x)


def greater_equal(x: TensorLike, y: TensorLike) -> Tensor:
    """x >= y; False if either is NaN. Raises InvalidModelError if the dtypes differ."""
    x, y = lift_pair("greater_equal", x, y)
    return less_equal(y, x)


def not_equal(x: TensorLike, y: TensorLike) -> Tensor:
    """x != y; True if either is NaN. Raises InvalidModelError if the dtypes differ."""
    return logical_not(equal(x, y))


# -- select, cast and clip ---------------------------------------------------------------------------------------------
@primitive("fiubsc")
def where(condition: TensorLike, x: Any, y: Any) -> Tensor:
    """x where the bool `condition` is true, else y; the three operands broadcast.

    If a known condition has one element, the chosen operand is returned unchanged, unless its shape differs from the
    result's shape. Raises InvalidModelError if x and y differ in dtype, or if the shapes do not broadcast.
    """
    yes, no = lift_pair("where", x, y)
    test = lift(condition)
    if test.known and test.value is not None and test.value.size == 1:
        chosen = yes if test.value.reshape(()) else no
        if is_equal_shape(broadcast(test.shape, yes.shape, no.shape), chosen.shape):
            return chosen
    return elementwise("where", [test, yes, no], yes.dtype)


@primitive("fiubc")
def cast(x: TensorLike, dtype: DType) -> Tensor:
    """x in another dtype of numbers or booleans, as C converts it. x itself is returned if it has this dtype.

    - To an integer: floats truncate, and wider integers wrap. NaN, or a float out of range, gives any number, without
      an exception.
    - To bool: every number but zero gives True, also NaN.
    - To a float: numbers round half to even. A number that is too large gives infinity. It gives NaN in a dtype without
      infinity, and the largest value in a dtype without both.
    - From a complex dtype to an integer or a float: the imaginary part is dropped.
    """
    x = lift(x)
    if dtype.format is not None and not x.known and x.dtype.name in ("float64", "int32", "uint32", "int64", "uint64"):
        from onnx_compat.primitives.carried import to_odd

        x = to_odd(x)  # through float32 it would be rounded twice
    return x if x.dtype == dtype else elementwise("cast", [x], dtype, {"dtype": dtype})


@primitive("fiu")
def clip(x: TensorLike, low: Optional[float] = None, high: Optional[float] = None) -> Tensor:
    """min(max(x, low), high) for Python numbers; None is no bound. NaN stays NaN; for integers, bounds round inward."""
    x = lift(x)
    return x if low is None and high is None else elementwise("clip", [x], x.dtype, {"low": low, "high": high})


def relu(x: TensorLike) -> Tensor:
    """x where x is positive, else zero; NaN stays NaN. x is a float or an integer."""
    return clip(x, 0, None)
