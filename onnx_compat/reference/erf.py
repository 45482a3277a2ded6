"""The error function erf of arrays, accurate to the last bits of float64.

It is computed by a Taylor series around the nearest point of a grid. `math.erf` gives the values at the grid points.
Their derivatives follow from erf'(x) = 2 / sqrt(pi) * exp(-x^2).
"""

import functools
import math
from typing import Any, List, Tuple

import numpy as np

from onnx_compat.reference.arrays import Array

__all__ = ["erf", "taylor_series"]

_STEPS = 16  # grid points between two integers
_END = 6  # erf is 1 in float64 from here on


def erf(x: Array) -> Any:
    """Return the error function of each element, in the dtype of x, a float. NaN stays NaN.

    Float16 is computed in float32.
    """
    wide = x if x.dtype.itemsize > 2 else x.astype(np.float32)
    series = _series(wide.dtype.char)
    size = np.fmin(np.abs(wide), np.asarray(_END, wide.dtype))  # the last line restores a NaN
    grid_point = np.rint(size * np.asarray(_STEPS, wide.dtype))
    offset = size - grid_point / np.asarray(_STEPS, wide.dtype)
    index = grid_point.astype(np.intp)
    total = series[-1].take(index)
    for coefficients in series[-2::-1]:
        total = total * offset + coefficients.take(index)
    return np.where(np.isnan(x), x, np.copysign(total, x)).astype(x.dtype, copy=False)


def taylor_series(dtype: np.dtype) -> Tuple[int, int, List[Any]]:
    """Return the grid points between two integers, the last integer, and the coefficients of the Taylor series.

    The coefficients are in ascending order of the power, each an array of the float `dtype` over all grid points.
    """
    return _STEPS, _END, _series(dtype.char)


@functools.lru_cache(maxsize=None)
def _series(char: str) -> List[Any]:
    """Return the coefficients of the Taylor series by ascending power, each an array over all grid points.

    `char` is the character of the dtype: "d" for float64, "f" for float32.
    """
    degree = 10 if char == "d" else 5
    points = [k / _STEPS for k in range(_END * _STEPS + 1)]
    rows = [[math.erf(point) for point in points]]
    # The n-th derivative of exp(-x^2) is (-1)^n H_n(x) exp(-x^2), with the Hermite polynomials H_n.
    before, hermite = [0.0] * len(points), [1.0] * len(points)
    for n in range(degree):
        scale = 2 / math.sqrt(math.pi) * (-1) ** n / math.factorial(n + 1)
        rows.append([scale * h * math.exp(-x * x) for h, x in zip(hermite, points)])
        before, hermite = hermite, [2 * x * h - 2 * n * b for h, b, x in zip(hermite, before, points)]
    return [np.asarray(row, char) for row in rows]
