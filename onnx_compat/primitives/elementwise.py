"""Primitives that work element by element, with numpy's broadcasting. Any layout goes through.

Two operands have one dtype; integers wrap; nothing is promoted. A Python number takes the dtype of the tensor it meets.
"""

import functools
from typing import Any, Callable, Dict, Optional, Sequence

from onnx_compat.errors import InvalidModelError
from onnx_compat.ir import dtypes
from onnx_compat.ir.dims import is_equal_shape
from onnx_compat.ir.dtypes import DType
from onnx_compat.primitives.base import apply_primitive, broadcast, elementwise_rule, fold, primitive
from onnx_compat.primitives.shape import broadcast_to, spread_from, spreads
from onnx_compat.tracing.layout import broadcast_operand, common_order
from onnx_compat.tracing.values import Tensor, lift, scalar_like

Unary = Callable[[Any], Tensor]
_Meaning = Callable[..., Any]
Binary = Callable[[Any, Any], Tensor]


def elementwise(
    name: str, operands: Sequence[Tensor], result: DType, params: Optional[Dict[str, Any]] = None
) -> Tensor:
    params = params or {}
    folded = fold(name, operands, [result], **params)
    if folded is not None:
        return folded[0]
    shape = broadcast(*[operand.shape for operand in operands])
    narrow = [spread_from(operand) for operand in operands]
    if any(one is not operand for one, operand in zip(narrow, operands)) and spreads(
        broadcast(*[one.shape for one in narrow]), shape
    ):  # what was repeated is not computed with so often; mostly another operand repeats it anyway
        return broadcast_to(elementwise(name, narrow, result, params), shape)
    order = common_order(operands, len(shape))
    args = [broadcast_operand(operand, order, len(shape)) for operand in operands]
    return apply_primitive(name, args, params, [order])[0]


def unary(kinds: str, dtype: Optional[DType] = None) -> Callable[[_Meaning], Unary]:
    """Declare a primitive of one operand; its result has the operand's dtype, or the one given."""

    def declare(function: _Meaning) -> Unary:
        name = function.__name__

        def applied(x: Any) -> Tensor:
            x = lift(x)
            return elementwise(name, [_checked(name, x, kinds)], dtype or x.dtype)

        return functools.update_wrapper(applied, primitive(kinds, elementwise_rule(dtype))(function))

    return declare


def binary(
    kinds: str, dtype: Optional[DType] = None, neutral: Optional[int] = None, either: bool = False
) -> Callable[[_Meaning], Binary]:
    """Declare a primitive of two operands of one dtype. `neutral` as the right operand (as `either` one) does nothing."""

    def declare(function: _Meaning) -> Binary:
        name = function.__name__

        def applied(x: Any, y: Any) -> Tensor:
            left, right = paired(name, x, y)
            _checked(name, left, kinds)
            for one, other in () if neutral is None else ((left, right), (right, left))[: 1 + either]:
                if _is(other, neutral) and is_equal_shape(broadcast(one.shape, other.shape), one.shape):
                    return one
            return elementwise(name, [left, right], dtype or left.dtype)

        return functools.update_wrapper(applied, primitive(kinds, elementwise_rule(dtype))(function))

    return declare


def paired(name: str, x: Any, y: Any) -> "tuple[Tensor, Tensor]":
    """Both as tensors of one dtype."""
    if not isinstance(x, Tensor) and isinstance(y, Tensor):
        x = scalar_like(x, y)
    x = lift(x)
    y = scalar_like(y, x)
    if x.dtype != y.dtype:
        raise InvalidModelError("%s of %s and %s: both must have one dtype" % (name, x.dtype.name, y.dtype.name))
    return x, y


def _checked(name: str, x: Tensor, kinds: str) -> Tensor:
    if x.dtype.kind not in kinds:
        raise InvalidModelError("%s is not defined for %s" % (name, x.dtype.name))
    return x


def _is(y: Tensor, number: Optional[int]) -> bool:
    return y.known and y.value is not None and y.value.size == 1 and bool(y.value.reshape(()) == number)


