"""Sizes as the numbers that they must be where every shape is one."""

from typing import Any, Tuple

import numpy as np

from onnx_compat.shim import UnsupportedError

__all__ = ["numbers"]


def numbers(sizes: Any) -> Tuple[int, ...]:
    """A list of sizes as ints."""
    values = sizes.scalars
    if not all(isinstance(value, (int, np.integer)) for value in values):
        raise UnsupportedError(
            "a size depends on values that are only known when the model runs, and is compiled as a number",
            hint="the model runs step by step instead; or fix the value that the size comes from",
        )
    return tuple(int(value) for value in values)
