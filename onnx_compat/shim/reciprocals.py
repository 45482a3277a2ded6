"""Constant divisors: when a product with the reciprocals gives the exact quotients."""

import numpy as np

__all__ = ["have_exact_reciprocals"]


def have_exact_reciprocals(divisors: np.ndarray) -> bool:
    """Whether each divisor is a power of two, of either sign, whose reciprocal is a normal number.

    `divisors`: an array of floats.
    """
    limits = np.finfo(divisors.dtype)
    magnitudes = np.abs(divisors)
    is_normal = np.logical_and(magnitudes >= limits.tiny, magnitudes <= 1 / limits.tiny)
    return bool(np.logical_and(is_normal, np.frexp(magnitudes)[0] == 0.5).all())
