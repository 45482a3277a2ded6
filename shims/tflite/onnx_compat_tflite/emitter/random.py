"""Random numbers."""

import struct
from typing import Any, Optional

import numpy as np

from onnx_compat.shim import DType
from onnx_compat_tflite.emitter.control import Control
from onnx_compat_tflite.subgraph_builder import Handle

__all__ = ["Random"]


class Random(Control):
    """The kernels draw float32, which holds a float16 drawn so, and is a float64 of fewer bits."""

    def random_uniform(self, sizes: Any, dtype: DType, seed: Optional[float]) -> Handle:
        return self._add_random("RANDOM_UNIFORM", sizes, dtype, seed)

    def random_normal(self, sizes: Any, dtype: DType, seed: Optional[float]) -> Handle:
        return self._add_random("RANDOM_STANDARD_NORMAL", sizes, dtype, seed)

    def _add_random(self, builtin: str, sizes: Any, dtype: DType, seed: Optional[float]) -> Handle:
        shape = self.ints(*sizes.known) if sizes.known is not None else sizes.tensor
        options = {} if seed is None else {"seed": _bits(seed), "seed2": 1}
        kernel = builtin if self.kernels.has(builtin) else "RANDOM_STANDARD_NORMAL"
        numbers = self.add_op(kernel, [shape], "float32", self.out.shape, **options)
        if kernel != builtin:
            numbers = self._normal_cdf(numbers)
        if dtype.name in ("float16", "bfloat16") and builtin == "RANDOM_UNIFORM":  # nothing is rounded up to 1
            below = 1 - 2.0 ** (-11 if dtype.name == "float16" else -8)
            numbers = self.minimum(Handle.of(np.float32(below)), numbers)
        return self.to(numbers, dtype.numpy.name)

    def _normal_cdf(self, x: Handle) -> Handle:
        """Of the standard normal distribution: uniform if x has that one. Some numbers in ten million would round to 1."""
        share = self.mul(self.add(self.erf(self.mul(x, self.like(x, 0.5**0.5))), self.like(x, 1)), self.like(x, 0.5))
        return self.minimum(self.like(x, 1 - 2.0**-24), share)


def _bits(seed: float) -> int:
    """A whole number for a seed that is a float."""
    return int(struct.unpack("<i", struct.pack("<f", seed))[0])
