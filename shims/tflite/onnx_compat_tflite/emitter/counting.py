"""Tensors that count: ranges of numbers, and the coordinates along an axis."""

from typing import Optional, Union

import numpy as np

from onnx_compat_tflite.emitter import casting, division, elementwise, extremes, narrowing
from onnx_compat_tflite.emitter.builder import Builder
from onnx_compat_tflite.emitter.int32_range import may_overflow
from onnx_compat_tflite.emitter.registry import primitive
from onnx_compat_tflite.subgraph_builder import Handle

__all__ = ["arange", "count_to", "grid"]


@primitive
def arange(builder: Builder, start: Handle, stop: Handle, step: Handle) -> Handle:
    """Return start, start + step, ... up to `stop`, exclusive, in start's dtype. All three operands have this dtype.

    The result is empty if the step leads away from `stop`. The elements are counted in int32, then multiplied by the
    step: the kernel RANGE adds the step repeatedly, so that rounding errors grow.
    """
    distance = stop if _is_number(start, 0) else elementwise.sub(builder, stop, start)
    if np.dtype(start.dtype).kind == "f":
        steps = elementwise.ceil(builder, division.div(builder, distance, step))
    else:
        steps = distance if _is_number(step, 1) else _ceiled_quotient(builder, distance, step)
    if may_overflow(steps):
        count = narrowing.narrow_checked(builder, extremes.maximum(builder, builder.like(steps, 0), steps))
    else:
        count = casting.to(builder, steps, "int32")
        count = count if count.is_constant else extremes.maximum(builder, builder.like(count, 0), count)
    indices = casting.to(builder, count_to(builder, count), start.dtype)
    scaled = indices if _is_number(step, 1) else elementwise.mul(builder, indices, step)
    return scaled if _is_number(start, 0) else elementwise.add(builder, scaled, start)


def _ceiled_quotient(builder: Builder, x: Handle, y: Handle) -> Handle:
    """Return the quotient x / y of integers, rounded up: -floor(-x / y)."""
    return elementwise.neg(builder, division.floordiv(builder, elementwise.neg(builder, x), y))


def count_to(builder: Builder, length: Union[int, Handle]) -> Handle:
    """Return 0, 1, ..., length - 1 in int32: a constant for a known length (empty if it is negative), else by RANGE."""
    if isinstance(length, int):
        return Handle.of(np.arange(length, dtype=np.int32))
    if length.is_constant:
        return Handle.of(np.arange(max(int(length.array), 0), dtype=np.int32))
    zero, unit = (Handle.of(np.asarray(number, np.int32)) for number in (0, 1))
    return builder.add_op("RANGE", [zero, length, unit], "int32", (None,))


def grid(builder: Builder, x: Handle, axis: int, rank: Optional[int] = None) -> Handle:
    """Return the positions 0, 1, 2, ... along `axis` of x, in int32, with length 1 along all other axes.

    Example: for x of shape (2, 3), axis 1 gives [[0, 1, 2]]. `axis` is not negative.

    `rank` is the rank of the result, by default the rank of x; the positions are along the axis `axis` of the result.
    If the size of x along `axis` is known, the result is a constant.
    """
    length = builder.dim(x, axis)
    shape = [1] * (x.rank if rank is None else rank)
    if isinstance(length, int):
        shape[axis] = length
        return Handle.of(np.arange(length, dtype=np.int32).reshape(shape))
    shape[axis] = -1
    dims = [None if size < 0 else size for size in shape]
    return builder.add_op("RESHAPE", [count_to(builder, length), builder.ints(*shape)], "int32", dims)


def _is_number(x: Handle, number: int) -> bool:
    """Whether x is a constant whose elements all equal the number."""
    return x.is_constant and bool((x.array == number).all())
