"""Random numbers."""

import struct
from typing import Optional

import numpy as np

from onnx_compat.shim import DType, Sizes
from onnx_compat_tflite.emitter import casting, elementary_functions, elementwise, extremes
from onnx_compat_tflite.emitter.builder import Builder
from onnx_compat_tflite.emitter.registry import primitive
from onnx_compat_tflite.subgraph_builder import Handle

__all__ = ["random_normal", "random_uniform"]


@primitive
def random_uniform(builder: Builder, sizes: Sizes, dtype: DType, seed: Optional[float]) -> Handle:
    """Emit a tensor of these sizes with uniform random numbers from 0 to 1, without 1, as `dtype`.

    With a seed, every new interpreter draws the same sequence. With the seed None, each draws a different sequence.
    """
    return _add_random(builder, "RANDOM_UNIFORM", sizes, dtype, seed)


@primitive
def random_normal(builder: Builder, sizes: Sizes, dtype: DType, seed: Optional[float]) -> Handle:
    """Emit a tensor of these sizes with random numbers of the standard normal distribution, as `dtype`.

    With a seed, every new interpreter draws the same sequence. With the seed None, each draws a different sequence.
    """
    return _add_random(builder, "RANDOM_STANDARD_NORMAL", sizes, dtype, seed)


def _add_random(builder: Builder, builtin: str, sizes: Sizes, dtype: DType, seed: Optional[float]) -> Handle:
    """Append the random op `builtin` of float32, cast its result to `dtype`, and return the result.

    With the seed None, each interpreter draws other numbers.

    If the runtime lacks RANDOM_UNIFORM, uniform numbers are computed from normal numbers. Uniform float16 and bfloat16
    numbers are limited to the largest number of the dtype below 1.
    """
    shape = builder.ints(*sizes.known) if sizes.known is not None else sizes.tensor
    options = {} if seed is None else {"seed": _bits(seed), "seed2": 1}
    kernel = builtin if builder.kernels.has(builtin) else "RANDOM_STANDARD_NORMAL"
    numbers = builder.add_op(kernel, [shape], "float32", builder.out.shape, **options)
    if kernel != builtin:
        numbers = _normal_cdf(builder, numbers)
    if dtype.name in ("float16", "bfloat16") and builtin == "RANDOM_UNIFORM":  # no number may round up to 1
        largest = 1 - 2.0 ** (-11 if dtype.name == "float16" else -8)
        numbers = extremes.minimum(builder, Handle.of(np.float32(largest)), numbers)
    return casting.to(builder, numbers, dtype.numpy.name)


def _normal_cdf(builder: Builder, x: Handle) -> Handle:
    """Return the cumulative distribution function of the normal distribution at x: (1 + erf(x / sqrt(2))) / 2.

    The function maps standard normal numbers to uniform numbers. The result is limited to 1 - 2^-24, the largest
    float32 below 1.
    """
    error = elementary_functions.erf(builder, elementwise.mul(builder, x, builder.like(x, 0.5**0.5)))
    doubled = elementwise.add(builder, error, builder.like(x, 1))
    probability = elementwise.mul(builder, doubled, builder.like(x, 0.5))
    return extremes.minimum(builder, builder.like(x, 1 - 2.0**-24), probability)


def _bits(seed: float) -> int:
    """Round a seed to float32, and return the bits of the result as a signed 32-bit integer."""
    return int(struct.unpack("<i", struct.pack("<f", seed))[0])
