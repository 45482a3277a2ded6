"""Arithmetic without numpy's warnings: primitives define their results for NaN, overflow and division by zero."""

import functools
from typing import Any, Callable, TypeVar, cast

import numpy as np

from onnx_compat.reference.arrays import Array

__all__ = ["quiet", "widen"]

F = TypeVar("F", bound=Callable[..., Any])


def quiet(function: F) -> F:
    """Return a function that calls `function` with numpy's floating-point warnings off."""

    @functools.wraps(function)
    def silent(*args: Any, **kwargs: Any) -> Any:
        with np.errstate(all="ignore"):
            return function(*args, **kwargs)

    return cast(F, silent)


def widen(x: Array) -> Any:
    """Cast float16 to float32, so that sums are computed in float32. Return an array of another dtype unchanged."""
    return x.astype(np.float32) if x.dtype == np.float16 else x
