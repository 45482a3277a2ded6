"""Primitives in numpy that select, scatter and sort elements."""

from typing import Any, Callable, Tuple

import numpy as np

from onnx_compat.errors import InvalidModelError, UnsupportedError
from onnx_compat.reference.arrays import Array, SizesArg
from onnx_compat.reference.quiet import quiet, widen

__all__ = ["Indexing"]

_UFUNCS = {"add": np.add, "mul": np.multiply, "max": np.maximum, "min": np.minimum}


def _coordinates(x: Array, indices: Array, batch_dims: int) -> Tuple[Any, Tuple[Any, ...]]:
    """Return (x, index) such that x[index] is the result of `gather_nd`. `index` is a tuple of arrays.

    Each vector along the last axis of `indices` is a coordinate. The first `batch_dims` axes of x and `indices` are
    batch axes. If coordinates have no entries, the returned x has a new axis of size 1 after the batch axes, with the
    index 0.
    """
    if indices.shape[-1] == 0:  # every slice is the whole of x: index 0 of a new axis of length one
        x = np.expand_dims(x, batch_dims)
        indices = np.zeros((*indices.shape[:-1], 1), np.int64)
    lead = indices.ndim - 1
    grid = [
        np.arange(indices.shape[axis]).reshape([-1 if k == axis else 1 for k in range(lead)])
        for axis in range(batch_dims)
    ]
    return x, (*grid, *np.moveaxis(indices, -1, 0))


def _check_range(indices: Array, size: int) -> None:
    """Raise InvalidModelError if an index is outside [0, size); an empty array is allowed.

    Numpy would count negative indices from the end.
    """
    if indices.size and not (indices.min() >= 0 and indices.max() < size):
        raise InvalidModelError("an index is out of range for an axis of length %d" % size)


def _check_rows(x: Array, indices: Array, batch_dims: int) -> None:
    for axis in range(indices.shape[-1]):
        _check_range(indices[..., axis], x.shape[batch_dims + axis])


def _index_of_extreme(function: Callable[[Array, int], Any], x: Array, axis: int) -> Any:
    """Return np.argmax or np.argmin (`function`) of x along an axis, as int64. Without elements, the result is empty.

    Raises UnsupportedError if the axis is empty and the result is not: in a branch that is not taken, it is no error.
    """
    shape = x.shape[:axis] + x.shape[axis + 1 :]
    if 0 in shape:
        return np.zeros(shape, np.int64)
    if not x.size:
        raise UnsupportedError("an axis of length 0 has no largest or smallest element")
    return function(x, axis).astype(np.int64)


class Indexing:
    """The primitives of `onnx_compat.primitives.indexing` in numpy."""

    def take(self, x: Array, indices: Array, axis: int) -> Any:
        _check_range(indices, x.shape[axis])
        return np.take(x, indices, axis)

    def take_along(self, x: Array, indices: Array, axis: int) -> Any:
        _check_range(indices, x.shape[axis])
        grid = np.ogrid[tuple(slice(size) for size in indices.shape)]
        return x[tuple(indices if k == axis else positions for k, positions in enumerate(grid))]

    def gather_nd(self, x: Array, indices: Array, batch_dims: int) -> Any:
        _check_rows(x, indices, batch_dims)
        x, coordinates = _coordinates(x, indices, batch_dims)
        return x[coordinates]

    @quiet
    def scatter_nd(self, x: Array, indices: Array, updates: Array, reduction: str) -> Any:
        _check_rows(x, indices, 0)
        out = np.array(x)
        target, coordinates = _coordinates(out, indices, 0)
        if reduction == "none":
            target[coordinates] = updates
        else:
            _UFUNCS[reduction].at(target, coordinates, updates)
        return out

    def nonzero(self, x: Array) -> Any:
        if x.ndim == 0:
            return np.zeros((0, int(bool(x))), np.int64)
        return np.asarray(np.nonzero(x), np.int64)

    def top_k(self, x: Array, k: SizesArg, axis: int, largest: bool) -> Any:
        (count,) = k.known
        if not 0 <= count <= x.shape[axis]:
            raise InvalidModelError("an axis of length %d has no %d elements to choose" % (x.shape[axis], count))
        ahead = tuple(slice(count) if n == axis else slice(None) for n in range(x.ndim))
        if largest:  # sort the reversed array, so that the reversed stable order has the lower index first
            order = x.shape[axis] - 1 - np.flip(np.argsort(np.flip(x, axis), axis, "stable"), axis)
        else:
            order = np.argsort(x, axis, "stable")
        order = order[ahead]
        return np.take_along_axis(x, order, axis), order.astype(np.int64)

    def argmax(self, x: Array, axis: int) -> Any:
        return _index_of_extreme(np.argmax, x, axis)

    def argmin(self, x: Array, axis: int) -> Any:
        return _index_of_extreme(np.argmin, x, axis)

    @quiet
    def cumsum(self, x: Array, axis: int, exclusive: bool, reverse: bool) -> Any:
        wide = widen(np.flip(x, axis) if reverse else x)
        total = np.cumsum(wide, axis, wide.dtype)
        if exclusive:
            first, rest = _slice_axis(total, axis, 0, 1), _slice_axis(total, axis, 0, -1)
            total = np.concatenate([np.zeros_like(first), rest], axis)
        total = total.astype(x.dtype, copy=False)
        return np.flip(total, axis) if reverse else total


def _slice_axis(x: Array, axis: int, start: int, stop: int) -> Any:
    return x[(slice(None),) * axis + (slice(start, stop),)]
