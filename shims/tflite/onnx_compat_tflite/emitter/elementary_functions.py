"""Elementary functions without a kernel, composed of operators that every runtime has, accurate to float32.

Each function is computed where its series converges fast, and elsewhere by an identity that loses no digits. The
polynomials minimise the relative error in float64 over the stated range; P(z) has the argument z = x^2.
"""

from typing import Callable, Sequence, Tuple

import numpy as np

from onnx_compat_tflite.emitter import comparison, division, elementwise, extremes
from onnx_compat_tflite.emitter.builder import Builder
from onnx_compat_tflite.emitter.registry import primitive
from onnx_compat_tflite.emitter.widening import widen_for
from onnx_compat_tflite.subgraph_builder import Handle

__all__ = ["acos", "acosh", "asin", "asinh", "atan", "atan2", "atanh", "cosh", "erf", "polynomial", "sinh", "tan"]

_ATAN = (0.0805371202, -0.138776751, 0.199777096, -0.333329491)
_SINH = (0.00020372196, 0.0083302837, 0.16666716)
_ASINH = (0.0201219487, -0.0426993145, 0.0748475822, -0.166662881)
_ATANH = (0.181739939, 0.0824371064, 0.146691418, 0.199782165, 0.3333373)
_ACOSH = (0.00124428509, -0.00532259443, 0.0187064419, -0.0833307076, 0.999999974)
_ERF = (-0.000563141661, 0.00491754995, -0.0267113099, 0.112801801, -0.376123262, 1.12837912)
_LOG_ERFC = (-0.00115824035, 0.0148400859, -0.0888257582, -0.654199838, -1.11765167, -0.00261016385)
_LN2 = float(np.log(2))
_HUGE = 1e4  # from here on x^2 + 1 equals x^2 in float32


def _widen_for_arithmetic(function: Callable[..., Handle]) -> Callable[..., Handle]:
    """Decorate a function that is composed of MUL, ADD, SELECT_V2 and SQRT.

    If one of these kernels does not accept x's dtype, the function computes in a wider dtype: see `widen_for`.
    """
    return widen_for("MUL", "ADD", "SELECT_V2", "SQRT")(function)


def polynomial(builder: Builder, x: Handle, coefficients: Sequence[float]) -> Handle:
    """Return the polynomial of x with these coefficients, that of the highest power first, by Horner's rule."""
    total = builder.like(x, coefficients[0])
    for coefficient in coefficients[1:]:
        total = elementwise.add(builder, elementwise.mul(builder, x, total), builder.like(x, coefficient))
    return total


def _odd_polynomial(builder: Builder, x: Handle, coefficients: Sequence[float]) -> Handle:
    """Return x + x^3 P(x^2), whose leading term is exact. `coefficients`: of P, that of the highest power first."""
    z = elementwise.mul(builder, x, x)
    cube = elementwise.mul(builder, x, z)
    return elementwise.add(builder, x, elementwise.mul(builder, cube, polynomial(builder, z, coefficients)))


def _copy_sign(builder: Builder, magnitude: Handle, x: Handle) -> Handle:
    """Return -magnitude where x < 0, else magnitude. `magnitude` is not negative. The sign of an x of -0 is lost."""
    is_negative = _is_below(builder, x, 0)
    return comparison.where(builder, is_negative, elementwise.neg(builder, magnitude), magnitude)


def _is_below(builder: Builder, x: Handle, number: float) -> Handle:
    return comparison.less(builder, x, builder.like(x, number))


def _add_number(builder: Builder, x: Handle, number: float) -> Handle:
    return elementwise.add(builder, x, builder.like(x, number))


def _multiply_number(builder: Builder, x: Handle, number: float) -> Handle:
    return elementwise.mul(builder, x, builder.like(x, number))


@primitive
@_widen_for_arithmetic
def tan(builder: Builder, x: Handle) -> Handle:
    """Emit the tangent: sin(x) / cos(x)."""
    return division.div(builder, elementwise.sin(builder, x), elementwise.cos(builder, x))


