"""Primitives that combine elements along axes."""

from typing import Any, Callable, List, Mapping, Sequence

import numpy as np

from onnx_compat_tflite.emitter.base import Scalar, widen_for
from onnx_compat_tflite.emitter.means import Means, reduced_dims
from onnx_compat_tflite.subgraph_builder import Handle

__all__ = ["Reduction"]

Method = Callable[..., Handle]
#: dtype -> the result of reducing no elements.
Neutral = Callable[["np.dtype[Any]"], Scalar]


def _reduction(builtin: str, neutral: Neutral) -> Method:
    """Return a method that emits a reduction; `neutral` gives the result of reducing no elements, for a dtype."""

    def method(self: "Reduction", x: Handle, axes: Sequence[int], keepdims: bool) -> Handle:
        if x.is_empty and x.is_static:
            return self.fill_reduced(x, axes, keepdims, neutral(np.dtype(x.dtype)))
        return reduce(self, x, axes, keepdims)

    @widen_for(builtin)
    def reduce(self: "Reduction", x: Handle, axes: Sequence[int], keepdims: bool) -> Handle:
        return self.reduce_axes(builtin, x, axes, keepdims)

    return method


def _extreme(builtin: str, logical: str, neutral: Neutral) -> Method:
    """Return a method that emits REDUCE_MAX or REDUCE_MIN and keeps NaN and infinity, which some kernels lose.

    For booleans the method emits `logical`.
    """
    reduce_elements = _reduction(builtin, neutral)

    def method(self: "Reduction", x: Handle, axes: Sequence[int], keepdims: bool) -> Handle:
        if x.dtype == "bool" and not (x.is_empty and x.is_static):
            return self.reduce_axes(logical, x, axes, keepdims)
        result = reduce_elements(self, x, axes, keepdims)
        if np.dtype(x.dtype).kind != "f" or (x.is_empty and x.is_static):
            return result
        # tflite-runtime 2.7 starts from the least (or greatest) finite number, so it returns that for infinities.
        if not (self.kernels.quirks.keeps_infinite_extremes and self.accepts(builtin, "float32", "none")):
            infinity = self.like(x, neutral(np.dtype(x.dtype)))
            has_finite = self.reduce_axes("REDUCE_ANY", self.logical_not(self.equal(x, infinity)), axes, keepdims)
            result = self.where(has_finite, result, infinity)
        has_nan = self.reduce_axes("REDUCE_ANY", self.is_nan(x), axes, keepdims)
        return self.where(has_nan, self.like(x, np.nan), result)

    return method


def _least_value(kind: "np.dtype[Any]") -> Scalar:
    """Return the least value of a dtype."""
    return -np.inf if kind.kind == "f" else False if kind.kind == "b" else np.iinfo(kind).min


def _greatest_value(kind: "np.dtype[Any]") -> Scalar:
    """Return the greatest value of a dtype."""
    return np.inf if kind.kind == "f" else True if kind.kind == "b" else np.iinfo(kind).max


class Reduction(Means):
    """Emit reductions. Axes are physical, sorted and not negative."""

    reduce_sum = _reduction("SUM", lambda kind: 0)
    reduce_prod = _reduction("REDUCE_PROD", lambda kind: 1)
    reduce_max = _extreme("REDUCE_MAX", "REDUCE_ANY", _least_value)
    reduce_min = _extreme("REDUCE_MIN", "REDUCE_ALL", _greatest_value)

    def fill_reduced(self, x: Handle, axes: Sequence[int], keepdims: bool, value: Scalar) -> Handle:
        """Return a constant of the reduced shape, for a reduction of no elements."""
        return Handle.of(np.full(reduced_dims(x.dims, axes, keepdims), value, x.dtype))

    def reduce_mean(self, x: Handle, axes: Sequence[int], keepdims: bool) -> Handle:
        if np.dtype(x.dtype).kind == "f":
            return self._mean(x, axes, keepdims)
        total = self.reduce_sum(self.to(x, "int64"), axes, keepdims)
        return self.to(self.div(total, self.to(self._count_elements(x, axes), "int64")), x.dtype)

    def _mean(self, x: Handle, axes: Sequence[int], keepdims: bool) -> Handle:
        if x.is_empty and x.is_static:
            return self.fill_reduced(x, axes, keepdims, np.nan)
        return self._float_mean(x, axes, keepdims)

    @widen_for("MEAN")
    def _float_mean(self, x: Handle, axes: Sequence[int], keepdims: bool) -> Handle:
        if self.kernels.quirks.mean_keeps_nan:
            return self.reduce_axes("MEAN", x, axes, keepdims)
        count = self.to(self._count_elements(x, axes), x.dtype)
        return self.div(self.reduce_sum(x, axes, keepdims), count)

    def _count_elements(self, x: Handle, axes: Sequence[int]) -> Handle:
        """Return the number of elements that are reduced to each element of the result, as a scalar."""
        count = self.scalar(1)
        for axis in axes:
            count = self._fold_op("MUL", count, self.scalar(self.dim(x, axis)))
        return count

    # -- along an axis -------------------------------------------------------------------------------------------------
    def softmax(self, x: Handle, axis: int) -> Handle:
        return self._apply_along(x, axis, "SOFTMAX", beta=1.0)

    def log_softmax(self, x: Handle, axis: int) -> Handle:
        return self._apply_along(x, axis, "LOG_SOFTMAX")

    def _apply_along(self, x: Handle, axis: int, builtin: str, **options: Any) -> Handle:
        """Append an operator that works along the last axis: other axes are transposed, and a rank above 5 is
        flattened.
        """
        last = x.rank - 1
        if x.is_empty:
            return x
        if x.rank > 5 and x.is_static and axis == last:
            flat = self.reshape_to(x, (int(np.prod(x.dims[:-1])), x.dims[-1]))
            return self.reshape_to(self._add_softmax(flat, builtin, options), x.dims)
        if axis == last:
            return self._add_softmax(x, builtin, options)
        perm: List[int] = list(range(x.rank))
        perm[axis], perm[last] = last, axis
        return self.transpose(self._add_softmax(self.transpose(x, perm), builtin, options), perm)

    def _add_softmax(self, x: Handle, builtin: str, options: Mapping[str, Any]) -> Handle:
        """Append SOFTMAX or LOG_SOFTMAX, in float32 for float16."""
        if x.dtype == "float16":
            return self.to(self._add_softmax(self.to(x, "float32"), builtin, options), "float16")
        self.demand(builtin, x.dtype)
        return self.add_op(builtin, [x], x.dtype, x.dims, **options)
