"""Comparisons, logical and bitwise operators, and Where."""

from onnx_compat import primitives as p
from onnx_compat.errors import InvalidModelError
from onnx_compat.ops.arithmetic import register_binary
from onnx_compat.ops.registry import op
from onnx_compat.tracing.values import Tensor, lift

register_binary("Equal", p.equal, [1], [7, 11, 13, 19])
register_binary("Less", p.less, [1], [7, 9, 13])
register_binary("Greater", p.greater, [1], [7, 9, 13])
register_binary("And", p.logical_and, [1], [7])
register_binary("Or", p.logical_or, [1], [7])
register_binary("Xor", p.logical_xor, [1], [7])


@op("LessOrEqual", since=(12, 16))
def less_or_equal(A: Tensor, B: Tensor) -> Tensor:
    """Return A <= B elementwise, with broadcasting as in numpy; False for NaN.

    Raises InvalidModelError if the dtypes differ, or if the shapes do not broadcast.
    """
    return p.less_equal(A, B)


@op("GreaterOrEqual", since=(12, 16))
def greater_or_equal(A: Tensor, B: Tensor) -> Tensor:
    """Return A >= B elementwise, with broadcasting as in numpy; False for NaN.

    Raises InvalidModelError if the dtypes differ, or if the shapes do not broadcast.
    """
    return p.greater_equal(A, B)


@op("Not", since=1)
def logical_not(X: Tensor) -> Tensor:
    """Return the elementwise logical negation."""
    return p.logical_not(X)


@op("BitwiseAnd", since=18)
def bitwise_and(A: Tensor, B: Tensor) -> Tensor:
    """Return the elementwise bitwise AND of two integer tensors, with broadcasting as in numpy.

    Raises InvalidModelError if the dtypes differ, or if the shapes do not broadcast.
    """
    return p.bitwise_and(A, B)


@op("BitwiseOr", since=18)
def bitwise_or(A: Tensor, B: Tensor) -> Tensor:
    """Return the elementwise bitwise OR of two integer tensors, with broadcasting as in numpy.

    Raises InvalidModelError if the dtypes differ, or if the shapes do not broadcast.
    """
    return p.bitwise_or(A, B)


@op("BitwiseXor", since=18)
def bitwise_xor(A: Tensor, B: Tensor) -> Tensor:
    """Return the elementwise bitwise XOR of two integer tensors, with broadcasting as in numpy.

    Raises InvalidModelError if the dtypes differ, or if the shapes do not broadcast.
    """
    return p.bitwise_xor(A, B)


@op("BitwiseNot", since=18)
def bitwise_not(X: Tensor) -> Tensor:
    """Return the elementwise bitwise complement of an integer tensor."""
    return p.bitwise_not(X)


@op("BitShift", since=11)
def bit_shift(X: Tensor, Y: Tensor, *, direction: str) -> Tensor:
    """Shift the bits of unsigned integers X by Y positions, to the LEFT or RIGHT (`direction`).

    The result is 0 if Y is at least the number of bits of the dtype. Raises InvalidModelError for another direction.
    """
    if direction not in ("LEFT", "RIGHT"):
        raise InvalidModelError("the direction of a shift is LEFT or RIGHT, not %r" % direction)
    return p.shift_left(X, Y) if direction == "LEFT" else p.shift_right(X, Y)


@op("BitShift", since=28)
def bit_shift_28(X: Tensor, Y: Tensor, *, direction: str) -> Tensor:
    """Shift the bits of integers X by Y positions, to the LEFT or RIGHT (`direction`).

    A right shift of a signed integer is arithmetic: it keeps the sign. A negative y, or a y of at least the number of
    bits of the dtype, shifts all bits out. The result is then 0, or -1 if a negative x is shifted to the right. Raises
    InvalidModelError for another direction.
    """
    if X.dtype.kind == "u":
        return bit_shift(X, Y, direction=direction)
    unsigned = X.dtype.of("u" + X.dtype.name)
    amount = p.where(Y < 0, lift(X.dtype.bits, X.dtype), Y)
    if direction == "LEFT":
        return p.cast(bit_shift(p.cast(X, unsigned), p.cast(amount, unsigned), direction=direction), X.dtype)
    positive = p.where(X < 0, p.bitwise_not(X), X)
    shifted = p.cast(bit_shift(p.cast(positive, unsigned), p.cast(amount, unsigned), direction=direction), X.dtype)
    return p.where(X < 0, p.bitwise_not(shifted), shifted)


@op("Where", since=(9, 16))
def where(condition: Tensor, X: Tensor, Y: Tensor) -> Tensor:
    """Return X where the condition holds, else Y; all three broadcast as in numpy."""
    return p.where(condition, X, Y)


@op("IsNaN", since=(9, 13, 20))
def is_nan(X: Tensor) -> Tensor:
    """Return whether each element is NaN."""
    return p.is_nan(X)


@op("IsInf", since=(10, 20))
def is_inf(X: Tensor, *, detect_negative: int = 1, detect_positive: int = 1) -> Tensor:
    """Return a bool tensor: whether each element is +inf (if `detect_positive`) or -inf (if `detect_negative`)."""
    if detect_negative and detect_positive:
        return p.is_inf(X)
    side = X > 0 if detect_positive else X < 0
    return p.logical_and(p.is_inf(X), side if detect_positive or detect_negative else p.is_nan(X))
