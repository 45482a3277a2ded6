"""Elementary functions without a kernel, composed of operators that every runtime has, accurate to float32.

Each function is computed where its series converges fast, and elsewhere by an identity that loses no digits. The
polynomials minimise the relative error in float64 over the stated range; P(z) has the argument z = x^2.
"""

from typing import Callable, Sequence

import numpy as np

from onnx_compat_tflite.emitter.base import widen_for
from onnx_compat_tflite.emitter.integers import Integers
from onnx_compat_tflite.subgraph_builder import Handle

__all__ = ["ElementaryFunctions"]

_ATAN = (0.0805371202, -0.138776751, 0.199777096, -0.333329491)
_SINH = (0.00020372196, 0.0083302837, 0.16666716)
_ASINH = (0.0201219487, -0.0426993145, 0.0748475822, -0.166662881)
_ATANH = (0.181739939, 0.0824371064, 0.146691418, 0.199782165, 0.3333373)
_ACOSH = (0.00124428509, -0.00532259443, 0.0187064419, -0.0833307076, 0.999999974)
_ERF = (-0.000563141661, 0.00491754995, -0.0267113099, 0.112801801, -0.376123262, 1.12837912)
_LOG_ERFC = (-0.00115824035, 0.0148400859, -0.0888257582, -0.654199838, -1.11765167, -0.00261016385)
_LN2 = float(np.log(2))
_HUGE = 1e4  # from here on x^2 + 1 equals x^2 in float32


def _widen_for_arithmetic(method: Callable[..., Handle]) -> Callable[..., Handle]:
    """Decorate a method that is composed of arithmetic: see `widen_for`."""
    return widen_for("MUL", "ADD", "SELECT_V2", "SQRT")(method)