@primitive
@_widen_for_arithmetic
def atan(builder: Builder, x: Handle) -> Handle:
    """Emit the arc tangent, by an odd polynomial p, with the sign of x.

    - |x| up to tan(pi/8): p(|x|)
    - |x| up to tan(3/8 pi): pi/4 + p((|x| - 1) / (|x| + 1))
    - |x| above tan(3/8 pi): pi/2 + p(-1 / |x|)
    """
    size = elementwise.abs(builder, x)
    far, middle = (comparison.less(builder, builder.like(x, np.tan(k * np.pi / 8)), size) for k in (3, 1))
    inverse = division.div(builder, builder.like(x, -1), size)
    rotated = division.div(builder, _add_number(builder, size, -1), _add_number(builder, size, 1))
    near = comparison.where(builder, far, inverse, comparison.where(builder, middle, rotated, size))
    base = comparison.where(builder, middle, builder.like(x, np.pi / 4), builder.like(x, 0))
    base = comparison.where(builder, far, builder.like(x, np.pi / 2), base)
    return _copy_sign(builder, elementwise.add(builder, base, _odd_polynomial(builder, near, _ATAN)), x)


@primitive
@_widen_for_arithmetic
def asin(builder: Builder, x: Handle) -> Handle:
    """Emit the arc sine: atan(x / sqrt((1 - x) (1 + x)))."""
    unit = builder.like(x, 1)
    product = elementwise.mul(builder, elementwise.sub(builder, unit, x), elementwise.add(builder, unit, x))
    return atan(builder, division.div(builder, x, elementwise.sqrt(builder, product)))


@primitive
@_widen_for_arithmetic
def acos(builder: Builder, x: Handle) -> Handle:
    """Emit the arc cosine: 2 atan(sqrt(1 - x) / sqrt(1 + x))."""
    unit = builder.like(x, 1)
    # The quotient of the roots: the root of the quotient is infinite at -1, and NaN in some kernels.
    numerator = elementwise.sqrt(builder, elementwise.sub(builder, unit, x))
    denominator = elementwise.sqrt(builder, elementwise.add(builder, unit, x))
    return _multiply_number(builder, atan(builder, division.div(builder, numerator, denominator)), 2)


@primitive
@_widen_for_arithmetic
def atan2(builder: Builder, x: Handle, y: Handle) -> Handle:
    """Emit the angle of the point with the ordinate x and the abscissa y. NaN where an operand is NaN.

    The angle is first atan(min(|x|, |y|) / max(|x|, |y|)). It is then reflected in this order:

    - where |x| > |y|: pi/2 - angle
    - where y is negative: pi - angle
    - where x is negative: -angle

    -0 counts as negative.
    """
    zero, unit = builder.like(x, 0), builder.like(x, 1)
    up, right = elementwise.abs(builder, x), elementwise.abs(builder, y)
    longer, shorter = extremes.maximum(builder, up, right), extremes.minimum(builder, up, right)
    is_diagonal = comparison.equal(builder, up, right)
    ratio_of_equal = comparison.where(builder, comparison.equal(builder, up, zero), zero, unit)
    ratio = comparison.where(builder, is_diagonal, ratio_of_equal, division.div(builder, shorter, longer))
    angle = atan(builder, ratio)
    is_steep = comparison.less(builder, right, up)
    angle = comparison.where(builder, is_steep, elementwise.sub(builder, builder.like(x, np.pi / 2), angle), angle)
    is_left = comparison.less(builder, _signed_value(builder, y), zero)
    angle = comparison.where(builder, is_left, elementwise.sub(builder, builder.like(x, np.pi), angle), angle)
    is_below = comparison.less(builder, _signed_value(builder, x), zero)
    angle = comparison.where(builder, is_below, elementwise.neg(builder, angle), angle)
    has_nan = comparison.logical_or(builder, comparison.is_nan(builder, x), comparison.is_nan(builder, y))
    return comparison.where(builder, has_nan, builder.like(x, np.nan), angle)


def _signed_value(builder: Builder, x: Handle) -> Handle:
    """Return x with -inf in place of -0, and inf in place of 0, so that a comparison sees the sign of zero."""
    zero = comparison.equal(builder, x, builder.like(x, 0))
    return comparison.where(builder, zero, division.div(builder, builder.like(x, 1), x), x)


def _half_exps(builder: Builder, x: Handle) -> Tuple[Handle, Handle]:
    """Return (e^x / 2, e^-x / 2), computed as r/2 r and 1/(2 r) / r with r = e^(x / 2).

    With these formulas, no intermediate value overflows where the results are finite.
    """
    root = elementwise.exp(builder, _multiply_number(builder, x, 0.5))
    rising = elementwise.mul(builder, _multiply_number(builder, root, 0.5), root)
    return rising, division.div(builder, division.div(builder, builder.like(x, 0.5), root), root)


