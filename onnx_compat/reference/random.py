"""Random numbers."""

from typing import Any, Optional

import numpy as np

from onnx_compat.ir.dtypes import DType

__all__ = ["Random"]


class Random:
    """The primitives of `onnx_compat.primitives.random`."""

    def random_uniform(self, shape: Any, dtype: DType, seed: Optional[float]) -> Any:
        digits = np.finfo(dtype.numpy).nmant if dtype.format is None else dtype.format.mantissa
        scale = 2.0 ** (digits + 1)  # rounded down to what the dtype can tell apart below one: never one itself
        return (np.floor(_generator(seed).random(shape.known) * scale) / scale).astype(dtype.numpy)

    def random_normal(self, shape: Any, dtype: DType, seed: Optional[float]) -> Any:
        return _generator(seed).standard_normal(shape.known).astype(dtype.numpy)


def _generator(seed: Optional[float]) -> Any:
    """ONNX's seeds are floats: their bits are the seed."""
    return np.random.default_rng(None if seed is None else int(np.asarray(seed, np.float64).view(np.uint64)))