class ElementaryFunctions(Integers):
    """Emit functions in float32. float16 is computed in float32 and rounded once."""

    def _polynomial(self, x: Handle, coefficients: Sequence[float]) -> Handle:
        """Return a polynomial by Horner's rule; the coefficient of the highest power comes first."""
        total = self.like(x, coefficients[0])
        for coefficient in coefficients[1:]:
            total = self.add(self.mul(x, total), self.like(x, coefficient))
        return total

    def _odd_polynomial(self, x: Handle, coefficients: Sequence[float]) -> Handle:
        """Return x + x^3 P(x^2), whose leading term is exact."""
        z = self.mul(x, x)
        return self.add(x, self.mul(self.mul(x, z), self._polynomial(z, coefficients)))

    def _copy_sign(self, magnitude: Handle, x: Handle) -> Handle:
        """Return the magnitude with the sign of x."""
        return self.where(self.less(x, self.like(x, 0)), self.neg(magnitude), magnitude)

    def _add_number(self, x: Handle, number: float) -> Handle:
        return self.add(x, self.like(x, number))

    def _multiply_number(self, x: Handle, number: float) -> Handle:
        return self.mul(x, self.like(x, number))

    # -- trigonometry ------------------------------------------------------------------------------------------------------
    @_widen_for_arithmetic
    def tan(self, x: Handle) -> Handle:
        return self.div(self.sin(x), self.cos(x))

    @_widen_for_arithmetic
    def atan(self, x: Handle) -> Handle:
        """Emit the arc tangent: by the inverse of |x| above tan(3/8 pi), by the angle from pi/4 above tan(1/8 pi)."""
        size = self.abs(x)
        far, middle = (self.less(self.like(x, np.tan(k * np.pi / 8)), size) for k in (3, 1))
        inverse = self.div(self.like(x, -1), size)
        rotated = self.div(self._add_number(size, -1), self._add_number(size, 1))
        near = self.where(far, inverse, self.where(middle, rotated, size))
        base = self.where(far, self.like(x, np.pi / 2), self.where(middle, self.like(x, np.pi / 4), self.like(x, 0)))
        return self._copy_sign(self.add(base, self._odd_polynomial(near, _ATAN)), x)

    @_widen_for_arithmetic
    def asin(self, x: Handle) -> Handle:
        unit = self.like(x, 1)
        return self.atan(self.div(x, self.sqrt(self.mul(self.sub(unit, x), self.add(unit, x)))))

    @_widen_for_arithmetic
    def acos(self, x: Handle) -> Handle:
        unit = self.like(x, 1)
        # The quotient of the roots: the root of the quotient is infinite at -1, and NaN in some kernels.
        return self._multiply_number(self.atan(self.div(self.sqrt(self.sub(unit, x)), self.sqrt(self.add(unit, x)))), 2)

    @_widen_for_arithmetic
    def atan2(self, x: Handle, y: Handle) -> Handle:
        """Emit the angle of the first octant, then reflect it at the diagonal, the ordinate and the abscissa."""
        zero, unit = self.like(x, 0), self.like(x, 1)
        up, right = self.abs(x), self.abs(y)
        longer, shorter = self.maximum(up, right), self.minimum(up, right)
        ratio = self.where(
            self.equal(up, right), self.where(self.equal(up, zero), zero, unit), self.div(shorter, longer)
        )
        angle = self.atan(ratio)
        angle = self.where(self.less(right, up), self.sub(self.like(x, np.pi / 2), angle), angle)
        angle = self.where(self.less(self._signed_value(y), zero), self.sub(self.like(x, np.pi), angle), angle)
        angle = self.where(self.less(self._signed_value(x), zero), self.neg(angle), angle)
        return self.where(self.logical_or(self.is_nan(x), self.is_nan(y)), self.like(x, np.nan), angle)

    def _signed_value(self, x: Handle) -> Handle:
        """Return x with -1/0 in place of -0 and 1/0 in place of 0, so that a comparison sees the sign of zero."""
        zero = self.equal(x, self.like(x, 0))
        return self.where(zero, self.div(self.like(x, 1), x), x)

    # -- hyperbolic functions ----------------------------------------------------------------------------------------------
    def _half_exp(self, x: Handle) -> Handle:
        """Return e^(x / 2), whose square overflows only where e^x does."""
        return self.exp(self._multiply_number(x, 0.5))

    @_widen_for_arithmetic
    def sinh(self, x: Handle) -> Handle:
        size = self.abs(x)
        root = self._half_exp(size)
        far = self.sub(
            self.mul(self._multiply_number(root, 0.5), root), self.div(self.div(self.like(x, 0.5), root), root)
        )
        near = self._odd_polynomial(self.minimum(self.like(x, 1), size), _SINH)
        return self._copy_sign(self.where(self.less(size, self.like(x, 1)), near, far), x)

    @_widen_for_arithmetic
    def cosh(self, x: Handle) -> Handle:
        root = self._half_exp(self.abs(x))
        return self.add(
            self.mul(self._multiply_number(root, 0.5), root), self.div(self.div(self.like(x, 0.5), root), root)
        )

    def _log_of_double(self, x: Handle) -> Handle:
        """Return log(2 x) of a large x. XNNPACK's logarithm of the largest numbers is infinite, so x is halved."""
        return self._add_number(self.log(self._multiply_number(x, 0.5)), 2 * _LN2)

    @_widen_for_arithmetic
    def asinh(self, x: Handle) -> Handle:
        size = self.abs(x)
        near = self._odd_polynomial(self.minimum(self.like(x, 0.5), size), _ASINH)
        middle = self.log(self.add(size, self.sqrt(self._add_number(self.mul(size, size), 1))))
        far = self._log_of_double(size)
        rest = self.where(self.less(size, self.like(x, _HUGE)), middle, far)
        return self._copy_sign(self.where(self.less(size, self.like(x, 0.5)), near, rest), x)

    @_widen_for_arithmetic
    def acosh(self, x: Handle) -> Handle:
        beyond = self._add_number(x, -1)
        bounded = self.minimum(self.like(x, 0.5), beyond)
        near = self.mul(self.sqrt(self._multiply_number(bounded, 2)), self._polynomial(bounded, _ACOSH))
        middle = self.log(self.add(x, self.sqrt(self.mul(beyond, self._add_number(x, 1)))))
        far = self._log_of_double(x)
        rest = self.where(self.less(x, self.like(x, _HUGE)), middle, far)
        return self.where(self.less(self.like(x, 0.5), beyond), rest, near)

    @_widen_for_arithmetic
    def atanh(self, x: Handle) -> Handle:
        size = self.abs(x)
        near = self._odd_polynomial(self.minimum(self.like(x, 0.5), size), _ATANH)
        unit = self.like(x, 1)
        far = self._multiply_number(self.log(self.div(self.add(unit, size), self.sub(unit, size))), 0.5)
        return self._copy_sign(self.where(self.less(size, self.like(x, 0.5)), near, far), x)

    # -- the error function ------------------------------------------------------------------------------------------------
    @_widen_for_arithmetic
    def erf(self, x: Handle) -> Handle:
        """Emit the error function: x P(x^2) up to 1, and 1 - e^Q(|x|) beyond, where Q approximates log(erfc)."""
        size = self.minimum(self.like(x, 4), self.abs(x))
        z = self.mul(size, size)
        near = self.mul(size, self._polynomial(z, _ERF))
        far = self.sub(self.like(x, 1), self.exp(self._polynomial(size, _LOG_ERFC)))
        return self._copy_sign(self.where(self.less(size, self.like(x, 1)), near, far), x)
