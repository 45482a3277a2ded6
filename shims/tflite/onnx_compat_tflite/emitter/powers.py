"""Powers: by the kernel for floats, by squaring for integers."""

from typing import Sequence

import numpy as np

from onnx_compat_tflite.emitter import (
    broadcasting,
    comparison,
    division,
    elementwise,
    extremes,
    loops,
    means,
    reshaping,
)
from onnx_compat_tflite.emitter.builder import Builder
from onnx_compat_tflite.emitter.known_shapes import broadcast_dims
from onnx_compat_tflite.emitter.registry import primitive
from onnx_compat_tflite.emitter.widening import widen_for
from onnx_compat_tflite.subgraph_builder import Handle

__all__ = ["pow"]


@primitive
def pow(builder: Builder, x: Handle, y: Handle) -> Handle:
    """Emit x to the power of y: by multiplications, by POW, or by squaring in a loop.

    - Multiplications: y is a constant of one element, its rank is at most that of x, and it is a whole number. This
      number is 1 to 64 for an integer x, and 1 to 3 for a float x. For 1, returns x.
    - Otherwise, for a float x: POW.
    - Otherwise, for an integer x: squaring in a loop. For y < 0, the result is 1 or -1 if x is 1 or -1, else 0.
    """
    exponent = y.array.reshape(-1)[0].item() if y.is_constant and y.array.size == 1 else None
    if x.rank < y.rank or exponent is None or not 0 < exponent <= 64 or exponent != int(exponent):
        return _integer_power(builder, x, y) if division.is_integer(x) else _power(builder, x, y)
    if division.is_integer(x) or exponent < 4:
        return _power_by_squaring(builder, x, int(exponent))
    return _power(builder, x, y)


@widen_for("POW")
def _power(builder: Builder, x: Handle, y: Handle) -> Handle:
    return broadcasting.add_op(builder, "POW", [x, y])


def _power_by_squaring(builder: Builder, x: Handle, exponent: int) -> Handle:
    """Emit x to the power of a known exponent of 1 or more, by squaring. For 1, return x."""
    if exponent == 1:
        return x
    half = _power_by_squaring(builder, x, exponent // 2)
    square = elementwise.mul(builder, half, half)
    return elementwise.mul(builder, square, x) if exponent % 2 else square


@widen_for("FLOOR_MOD", "MUL", "LESS")
def _integer_power(builder: Builder, x: Handle, y: Handle) -> Handle:
    """Emit x^y of integers of one dtype by squaring in a loop, until the remaining bits of all exponents are 0.

    Products wrap. For y < 0, the result is 1 or -1 if x is 1 or -1: (-1)^-3 = -1. For any other x, also 0, it is 0.
    """
    zero, unit = builder.like(x, 0), builder.like(x, 1)
    shape = broadcast_dims([x.dims, y.dims])

    def test(inner: Sequence[Handle], _: Sequence[Handle]) -> Handle:
        has_bits = comparison.less(builder, zero, inner[2])
        return means.reduce_axes(builder, "REDUCE_ANY", reshaping.flatten(builder, has_bits), [0], False)

    def body(inner: Sequence[Handle], _: Sequence[Handle]) -> Sequence[Handle]:
        total, base, exponent = inner
        odd = comparison.equal(builder, division.mod(builder, exponent, builder.like(x, 2)), unit)
        total = comparison.where(builder, odd, elementwise.mul(builder, total, base), total)
        return [total, elementwise.mul(builder, base, base), division.div(builder, exponent, builder.like(x, 2))]

    start = elementwise.add(builder, elementwise.mul(builder, x, zero), unit)
    start = elementwise.add(builder, start, elementwise.mul(builder, y, zero))
    base = elementwise.add(builder, x, elementwise.mul(builder, start, zero))
    exponent = elementwise.add(builder, y, elementwise.mul(builder, start, zero))
    state = [start, base, extremes.maximum(builder, zero, exponent)]
    power = loops.loop(builder, test, body, state, [], [shape] * 3)[0]
    is_even = comparison.equal(builder, division.mod(builder, y, builder.like(y, 2)), zero)
    power_of_unit = comparison.where(builder, is_even, unit, x)
    least = builder.like(x, -1 if np.dtype(x.dtype).kind == "i" else 0)  # clipped: x * x can wrap to 1
    clipped = extremes.minimum(builder, extremes.maximum(builder, x, least), unit)
    is_unit = comparison.equal(builder, elementwise.mul(builder, x, clipped), unit)
    is_negative = comparison.less(builder, y, zero)
    return comparison.where(builder, is_negative, comparison.where(builder, is_unit, power_of_unit, zero), power)