# -- one operand -------------------------------------------------------------------------------------------------------
@unary("fiuc")
def neg(x: Any) -> Any:
    """-x."""


@unary("fiuc")
def abs(x: Any) -> Any:
    """|x|; the least integer stays itself."""


@unary("fiu")
def sign(x: Any) -> Any:
    """-1, 0 or 1; NaN stays NaN."""


@unary("fc")
def exp(x: Any) -> Any:
    """e to the x."""


@unary("fc")
def log(x: Any) -> Any:
    """The natural logarithm: NaN below zero, -inf at zero."""


@unary("fc")
def sqrt(x: Any) -> Any:
    """The square root: NaN below zero."""


@unary("f")
def sin(x: Any) -> Any:
    """The sine of radians."""


@unary("f")
def cos(x: Any) -> Any:
    """The cosine of radians."""


@unary("f")
def tan(x: Any) -> Any:
    """The tangent of radians."""


@unary("f")
def asin(x: Any) -> Any:
    """The inverse sine, NaN outside of [-1, 1]."""


@unary("f")
def acos(x: Any) -> Any:
    """The inverse cosine, NaN outside of [-1, 1]."""


@unary("f")
def atan(x: Any) -> Any:
    """The inverse tangent."""


@unary("f")
def sinh(x: Any) -> Any:
    """The hyperbolic sine."""


@unary("f")
def cosh(x: Any) -> Any:
    """The hyperbolic cosine."""


@unary("f")
def tanh(x: Any) -> Any:
    """The hyperbolic tangent."""


@unary("f")
def asinh(x: Any) -> Any:
    """The inverse hyperbolic sine."""


@unary("f")
def acosh(x: Any) -> Any:
    """The inverse hyperbolic cosine, NaN below one."""


@unary("f")
def atanh(x: Any) -> Any:
    """The inverse hyperbolic tangent, NaN outside of [-1, 1]."""


@unary("f")
def erf(x: Any) -> Any:
    """The error function."""


@unary("f")
def sigmoid(x: Any) -> Any:
    """1 / (1 + e^-x), without overflow for any x."""


@unary("f")
def floor(x: Any) -> Any:
    """The greatest integer not above x."""


@unary("f")
def ceil(x: Any) -> Any:
    """The least integer not below x."""


@unary("f")
def round(x: Any) -> Any:
    """The nearest integer; of two, the even one."""


@unary("f", dtypes.bool_)
def is_nan(x: Any) -> Any:
    """Whether x is not a number."""


@unary("f", dtypes.bool_)
def is_inf(x: Any) -> Any:
    """Whether x is an infinity of either sign."""


@unary("b")
def logical_not(x: Any) -> Any:
    """not x."""


@unary("iu")
def bitwise_not(x: Any) -> Any:
    """All bits flipped."""


# -- two operands ------------------------------------------------------------------------------------------------------
@binary("fiuc")
def add(x: Any, y: Any) -> Any:
    """x + y."""


@binary("fiuc")
def sub(x: Any, y: Any) -> Any:
    """x - y."""


@binary("fiuc", neutral=1)
def mul(x: Any, y: Any) -> Any:
    """x * y."""


@binary("fiuc", neutral=1)
def div(x: Any, y: Any) -> Any:
    """x / y; integers are divided exactly and truncated toward zero (by zero: any number, no exception)."""


@binary("fiu", neutral=1)
def floordiv(x: Any, y: Any) -> Any:
    """x / y rounded down (integers by zero: any number, no exception)."""


@binary("fiu")
def mod(x: Any, y: Any) -> Any:
    """x - floor(x / y) * y: the remainder with the sign of y (integers by zero: any number, no exception)."""


@binary("fiu")
def fmod(x: Any, y: Any) -> Any:
    """The exact remainder with the sign of x, as in C (integers by zero: any number, no exception)."""


@binary("fiu", neutral=1)
def pow(x: Any, y: Any) -> Any:
    """x to the y."""


