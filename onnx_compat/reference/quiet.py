"""Arithmetic without warnings: what a primitive gives for NaN, overflow or division by zero is its meaning."""

import functools
from typing import Any, Callable, TypeVar, cast

import numpy as np

__all__ = ["quiet", "widened"]

F = TypeVar("F", bound=Callable[..., Any])


def quiet(function: F) -> F:
    """The function with numpy's floating-point warnings off."""

    @functools.wraps(function)
    def silent(*args: Any, **kwargs: Any) -> Any:
        with np.errstate(all="ignore"):
            return function(*args, **kwargs)

    return cast(F, silent)


def widened(x: Any) -> Any:
    """float16 as float32, in which sums of it are made; anything else as it is."""
    return x.astype(np.float32) if x.dtype == np.float16 else x
