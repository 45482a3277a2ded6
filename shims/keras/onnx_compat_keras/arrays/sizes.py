"""Convert sizes to ints, for JAX and torch, whose shapes are static."""

from typing import Tuple

import numpy as np

from onnx_compat.shim import Sizes, UnsupportedError

__all__ = ["numbers"]


def numbers(sizes: Sizes) -> Tuple[int, ...]:
    """Return the sizes as a tuple of ints; raise UnsupportedError if a size is not available as an int."""
    values = sizes.scalars
    if not all(isinstance(value, (int, np.integer)) for value in values):
        raise UnsupportedError(
            "a size depends on values that are only known at run time, but the back end compiles it as a number",
            hint="the model runs step by step instead; fix the value that the size depends on to compile it",
        )
    return tuple(int(value) for value in values)