@binary("f")
def atan2(x: Any, y: Any) -> Any:
    """The angle of the point (y, x): the first operand is the ordinate, as in C."""


@binary("fiub")
def maximum(x: Any, y: Any) -> Any:
    """The larger one; NaN if either is NaN."""


@binary("fiub")
def minimum(x: Any, y: Any) -> Any:
    """The smaller one; NaN if either is NaN."""


@binary("fiubsc", dtypes.bool_)
def equal(x: Any, y: Any) -> Any:
    """x == y; NaN equals nothing."""


@binary("fiu", dtypes.bool_)
def less(x: Any, y: Any) -> Any:
    """x < y."""


@binary("fiu", dtypes.bool_)
def less_equal(x: Any, y: Any) -> Any:
    """x <= y."""


@binary("b", neutral=1, either=True)
def logical_and(x: Any, y: Any) -> Any:
    """x and y."""


@binary("b", neutral=0, either=True)
def logical_or(x: Any, y: Any) -> Any:
    """x or y."""


@binary("b")
def logical_xor(x: Any, y: Any) -> Any:
    """Whether just one is true."""


@binary("iu")
def bitwise_and(x: Any, y: Any) -> Any:
    """The bits set in both."""


@binary("iu")
def bitwise_or(x: Any, y: Any) -> Any:
    """The bits set in either."""


@binary("iu")
def bitwise_xor(x: Any, y: Any) -> Any:
    """The bits set in just one."""


@binary("u")
def shift_left(x: Any, y: Any) -> Any:
    """x times two to the y, without the bits that leave; zero from the width of the dtype on."""


@binary("u")
def shift_right(x: Any, y: Any) -> Any:
    """x divided by two to the y, rounded down; zero from the width of the dtype on."""


def greater(x: Any, y: Any) -> Tensor:
    """x > y."""
    x, y = paired("greater", x, y)
    return less(y, x)


def greater_equal(x: Any, y: Any) -> Tensor:
    """x >= y."""
    x, y = paired("greater_equal", x, y)
    return less_equal(y, x)


def not_equal(x: Any, y: Any) -> Tensor:
    """x != y; NaN differs from everything."""
    return logical_not(equal(x, y))


# -- the others --------------------------------------------------------------------------------------------------------
@primitive("fiubsc")
def where(condition: Any, x: Any, y: Any) -> Tensor:
    """x where the condition holds, else y; the three broadcast."""
    yes, no = paired("where", x, y)
    test = lift(condition)
    if test.known and test.value is not None and test.value.size == 1:
        chosen = yes if test.value.reshape(()) else no
        if is_equal_shape(broadcast(test.shape, yes.shape, no.shape), chosen.shape):
            return chosen
    return elementwise("where", [test, yes, no], yes.dtype)


@primitive("fiubc")
def cast(x: Any, dtype: DType) -> Tensor:
    """x in another numeric dtype, as C does: floats to integers truncate toward zero, wider integers to narrower ones
    wrap, anything but zero is True; a float out of the integer's range, or NaN, gives any number but no exception. To a
    float it rounds to the nearest, half to even; too large is infinity, else NaN, else the largest there is.
    """
    x = lift(x)
    if dtype.format is not None and not x.known and x.dtype.name in ("float64", "int32", "uint32", "int64", "uint64"):
        from onnx_compat.primitives.carried import to_odd

        x = to_odd(x)  # through float32 it would be rounded twice
    return x if x.dtype == dtype else elementwise("cast", [x], dtype, {"dtype": dtype})


@primitive("fiu")
def clip(x: Any, low: Optional[float] = None, high: Optional[float] = None) -> Tensor:
    """x held between two Python numbers, of which either may be absent: min(max(x, low), high); NaN stays NaN."""
    x = lift(x)
    return x if low is None and high is None else elementwise("clip", [x], x.dtype, {"low": low, "high": high})


def relu(x: Any) -> Tensor:
    """x where positive, else zero."""
    return clip(x, 0, None)
