"""Emitter methods for the random primitives, on TensorFlow tensors."""

import struct
from typing import Optional

from onnx_compat.shim import DType, Sizes
from onnx_compat_tensorflow.base import Base
from onnx_compat_tensorflow.framework_types import TfTensor
from onnx_compat_tensorflow.tensors import tf_dtype

__all__ = ["Random"]


class Random(Base):
    """Emitter methods for the primitives of `onnx_compat.primitives.random`.

    With a seed, each run draws the same numbers (stateless ops). With the seed None, each run draws different numbers.
    """

    def random_uniform(self, shape: Sizes, dtype: DType, seed: Optional[float]) -> TfTensor:
        numbers = self._random("RandomUniform", shape, dtype, seed)
        if dtype.format is None:
            return numbers
        scale = self.number(2.0 ** (dtype.format.mantissa + 1), numbers.dtype)  # rounded down: never up to 1
        return self.op("RealDiv", self.op("Floor", self.op("Mul", numbers, scale)), scale)

    def random_normal(self, shape: Sizes, dtype: DType, seed: Optional[float]) -> TfTensor:
        op = "RandomStandardNormal" if seed is None else "RandomNormal"
        return self._random(op, shape, dtype, seed)

    def _random(self, op: str, shape: Sizes, dtype: DType, seed: Optional[float]) -> TfTensor:
        target = tf_dtype(self.tf, dtype)
        if seed is None:
            return getattr(self.raw, op)(shape=shape.tensor, dtype=target)
        low, high = struct.unpack("<ii", struct.pack("<d", seed))  # ONNX has float seeds: the bits are the seed
        return getattr(self.raw, "Stateless" + op)(shape=shape.tensor, seed=[low, high], dtype=target)
