"""Compare a model's outputs with the recorded outputs: floating-point numbers within a tolerance, all others exactly.

The module is independent of the library's own comparison, which is itself under test.
"""

from __future__ import annotations

from typing import Any

import numpy as np

__all__ = ["Mismatch", "compare", "compare_kind"]


class Mismatch(AssertionError):
    """An output differs from the recorded output. The text names the output and the first element that differs."""


def compare(name: str, got: Any, wanted: Any, rtol: float, atol: float) -> None:
    """Raise Mismatch unless `got` agrees with `wanted`, with equal dtypes and shapes.

    Both are a tensor, a list or dict of values, or None for an empty optional. Floats and complex numbers agree within
    `rtol` and `atol`, all other elements if they are equal. `name`: the name of the output, for the text.
    """
    if isinstance(wanted, list):
        if not isinstance(got, list) or len(got) != len(wanted):
            raise Mismatch("%s: expected a list of %d values, got %s" % (name, len(wanted), _describe(got)))
        for i, (ours, theirs) in enumerate(zip(got, wanted)):
            compare("%s[%d]" % (name, i), ours, theirs, rtol, atol)
    elif isinstance(wanted, dict):
        if not isinstance(got, dict) or set(got) != set(wanted):
            raise Mismatch("%s: expected a map of %s, got %s" % (name, sorted(wanted), _describe(got)))
        for key, theirs in wanted.items():
            compare("%s[%r]" % (name, key), np.asarray(got[key]), theirs, rtol, atol)
    elif wanted is None:
        if got is not None:
            raise Mismatch("%s: expected nothing, got %s" % (name, _describe(got)))
    else:
        _compare_tensors(name, got, np.asarray(wanted), rtol, atol)


def compare_kind(name: str, got: Any, wanted: np.ndarray) -> None:
    """Raise Mismatch unless `got` is an array with the dtype and the shape of `wanted`."""
    if not isinstance(got, np.ndarray):
        raise Mismatch("%s: expected %s, got %s" % (name, _describe(wanted), _describe(got)))
    if got.dtype != wanted.dtype or got.shape != wanted.shape:
        raise Mismatch("%s: expected %s, got %s" % (name, _describe(wanted), _describe(got)))


def _compare_tensors(name: str, got: Any, wanted: np.ndarray, rtol: float, atol: float) -> None:
    """Raise Mismatch unless `got` is an array of the same dtype and shape, whose elements agree with `wanted`.

    Floats and complex numbers agree within the tolerance, all other elements if they are equal. `name`: of the output.
    """
    if wanted.dtype.kind in "US":  # the library represents strings as objects
        wanted = wanted.astype(object)
    compare_kind(name, got, wanted)
    wrong = _far_elements(got, wanted, rtol, atol) if _is_inexact(wanted.dtype) else np.asarray(got != wanted)
    if wrong.any():
        index = tuple(int(i) for i in np.argwhere(wrong)[0])
        text = "%s: %d of %d elements are wrong, first at %s: expected %r, got %r"
        raise Mismatch(text % (name, wrong.sum(), wrong.size, index, wanted[index], got[index]))


def _far_elements(got: np.ndarray, wanted: np.ndarray, rtol: float, atol: float) -> np.ndarray:
    """Return an array of bools: whether each element is outside of the tolerance. NaN agrees with NaN."""
    wide = np.complex128 if wanted.dtype.kind == "c" else np.float64
    ours, theirs = got.astype(wide), wanted.astype(wide)
    close: np.ndarray = np.isclose(ours, theirs, rtol=rtol, atol=atol, equal_nan=True)
    return ~close


def _is_inexact(dtype: Any) -> bool:
    """Whether a dtype is floating-point or complex. The small floats of ml_dtypes have kind "V", so their names decide."""
    return dtype.kind in "fc" or "float" in dtype.name


def _describe(value: Any) -> str:
    """Return the kind of a value as text: `float32[2, 3]` for an array, "a list of 2 values", "nothing" for None."""
    if isinstance(value, np.ndarray):
        return "%s%s" % (value.dtype, list(value.shape))
    if isinstance(value, dict):
        return "a map of %s" % sorted(value)
    if isinstance(value, (list, tuple)):
        return "a %s of %d values" % (type(value).__name__, len(value))
    return "nothing" if value is None else type(value).__name__
