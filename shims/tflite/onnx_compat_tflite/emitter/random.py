"""Random numbers."""

import struct
from typing import Optional

import numpy as np

from onnx_compat.shim import DType, Sizes
from onnx_compat_tflite.emitter.control import Control
from onnx_compat_tflite.subgraph_builder import Handle

__all__ = ["Random"]


class Random(Control):
    """Emit random numbers. The kernels draw float32, and the result is cast: float16 is rounded, float64 has fewer
    digits.
    """

    def random_uniform(self, sizes: Sizes, dtype: DType, seed: Optional[float]) -> Handle:
        return self._add_random("RANDOM_UNIFORM", sizes, dtype, seed)

    def random_normal(self, sizes: Sizes, dtype: DType, seed: Optional[float]) -> Handle:
        return self._add_random("RANDOM_STANDARD_NORMAL", sizes, dtype, seed)

    def _add_random(self, builtin: str, sizes: Sizes, dtype: DType, seed: Optional[float]) -> Handle:
        """Append a random operator; without RANDOM_UNIFORM, map normal numbers to uniform numbers."""
        shape = self.ints(*sizes.known) if sizes.known is not None else sizes.tensor
        options = {} if seed is None else {"seed": _bits(seed), "seed2": 1}
        kernel = builtin if self.kernels.has(builtin) else "RANDOM_STANDARD_NORMAL"
        numbers = self.add_op(kernel, [shape], "float32", self.out.shape, **options)
        if kernel != builtin:
            numbers = self._normal_cdf(numbers)
        if dtype.name in ("float16", "bfloat16") and builtin == "RANDOM_UNIFORM":  # no number may round up to 1
            largest = 1 - 2.0 ** (-11 if dtype.name == "float16" else -8)
            numbers = self.minimum(Handle.of(np.float32(largest)), numbers)
        return self.to(numbers, dtype.numpy.name)

    def _normal_cdf(self, x: Handle) -> Handle:
        """Return the cumulative distribution function of the standard normal distribution, below 1.

        It maps normal numbers to uniform ones. A few numbers in ten million would round to 1.
        """
        probability = self.mul(
            self.add(self.erf(self.mul(x, self.like(x, 0.5**0.5))), self.like(x, 1)), self.like(x, 0.5)
        )
        return self.minimum(self.like(x, 1 - 2.0**-24), probability)


def _bits(seed: float) -> int:
    """Return the bits of a float32 seed as an integer."""
    return int(struct.unpack("<i", struct.pack("<f", seed))[0])