@primitive
@_widen_for_arithmetic
def sinh(builder: Builder, x: Handle) -> Handle:
    """Emit the hyperbolic sine: (e^|x| - e^-|x|) / 2 with the sign of x, and a polynomial for |x| < 1."""
    size = elementwise.abs(builder, x)
    far = elementwise.sub(builder, *_half_exps(builder, size))
    near = _odd_polynomial(builder, extremes.minimum(builder, builder.like(x, 1), size), _SINH)
    return _copy_sign(builder, comparison.where(builder, _is_below(builder, size, 1), near, far), x)


@primitive
@_widen_for_arithmetic
def cosh(builder: Builder, x: Handle) -> Handle:
    """Emit the hyperbolic cosine: (e^|x| + e^-|x|) / 2."""
    return elementwise.add(builder, *_half_exps(builder, elementwise.abs(builder, x)))


def _log_of_double(builder: Builder, x: Handle) -> Handle:
    """Return log(2 x) of a large x, as log(x / 2) + 2 log(2).

    XNNPACK's logarithm of the largest float32 numbers is infinite; x / 2 stays below these numbers.
    """
    return _add_number(builder, elementwise.log(builder, _multiply_number(builder, x, 0.5)), 2 * _LN2)


@primitive
@_widen_for_arithmetic
def asinh(builder: Builder, x: Handle) -> Handle:
    """Emit asinh, with the sign of x.

    - |x| < 1/2: an odd polynomial of |x|
    - |x| < 10^4: log(|x| + sqrt(x^2 + 1))
    - |x| from 10^4 on: log(2 |x|)
    """
    size = elementwise.abs(builder, x)
    near = _odd_polynomial(builder, extremes.minimum(builder, builder.like(x, 0.5), size), _ASINH)
    root = elementwise.sqrt(builder, _add_number(builder, elementwise.mul(builder, size, size), 1))
    middle = elementwise.log(builder, elementwise.add(builder, size, root))
    far = _log_of_double(builder, size)
    rest = comparison.where(builder, _is_below(builder, size, _HUGE), middle, far)
    return _copy_sign(builder, comparison.where(builder, _is_below(builder, size, 0.5), near, rest), x)


@primitive
@_widen_for_arithmetic
def acosh(builder: Builder, x: Handle) -> Handle:
    """Emit acosh. NaN where x is below 1.

    - x up to 1.5: sqrt(2 (x - 1)) times a polynomial of x - 1
    - x below 10^4: log(x + sqrt((x - 1) (x + 1)))
    - x from 10^4 on: log(2 x)
    """
    beyond = _add_number(builder, x, -1)
    bounded = extremes.minimum(builder, builder.like(x, 0.5), beyond)
    near = elementwise.sqrt(builder, _multiply_number(builder, bounded, 2))
    near = elementwise.mul(builder, near, polynomial(builder, bounded, _ACOSH))
    root = elementwise.sqrt(builder, elementwise.mul(builder, beyond, _add_number(builder, x, 1)))
    middle = elementwise.log(builder, elementwise.add(builder, x, root))
    far = _log_of_double(builder, x)
    rest = comparison.where(builder, _is_below(builder, x, _HUGE), middle, far)
    return comparison.where(builder, comparison.less(builder, builder.like(x, 0.5), beyond), rest, near)


@primitive
@_widen_for_arithmetic
def atanh(builder: Builder, x: Handle) -> Handle:
    """Emit atanh: log((1 + |x|) / (1 - |x|)) / 2 with the sign of x, and a polynomial for |x| < 1/2."""
    size = elementwise.abs(builder, x)
    near = _odd_polynomial(builder, extremes.minimum(builder, builder.like(x, 0.5), size), _ATANH)
    unit = builder.like(x, 1)
    ratio = division.div(builder, elementwise.add(builder, unit, size), elementwise.sub(builder, unit, size))
    far = _multiply_number(builder, elementwise.log(builder, ratio), 0.5)
    return _copy_sign(builder, comparison.where(builder, _is_below(builder, size, 0.5), near, far), x)


@primitive
@_widen_for_arithmetic
def erf(builder: Builder, x: Handle) -> Handle:
    """Emit the error function, with the sign of x. |x| is clipped to 4.

    - |x| < 1: |x| P(x^2)
    - |x| from 1 on: 1 - e^Q(|x|), where the polynomial Q approximates log(erfc)
    """
    size = extremes.minimum(builder, builder.like(x, 4), elementwise.abs(builder, x))
    z = elementwise.mul(builder, size, size)
    near = elementwise.mul(builder, size, polynomial(builder, z, _ERF))
    far = elementwise.sub(builder, builder.like(x, 1), elementwise.exp(builder, polynomial(builder, size, _LOG_ERFC)))
    return _copy_sign(builder, comparison.where(builder, _is_below(builder, size, 1), near, far), x)
