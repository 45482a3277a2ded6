"""Values that a converted file may compute otherwise: by the specification of ONNX, or by the limits in docs/usage.md."""

from __future__ import annotations

from typing import Any, Callable, List
from unittest import mock

import numpy as np

__all__ = ["has_open_values"]

_LARGEST = 1e18
"""Larger magnitudes overflow in products, and in kernels of a sigmoid."""


def has_open_values(run: Callable[[], Any]) -> bool:
    """Run a model on the reference, and return whether a value of the run has no certain result in a file.

    - NaN, infinity, or a magnitude above `_LARGEST`: the kernels of TFLite have limits
    - a float that is cast to an integer type which does not hold it: undefined in ONNX
    """
    from onnx_compat.reference import Reference

    apply, answers = Reference.apply, [False]

    def apply_and_check(emitter: Any, name: str, args: Any, params: Any) -> Any:
        results = apply(emitter, name, args, params)
        values = [*args, *(results if isinstance(results, (tuple, list)) else [results])]
        answers[0] |= any(_is_extreme(array) for array in _arrays(values))
        if name == "cast" and params["dtype"].kind in "iu":
            answers[0] |= any(_exceeds(array, params["dtype"]) for array in _arrays(args[:1]))
        return results

    with mock.patch.object(Reference, "apply", apply_and_check):
        run()
    return answers[0]


def _arrays(values: Any) -> List[Any]:
    """Return the values that are arrays of floats."""
    return [value for value in values if isinstance(value, np.ndarray) and value.dtype.kind == "f"]


def _is_extreme(array: Any) -> bool:
    """Whether an element of an array of floats is NaN, infinite, or above `_LARGEST` in magnitude."""
    with np.errstate(all="ignore"):
        return bool(array.size) and not bool((np.abs(array.astype(np.float64)) <= _LARGEST).all())


def _exceeds(array: Any, dtype: Any) -> bool:
    """Whether an element of an array of floats is NaN, or does not fit in an integer dtype after truncation."""
    bounds = np.trunc(array.astype(np.float64))
    return bool(array.size) and not bool(((bounds >= dtype.min) & (bounds <= dtype.max)).all())
