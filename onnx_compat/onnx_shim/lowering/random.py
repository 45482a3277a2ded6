"""Random numbers. With a seed, they are computed from their positions: onnxruntime would continue a sequence at each run."""

import math
from typing import Any, Optional, Sequence, Tuple

import numpy as np

from onnx_compat.ir import dtypes
from onnx_compat.ir.dtypes import DType
from onnx_compat.onnx_shim.graph_builder import Value
from onnx_compat.onnx_shim.lowering.control import Control
from onnx_compat.onnx_shim.lowering.shape import constant_of
from onnx_compat.primitives import elementwise as e
from onnx_compat.shim.emission import Sizes

__all__ = ["Random"]

_PRIME = 2**31 - 1  # products of two numbers below it are int64
_ROUNDS = 4


class Random(Control):
    """The primitives of `onnx_compat.primitives.random`."""

    def random_uniform(self, shape: Sizes, dtype: DType, seed: Optional[float]) -> Value:
        return self._drawn(shape, dtype, seed, "RandomUniformLike", lambda uniform: uniform[0], 1)

    def random_normal(self, shape: Sizes, dtype: DType, seed: Optional[float]) -> Value:
        return self._drawn(shape, dtype, seed, "RandomNormalLike", _normal, 2)

    def _drawn(
        self, shape: Sizes, dtype: DType, seed: Optional[float], operator: str, combine: Any, count: int
    ) -> Value:
        carrier = DType.of(dtype.numpy)
        sizes = self.sizes_value(shape)
        if seed is None:
            kind = dtypes.float32 if carrier is dtypes.float16 else carrier
            zeros = self.result("ConstantOfShape", [sizes], kind, shape.dims, value=constant_of(0, kind))
            numbers = self.result(operator, [zeros], kind, shape.dims, dtype=kind.onnx)
            return self._below_one(numbers, dtype) if count == 1 else self.convert(numbers, carrier)
        total = self.call("ReduceProd", [sizes], shape=(), keepdims=0) if None in _static(shape) else None
        size = self.scalar(int(np.prod(_static(shape), dtype=np.int64)), dtypes.int64) if total is None else total
        positions = self.iota(size)
        number = int(np.asarray(seed, np.float64).view(np.uint64))
        uniform = [self.compose(lambda x, k=k: _hash(x, number + k * 0x9E3779B9), positions) for k in range(count)]
        flat = self.compose(lambda *values: combine(values), *uniform)
        numbers = self.reshape(flat, shape)
        return self._below_one(numbers, dtype) if count == 1 else self.convert(numbers, carrier)

    def _below_one(self, numbers: Value, dtype: DType) -> Value:
        """Round numbers of [0, 1) down to the spacing of a dtype below 1, so that none becomes 1."""
        digits = np.finfo(dtype.numpy).nmant if dtype.format is None else dtype.format.mantissa
        scale = self.scalar(2.0 ** (digits + 1), numbers.dtype)
        return self.convert(self.div(self.floor(self.mul(numbers, scale)), scale), DType.of(dtype.numpy))


def _static(shape: Sizes) -> Tuple[Any, ...]:
    return tuple(size if isinstance(size, int) else None for size in shape.dims)


def _hash(positions: Any, seed: int) -> Any:
    """Return a number of [0, 1) in float64 for each position: rounds of a multiplication modulo a prime."""
    number: Any = positions + (seed % _PRIME + 1)
    generator = np.random.RandomState(seed % 2**32)
    for _ in range(_ROUNDS):
        factor, addend = (int(value) for value in generator.randint(2**29, _PRIME - 1, 2))
        number = (number % _PRIME) * factor + addend
        number = number + (number // 65537) % _PRIME
    return e.cast(number % _PRIME, dtypes.float64) / float(_PRIME)


def _normal(uniform: Sequence[Any]) -> Any:
    """Return normally distributed numbers: the transform of Box and Muller."""
    radius: Any = e.sqrt(e.log(1 - uniform[0]) * -2)
    return radius * e.cos(uniform[1] * (2 * math.pi))
