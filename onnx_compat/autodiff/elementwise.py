"""Derivative rules of elementwise primitives."""

import math
from typing import Any, Callable, Dict, List

from onnx_compat import primitives as p
from onnx_compat.autodiff.choices import choices
from onnx_compat.autodiff.rules import RULES, RecordedNode, derivative_dtype, rule, sum_to
from onnx_compat.tracing.values import Tensor

#: Primitive y = f(x) -> the derivative f'(x).
_UNARY: Dict[str, Callable[..., Any]] = {
    "neg": lambda x, y: -1,
    "abs": lambda x, y: p.sign(x),
    "exp": lambda x, y: y,
    "log": lambda x, y: p.div(1, x),
    # At 0 the derivative is infinite. 0 in place of it gives norms the derivative 0 at 0.
    "sqrt": lambda x, y: p.where(p.equal(y, 0), 0, p.div(0.5, y)),
    "sin": lambda x, y: p.cos(x),
    "cos": lambda x, y: -p.sin(x),
    "tan": lambda x, y: y * y + 1,
    "asin": lambda x, y: p.div(1, p.sqrt(1 - x * x)),
    "acos": lambda x, y: p.div(-1, p.sqrt(1 - x * x)),
    "atan": lambda x, y: p.div(1, x * x + 1),
    "sinh": lambda x, y: p.cosh(x),
    "cosh": lambda x, y: p.sinh(x),
    "tanh": lambda x, y: 1 - y * y,
    "asinh": lambda x, y: p.div(1, p.sqrt(x * x + 1)),
    "acosh": lambda x, y: p.div(1, p.sqrt(x * x - 1)),
    "atanh": lambda x, y: p.div(1, 1 - x * x),
    "erf": lambda x, y: p.exp(-(x * x)) * (2 / math.sqrt(math.pi)),
    "sigmoid": lambda x, y: y * (1 - y),
}

#: Primitive z = f(x, y) -> its derivatives with respect to x and y, times the derivative g of z.
_BINARY: Dict[str, Callable[..., List[Any]]] = {
    "add": lambda x, y, z, g: [g, g],
    "sub": lambda x, y, z, g: [g, -g],
    "mul": lambda x, y, z, g: [g * y, g * x],
    "div": lambda x, y, z, g: [g / y, -(g * z) / y],
    # x ** 0 is 1 for every x: its derivative is 0, also at x = 0, where x ** (y - 1) is infinite.
    "pow": lambda x, y, z, g: [p.where(p.equal(y, 0), 0, g * y * p.pow(x, y - 1)), g * z * p.log(p.where(x > 0, x, 1))],
    "mod": lambda x, y, z, g: [g, -g * p.floor(x / y)],
    "fmod": lambda x, y, z, g: [g, -g * ((x - z) / y)],
    "atan2": lambda x, y, z, g: [g * y / (x * x + y * y), -(g * x) / (x * x + y * y)],
    "maximum": lambda x, y, z, g: [p.where(x >= y, g, 0), p.where(x >= y, 0, g)],
    "minimum": lambda x, y, z, g: [p.where(x <= y, g, 0), p.where(x <= y, 0, g)],
}


def _unary(slope: Callable[..., Any]) -> Callable[[RecordedNode, Any], List[Any]]:
    """Return the derivative rule of a primitive y = f(x). `slope(x, y)` returns f'(x).

    The rule returns a list of one tensor: the derivative of y, times f'(x).
    """
    return lambda at, g: [p.mul(g, slope(*at.factors(g.dtype)))]


def _binary(slopes: Callable[..., List[Any]]) -> Callable[[RecordedNode, Any], List[Any]]:
    """Return the derivative rule of an elementwise primitive z = f(x, y).

    `slopes(x, y, z, derivative of z)` returns a list: the derivatives of x and of y, each in the shape of z. The rule
    sums the derivative of x over the axes along which x was broadcast, and likewise for y. It returns the list of the
    two sums.
    """
    return lambda at, g: [sum_to(d, arg.shape) for arg, d in zip(at.args, slopes(*at.factors(g.dtype), g))]


RULES.update({name: _unary(slope) for name, slope in _UNARY.items()})
RULES.update({name: _binary(slopes) for name, slopes in _BINARY.items()})


@rule("sign", "floordiv", "is_nan", "is_inf", "equal", "less", "less_equal")
@rule("logical_not", "logical_and", "logical_or", "logical_xor", "argmax", "argmin", "nonzero", "extents")
def _zero_derivative(at: RecordedNode, _: Tensor) -> List[Any]:
    """Differentiate a piecewise constant primitive: 0. Return a list with None for each argument."""
    return [None] * len(at.args)


@rule("round", "floor", "ceil")
def _rounding(_: RecordedNode, g: Tensor) -> List[Any]:
    """Return the derivative of a rounding: [None], for 0; with the choice `straight_through`, [g]."""
    return [g if choices().straight_through else None]


@rule("where")
def _where(at: RecordedNode, g: Tensor) -> List[Any]:
    """Return the derivatives of a choice, [None, by x, by y]: g for the operand that is chosen, 0 for the other."""
    condition, x, y = at.args
    return [None, sum_to(p.where(condition, g, 0), x.shape), sum_to(p.where(condition, 0, g), y.shape)]


@rule("cast")
def _cast(at: RecordedNode, g: Tensor) -> List[Any]:
    """Return the derivative of a cast: g between floats; None, for 0, from or to integers; g with `straight_through`.

    The derivative of a cast from or to bool is 0. A cast of complex numbers to floats drops the imaginary part, and so
    does its derivative.
    """
    (x,) = at.args
    if x.dtype.kind in "fc" and at.y.dtype.kind in "fc":
        return [p.cast(g, derivative_dtype(x.dtype))]
    is_rounding = x.dtype.kind in "fiu" and at.y.dtype.kind in "fiu"
    if not (is_rounding and choices().straight_through):
        return [None]
    return [p.cast(g, derivative_dtype(x.dtype)) if x.dtype.kind == "f" else g]


@rule("clip")
def _clip(at: RecordedNode, g: Tensor) -> List[Any]:
    """Return the derivative of a clip: g where low < x <= high, else 0.

    At a bound, this is the derivative for smaller x. So that of max(x, 0) + min(x, 0) is 1 at 0 too. A bound of None has
    no effect.
    """
    (x,) = at.args
    low, high = at.params["low"], at.params["high"]
    if low is not None:
        g = p.where(x > low, g, 0)
    return [g if high is None else p.where(x <= high, g, 0)]
