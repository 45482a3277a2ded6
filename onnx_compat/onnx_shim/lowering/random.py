"""Random numbers as ONNX operators.

With a seed, they are computed from their positions: onnxruntime would continue a sequence at each run.
"""

import math
from typing import Any, Optional, Sequence, Tuple

import numpy as np

from onnx_compat.ir import dtypes
from onnx_compat.ir.dtypes import DType
from onnx_compat.onnx_shim.graph_builder import Value
from onnx_compat.onnx_shim.lowering.control import ControlLowering
from onnx_compat.onnx_shim.lowering.shape import constant_of
from onnx_compat.primitives import elementwise as e
from onnx_compat.shim.emission import Sizes

__all__ = ["RandomLowering"]

_PRIME = 2**31 - 1  # products of two numbers below it are int64
#: What each round adds, besides its key.
_ADDENDS = (0, 1103515245, 12345679, 362436069, 521288629)


class RandomLowering(ControlLowering):
    """The primitives of `onnx_compat.primitives.random`.

    has_entropy: whether the graph has an input for a random number, from which numbers without a seed are computed.
        Otherwise an operator draws them.
    """

    has_entropy = False
    #: The number of times that numbers without a seed were drawn.
    draws = 0
    _entropy: Optional[Value] = None

    def entropy(self) -> Value:
        """Return the input for a random number, an int64 scalar."""
        if self._entropy is None:
            self._entropy = Value(dtypes.int64, (), preferred_name="entropy")
        return self._entropy

    def random_uniform(self, shape: Sizes, dtype: DType, seed: Optional[float]) -> Value:
        return self._draw(shape, dtype, seed, "RandomUniformLike", lambda uniform: uniform[0], 1)

    def random_normal(self, shape: Sizes, dtype: DType, seed: Optional[float]) -> Value:
        return self._draw(shape, dtype, seed, "RandomNormalLike", _normal, 2)

    def _draw(
        self, shape: Sizes, dtype: DType, seed: Optional[float], operator: str, combine: Any, count: int
    ) -> Value:
        carrier = DType.of(dtype.numpy)
        sizes = self.sizes_value(shape)
        if seed is None and not self.has_entropy:
            kind = dtypes.float32 if carrier is dtypes.float16 else carrier
            zeros = self.result("ConstantOfShape", [sizes], kind, shape.dims, value=constant_of(0, kind))
            numbers = self.result(operator, [zeros], kind, shape.dims, dtype=kind.onnx)
            return self._below_one(numbers, dtype) if count == 1 else self.convert(numbers, carrier)
        total = self.call("ReduceProd", [sizes], shape=(), keepdims=0) if None in _static(shape) else None
        size = self.scalar(int(np.prod(_static(shape), dtype=np.int64)), dtypes.int64) if total is None else total
        positions = self.iota(size)
        start = self.scalar(_start_of(seed), dtypes.int64) if seed is not None else self.entropy()
        self.draws += seed is None
        uniform = [
            self.compose(_hash, positions, start, self.scalar(k + 7 * self.draws, dtypes.int64)) for k in range(count)
        ]
        flat = self.compose(lambda *values: combine(values), *uniform)
        numbers = self.reshape(flat, shape)
        return self._below_one(numbers, dtype) if count == 1 else self.convert(numbers, carrier)

    def _below_one(self, numbers: Value, dtype: DType) -> Value:
        """Return numbers of [0, 1), rounded down to the spacing of `dtype` below 1, so that none becomes 1.

        The result has the carrier of `dtype`.
        """
        digits = np.finfo(dtype.numpy).nmant if dtype.format is None else dtype.format.mantissa
        scale = self.scalar(2.0 ** (digits + 1), numbers.dtype)
        return self.convert(self.div(self.floor(self.mul(numbers, scale)), scale), DType.of(dtype.numpy))


def _static(shape: Sizes) -> Tuple[Any, ...]:
    return tuple(size if isinstance(size, int) else None for size in shape.dims)


def _start_of(seed: float) -> int:
    return int(np.asarray(seed, np.float64).view(np.uint64)) % _PRIME


def _hash(positions: Any, start: Any, stream: Any) -> Any:
    """Return a number of [0, 1) in float64 for each position.

    - positions: int64 numbers that are not negative.
    - start: the seed, an int64 scalar.
    - stream: an int64 scalar that distinguishes draws with one seed.

    Each round adds a key, and raises to the fifth power modulo a prime, which permutes the numbers below the prime.
    """
    key: Any = ((start % _PRIME) * 48271 + stream * 69621 + 1) % _PRIME
    number: Any = positions % _PRIME
    for addend in _ADDENDS:
        number = (number + key + addend) % _PRIME
        square = (number * number) % _PRIME
        number = (square * square) % _PRIME * number % _PRIME
        key = (key * 16807 + addend) % _PRIME
    return e.cast(number, dtypes.float64) / float(_PRIME)


def _normal(uniform: Sequence[Any]) -> Any:
    """Return normally distributed numbers, by the Box-Muller transform of two tensors of numbers in [0, 1)."""
    radius: Any = e.sqrt(e.log(1 - uniform[0]) * -2)
    return radius * e.cos(uniform[1] * (2 * math.pi))
