"""Reductions, and cumulative sums along an axis. Axes are physical, sorted and not negative."""

from typing import Any, Callable, Sequence

import numpy as np

from onnx_compat_tflite.emitter import casting, comparison, division, means, runtime_sizes
from onnx_compat_tflite.emitter.builder import Builder, Scalar
from onnx_compat_tflite.emitter.registry import primitive, register
from onnx_compat_tflite.emitter.widening import widen_for
from onnx_compat_tflite.subgraph_builder import Handle

__all__ = ["cumsum", "reduce_max", "reduce_mean", "reduce_min", "reduce_prod", "reduce_sum"]

#: dtype -> the result of reducing no elements.
Neutral = Callable[["np.dtype[Any]"], Scalar]
Reduction = Callable[[Builder, Handle, Sequence[int], bool], Handle]


def _reduction(builtin: str, neutral: Neutral) -> Reduction:
    """Return a function of (builder, x, axes, keepdims) that emits the reduction op `builtin`.

    For a static x without elements, the function returns a constant of the reduced shape, filled with the number
    `neutral(numpy dtype of x)`.
    """

    def emit(builder: Builder, x: Handle, axes: Sequence[int], keepdims: bool) -> Handle:
        if x.is_empty and x.is_static:
            return _fill_reduced(x, axes, keepdims, neutral(np.dtype(x.dtype)))
        return reduce(builder, x, axes, keepdims)

    @widen_for(builtin)
    def reduce(builder: Builder, x: Handle, axes: Sequence[int], keepdims: bool) -> Handle:
        return means.reduce_axes(builder, builtin, x, axes, keepdims)

    return emit


def _extreme(builtin: str, logical: str, neutral: Neutral) -> Reduction:
    """Return a function of (builder, x, axes, keepdims) that emits `builtin`, REDUCE_MAX or REDUCE_MIN.

    - For floats, a NaN gives NaN, and infinities are kept, also on runtimes whose kernels lose them.
    - For booleans, the function emits the op `logical` (REDUCE_ANY or REDUCE_ALL).
    - For a static x without elements, the function returns a constant of the reduced shape, filled with the number
      `neutral(numpy dtype of x)`.
    """
    reduce_elements = _reduction(builtin, neutral)

    def emit(builder: Builder, x: Handle, axes: Sequence[int], keepdims: bool) -> Handle:
        if x.dtype == "bool" and not (x.is_empty and x.is_static):
            return means.reduce_axes(builder, logical, x, axes, keepdims)
        result = reduce_elements(builder, x, axes, keepdims)
        if np.dtype(x.dtype).kind != "f" or (x.is_empty and x.is_static):
            return result
        # tflite-runtime 2.7 starts from the least (or greatest) finite number, so it returns that for infinities.
        if not (builder.kernels.quirks.keeps_infinite_extremes and builder.accepts(builtin, "float32", "none")):
            infinity = builder.like(x, neutral(np.dtype(x.dtype)))
            has_finite = means.reduce_axes(
                builder,
                "REDUCE_ANY",
                comparison.logical_not(builder, comparison.equal(builder, x, infinity)),
                axes,
                keepdims,
            )
            result = comparison.where(builder, has_finite, result, infinity)
        has_nan = means.reduce_axes(builder, "REDUCE_ANY", comparison.is_nan(builder, x), axes, keepdims)
        return comparison.where(builder, has_nan, builder.like(x, np.nan), result)

    return emit


def _least_value(kind: "np.dtype[Any]") -> Scalar:
    """Return the least value of a dtype: -inf for floats, False for booleans."""
    return -np.inf if kind.kind == "f" else False if kind.kind == "b" else np.iinfo(kind).min


def _greatest_value(kind: "np.dtype[Any]") -> Scalar:
    """Return the greatest value of a dtype: inf for floats, True for booleans."""
    return np.inf if kind.kind == "f" else True if kind.kind == "b" else np.iinfo(kind).max


reduce_sum = register("reduce_sum", _reduction("SUM", lambda kind: 0))
reduce_prod = register("reduce_prod", _reduction("REDUCE_PROD", lambda kind: 1))
reduce_max = register("reduce_max", _extreme("REDUCE_MAX", "REDUCE_ANY", _least_value))
reduce_min = register("reduce_min", _extreme("REDUCE_MIN", "REDUCE_ALL", _greatest_value))


def _fill_reduced(x: Handle, axes: Sequence[int], keepdims: bool, value: Scalar) -> Handle:
    """Return a constant of the reduced shape of a static x, filled with `value`: the reduction of no elements."""
    return Handle.of(np.full(means.reduced_dims(x.dims, axes, keepdims), value, x.dtype))


@primitive
def reduce_mean(builder: Builder, x: Handle, axes: Sequence[int], keepdims: bool) -> Handle:
    """Emit the mean along `axes`, in the dtype of x. With `keepdims`, the axes remain with length 1.

    The mean of integers is rounded towards zero. The mean of no elements is NaN for floats, and undefined for integers.
    """
    if np.dtype(x.dtype).kind == "f":
        return _mean(builder, x, axes, keepdims)
    total = reduce_sum(builder, casting.to(builder, x, "int64"), axes, keepdims)
    count = casting.to(builder, _count_elements(builder, x, axes), "int64")
    return casting.to(builder, division.div(builder, total, count), x.dtype)


def _mean(builder: Builder, x: Handle, axes: Sequence[int], keepdims: bool) -> Handle:
    if x.is_empty and x.is_static:
        return _fill_reduced(x, axes, keepdims, np.nan)
    return _float_mean(builder, x, axes, keepdims)


@widen_for("MEAN")
def _float_mean(builder: Builder, x: Handle, axes: Sequence[int], keepdims: bool) -> Handle:
    if builder.kernels.quirks.mean_keeps_nan:
        return means.reduce_axes(builder, "MEAN", x, axes, keepdims)
    count = casting.to(builder, _count_elements(builder, x, axes), x.dtype)
    return division.div(builder, reduce_sum(builder, x, axes, keepdims), count)


def _count_elements(builder: Builder, x: Handle, axes: Sequence[int]) -> Handle:
    """Return the product of the sizes of `axes` as an int32 scalar: a constant if all are known, 1 without axes."""
    count = runtime_sizes.scalar(builder, 1)
    for axis in axes:
        count = runtime_sizes.fold_op(builder, "MUL", count, runtime_sizes.scalar(builder, builder.dim(x, axis)))
    return count


@primitive
@widen_for("CUMSUM")
def cumsum(builder: Builder, x: Handle, axis: int, exclusive: bool, reverse: bool) -> Handle:
    """Emit the cumulative sum along an axis, in the shape of x.

    `exclusive`: an element is not part of its own sum: [1, 2, 3] -> [0, 1, 3]. `reverse`: the sums begin at the end of
    the axis: [1, 2, 3] -> [6, 5, 3].
    """
    axis_tensor = Handle.of(np.asarray(axis, np.int32))
    return builder.add_op("CUMSUM", [x, axis_tensor], x.dtype, x.dims, exclusive=exclusive, reverse=reverse)
