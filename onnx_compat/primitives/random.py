"""Random numbers. With a seed, every run of a framework gives the same numbers; without a seed, each run differs."""

from typing import Optional, Sequence

from onnx_compat.ir import Extents
from onnx_compat.ir.dims import Extent
from onnx_compat.ir.dtypes import DType
from onnx_compat.primitives.base import apply_primitive, primitive
from onnx_compat.tracing.values import Tensor


@primitive("f")
def random_uniform(shape: Sequence[Extent], dtype: DType, seed: Optional[float] = None) -> Tensor:
    """A tensor of independent numbers from the uniform distribution over [0, 1).

    With a `seed`, each run of a framework gives the same numbers; another framework may give others. Without a seed,
    each run gives new numbers.
    """
    return _random("random_uniform", shape, dtype, seed)


@primitive("f")
def random_normal(shape: Sequence[Extent], dtype: DType, seed: Optional[float] = None) -> Tensor:
    """A tensor of independent numbers from the standard normal distribution.

    With a `seed`, each run of a framework gives the same numbers; another framework may give others. Without a seed,
    each run gives new numbers.
    """
    return _random("random_normal", shape, dtype, seed)


def _random(name: str, shape: Sequence[Extent], dtype: DType, seed: Optional[float]) -> Tensor:
    return apply_primitive(name, [Extents(shape)], {"dtype": dtype, "seed": seed})[0]
