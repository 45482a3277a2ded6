"""Selecting, scattering and ordering elements."""

from typing import Any, Tuple

import numpy as np

from onnx_compat.errors import InvalidModelError
from onnx_compat.reference.quiet import quiet, widened

__all__ = ["Indexing"]

_COMBINED = {"add": np.add, "mul": np.multiply, "max": np.maximum, "min": np.minimum}


def _coordinates(x: Any, indices: Any, batch_dims: int) -> Tuple[Any, Tuple[Any, ...]]:
    """x, and an index of numpy's that selects its slices: one array for each leading axis."""
    if indices.shape[-1] == 0:  # every slice is all of x: the only element of an axis of length one
        x = np.expand_dims(x, batch_dims)
        indices = np.zeros((*indices.shape[:-1], 1), np.int64)
    lead = indices.ndim - 1
    grid = [
        np.arange(indices.shape[axis]).reshape([-1 if k == axis else 1 for k in range(lead)])
        for axis in range(batch_dims)
    ]
    return x, (*grid, *np.moveaxis(indices, -1, 0))


def _check(indices: Any, size: int) -> None:
    """Refuse an index that numpy would count from the end: the primitives count from the front."""
    if indices.size and not (indices.min() >= 0 and indices.max() < size):
        raise InvalidModelError("an index is out of range for an axis of length %d" % size)


def _check_rows(x: Any, indices: Any, batch_dims: int) -> None:
    for axis in range(indices.shape[-1]):
        _check(indices[..., axis], x.shape[batch_dims + axis])


class Indexing:
    """The primitives of `onnx_compat.primitives.indexing`."""

    def take(self, x: Any, indices: Any, axis: int) -> Any:
        _check(indices, x.shape[axis])
        return np.take(x, indices, axis)

    def take_along(self, x: Any, indices: Any, axis: int) -> Any:
        _check(indices, x.shape[axis])
        grid = np.ogrid[tuple(slice(size) for size in indices.shape)]
        return x[tuple(indices if k == axis else places for k, places in enumerate(grid))]

    def gather_nd(self, x: Any, indices: Any, batch_dims: int) -> Any:
        _check_rows(x, indices, batch_dims)
        x, coordinates = _coordinates(x, indices, batch_dims)
        return x[coordinates]

    @quiet
    def scatter_nd(self, x: Any, indices: Any, updates: Any, reduction: str) -> Any:
        _check_rows(x, indices, 0)
        out = np.array(x)
        target, coordinates = _coordinates(out, indices, 0)
        if reduction == "none":
            target[coordinates] = updates
        else:
            _COMBINED[reduction].at(target, coordinates, updates)
        return out

    def nonzero(self, x: Any) -> Any:
        if x.ndim == 0:
            return np.zeros((0, int(bool(x))), np.int64)
        return np.asarray(np.nonzero(x), np.int64)

    def top_k(self, x: Any, k: Any, axis: int, largest: bool) -> Any:
        (count,) = k.known
        if not 0 <= count <= x.shape[axis]:
            raise InvalidModelError("an axis of length %d has no %d elements to choose" % (x.shape[axis], count))
        ahead = tuple(slice(count) if n == axis else slice(None) for n in range(x.ndim))
        if largest:  # from the far end, so that a stable sort backwards has the lower index first
            order = x.shape[axis] - 1 - np.flip(np.argsort(np.flip(x, axis), axis, "stable"), axis)
        else:
            order = np.argsort(x, axis, "stable")
        order = order[ahead]
        return np.take_along_axis(x, order, axis), order.astype(np.int64)

    def argmax(self, x: Any, axis: int) -> Any:
        return np.argmax(x, axis).astype(np.int64)

    def argmin(self, x: Any, axis: int) -> Any:
        return np.argmin(x, axis).astype(np.int64)

    @quiet
    def cumsum(self, x: Any, axis: int, exclusive: bool, reverse: bool) -> Any:
        wide = widened(np.flip(x, axis) if reverse else x)
        total = np.cumsum(wide, axis, wide.dtype)
        if exclusive:
            first, rest = _cut(total, axis, 0, 1), _cut(total, axis, 0, -1)
            total = np.concatenate([np.zeros_like(first), rest], axis)
        total = total.astype(x.dtype, copy=False)
        return np.flip(total, axis) if reverse else total


def _cut(x: Any, axis: int, start: int, stop: int) -> Any:
    return x[(slice(None),) * axis + (slice(start, stop),)]
