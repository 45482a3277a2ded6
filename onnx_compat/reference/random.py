"""Random numbers by numpy's generator."""

from typing import Any, Optional

import numpy as np

from onnx_compat.ir.dtypes import DType
from onnx_compat.reference.arrays import SizesArg

__all__ = ["Random"]


class Random:
    """The primitives of `onnx_compat.primitives.random` in numpy."""

    def random_uniform(self, shape: SizesArg, dtype: DType, seed: Optional[float]) -> Any:
        digits = np.finfo(dtype.numpy).nmant if dtype.format is None else dtype.format.mantissa
        scale = 2.0 ** (digits + 1)  # rounds down to the spacing of the dtype below 1, so that no number becomes 1
        return (np.floor(_generator(seed).random(shape.known) * scale) / scale).astype(dtype.numpy)

    def random_normal(self, shape: SizesArg, dtype: DType, seed: Optional[float]) -> Any:
        return _generator(seed).standard_normal(shape.known).astype(dtype.numpy)


def _generator(seed: Optional[float]) -> Any:
    """Return a numpy generator for a seed of ONNX, a float. A seed of None gives a random seed.

    The bits of the seed as float64 are the seed of the generator.
    """
    return np.random.default_rng(None if seed is None else int(np.asarray(seed, np.float64).view(np.uint64)))
