"""Arithmetic with two or more operands, Clip and Mod.

Up to opset 6, B broadcasts to A: the axes of B align with the axes of A from `axis` on, or with the last axes of A.
From opset 7 on, A and B broadcast as in numpy.
"""

from functools import reduce
from typing import Any, Callable, List, Optional

import numpy as np

from onnx_compat import primitives as p
from onnx_compat.errors import InvalidModelError
from onnx_compat.ops.arguments import known_number
from onnx_compat.ops.registry import op
from onnx_compat.primitives.ranges import check_same
from onnx_compat.tracing.values import Tensor

__all__ = ["register_binary"]

Binary = Callable[[Any, Any], Tensor]


def _align_at_axis(a: Tensor, b: Tensor, axis: Optional[int]) -> Tensor:
    """Append axes of size 1 to b, so that the first axis of b lies at `axis` of a when b is broadcast to a.

    A negative `axis` counts from the end of a. If `axis` is None or b is a scalar, return b. Raises
    InvalidModelError if the axis is out of range for a.
    """
    if axis is None or not b.rank:
        return b
    return p.reshape(b, b.shape + (1,) * (a.rank - p.axis_of(axis, a.rank) - b.rank))


def register_binary(name: str, function: Binary, old: List[int], new: List[int]) -> None:
    """Register `function` (of two tensors) as the meaning of the operator `name`.

    - old: the opset versions with the attributes `axis` and `broadcast`. `axis` is the axis of A where B begins.
      `broadcast` has no effect, because B always broadcasts.
    - new: the opset versions that broadcast as numpy does.
    """

    def meaning_with_axis(A: Tensor, B: Tensor, *, axis: Optional[int] = None, broadcast: int = 0) -> Tensor:
        return function(A, _align_at_axis(A, B, axis))

    def meaning(A: Tensor, B: Tensor) -> Tensor:
        return function(A, B)

    op(name, since=old)(meaning_with_axis)
    op(name, since=new)(meaning)


def power(x: Tensor, y: Tensor) -> Tensor:
    """Return x ** y in the dtype of x.

    - A known scalar y of 2: x * x.
    - x is no float, and y is a float: computed in the dtype of y, then cast to the dtype of x.
    - Any other case: y is cast to the dtype of x first.
    """
    if y.known and y.value is not None and y.rank == 0 and y.value == 2:
        return p.mul(x, x)
    if x.dtype.kind != "f" and y.dtype.kind == "f":
        return p.cast(p.pow(p.cast(x, y.dtype), y), x.dtype)
    return p.pow(x, p.cast(y, x.dtype))


register_binary("Add", p.add, [1, 6], [7, 13, 14])
register_binary("Sub", p.sub, [1, 6], [7, 13, 14])
register_binary("Mul", p.mul, [1, 6], [7, 13, 14])
register_binary("Div", p.div, [1, 6], [7, 13, 14])
register_binary("Pow", power, [1], [7, 12, 13, 15])


@op("Mod", since=(10, 13, 28))
def mod(A: Tensor, B: Tensor, *, fmod: int = 0) -> Tensor:
    """Return the remainder of A / B.

    It has the sign of B if `fmod` is 0, and the sign of A if `fmod` is 1. Raises InvalidModelError for another `fmod`.
    Floats without `fmod` are accepted for every opset: onnx 1.5 has a recorded case of them.
    """
    if fmod not in (0, 1):
        raise InvalidModelError("fmod is 0 or 1, not %d" % fmod)
    return p.fmod(A, B) if fmod else p.mod(A, B)


@op("Sum", since=(1, 6, 8, 13))
def sum(*data_0: Tensor) -> Tensor:
    """Return the elementwise sum of all inputs, which broadcast as in numpy. A single input is returned unchanged."""
    return reduce(p.add, data_0)


@op("Mean", since=(1, 6, 8, 13))
def mean(*data_0: Tensor) -> Tensor:
    """Return the elementwise mean of all inputs, which broadcast as in numpy."""
    return reduce(p.add, data_0) / len(data_0)


@op("Max", since=(1, 6, 8, 12, 13))
def max(*data_0: Tensor) -> Tensor:
    """Return the elementwise maximum of all inputs, which broadcast as in numpy.

    A single input is returned unchanged.
    """
    return reduce(p.maximum, data_0)


@op("Min", since=(1, 6, 8, 12, 13))
def min(*data_0: Tensor) -> Tensor:
    """Return the elementwise minimum of all inputs, which broadcast as in numpy.

    A single input is returned unchanged.
    """
    return reduce(p.minimum, data_0)


@op("Clip", since=(1, 6))
def clip_6(input: Tensor, *, min: float = -np.inf, max: float = np.inf) -> Tensor:
    """Clip to [min, max]. A bound at or beyond the limit of the dtype has no effect; by default there are no bounds.

    If min > max, every element except NaN becomes max. NaN stays NaN.
    """
    return _clip_to_bounds(input, min, max)


@op("Clip", since=(11, 12, 13))
def clip(input: Tensor, min: Optional[Tensor] = None, max: Optional[Tensor] = None) -> Tensor:
    """Clip to [min, max]. An absent bound has no effect; without bounds, return the input.

    If min > max, every element except NaN becomes max. NaN stays NaN. If all given bounds are known, the primitive
    `clip` is applied, else `maximum` and `minimum`. Raises InvalidModelError if a bound has not exactly one element.
    """
    for bound in (min, max):
        if bound is not None:
            check_same("the number of bounds of a Clip", bound.size, "that of a scalar", 1)
    if all(bound is None or bound.known for bound in (min, max)):
        low, high = (None if bound is None else known_number(bound, "a bound of a Clip") for bound in (min, max))
        return p.clip(input, low, high)
    raised = input if min is None else p.maximum(input, p.reshape(min, ()))
    return raised if max is None else p.minimum(raised, p.reshape(max, ()))


def _clip_to_bounds(x: Tensor, low: float, high: float) -> Tensor:
    """Clip x to [low, high]. Leave out a bound that is at or beyond the limit of the dtype of x.

    If both bounds are left out, return x.
    """
    return p.clip(x, None if low <= x.dtype.min else low, None if high >= x.dtype.max else high)
