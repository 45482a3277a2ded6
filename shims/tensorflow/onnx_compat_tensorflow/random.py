"""Random numbers."""

import struct
from typing import Any, Optional

from onnx_compat.shim import DType
from onnx_compat_tensorflow.base import Base
from onnx_compat_tensorflow.tensors import tf_dtype

__all__ = ["Random"]


class Random(Base):
    """The primitives of `onnx_compat.primitives.random`: stateless from a seed, or with TensorFlow's own new one."""

    def random_uniform(self, shape: Any, dtype: DType, seed: Optional[float]) -> Any:
        numbers = self._random("RandomUniform", shape, dtype, seed)
        if dtype.format is None:
            return numbers
        scale = self.number(2.0 ** (dtype.format.mantissa + 1), numbers.dtype)  # rounded down: never to one itself
        return self.op("RealDiv", self.op("Floor", self.op("Mul", numbers, scale)), scale)

    def random_normal(self, shape: Any, dtype: DType, seed: Optional[float]) -> Any:
        op = "RandomStandardNormal" if seed is None else "RandomNormal"
        return self._random(op, shape, dtype, seed)

    def _random(self, op: str, shape: Any, dtype: DType, seed: Optional[float]) -> Any:
        target = tf_dtype(self.tf, dtype)
        if seed is None:
            return getattr(self.raw, op)(shape=shape.tensor, dtype=target)
        low, high = struct.unpack("<ii", struct.pack("<d", seed))  # ONNX's seeds are floats: their bits are the seed
        return getattr(self.raw, "Stateless" + op)(shape=shape.tensor, seed=[low, high], dtype=target)
