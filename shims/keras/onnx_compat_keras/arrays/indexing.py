"""Emitter methods for the gather, scatter and sort primitives, by functions of the namespace `xp` (JAX or torch).

gather_nd and scatter_nd reshape x to a table, and convert coordinates to row numbers of this table.
"""

import math
from typing import Any, Sequence, Tuple

import numpy as np

from onnx_compat.shim import Sizes, dtypes
from onnx_compat_keras.arrays.sizes import numbers
from onnx_compat_keras.framework_types import Array

__all__ = ["Indexing"]


class Indexing:
    """Emitter methods for the primitives of `onnx_compat.primitives.indexing`."""

    xp: Any
    node: Any
    array: Any
    like: Any
    widen: Any

    def take(self, x: Array, indices: Array, axis: int) -> Array:
        shape = tuple(x.shape[:axis]) + tuple(indices.shape) + tuple(x.shape[axis + 1 :])
        return self.xp.reshape(self.xp.take(x, self.xp.reshape(indices, (-1,)), axis), shape)

    def take_along(self, x: Array, indices: Array, axis: int) -> Array:
        key = tuple(slice(None) if k == axis else slice(int(size)) for k, size in enumerate(indices.shape))
        return self.xp.take_along_axis(x[key], indices, axis)

    def _rows(self, indices: Array, shape: Sequence[int]) -> Array:
        """Return an int64 vector: the row-major position of each coordinate vector in an array of the shape `shape`.

        The last axis of `indices` has the coordinates, which are not negative. Example: indices [[0, 2], [1, 0]] and
        shape [2, 3] -> [2, 3]. If `shape` is empty, all positions are zero.
        """
        strides = [math.prod(shape[k + 1 :]) for k in range(len(shape))]
        if not shape:
            return self.array(np.zeros(math.prod(indices.shape[:-1]), np.int64), dtypes.int64)
        flat = self.xp.reshape(self.int64(indices), (-1, len(shape)))
        return self.xp.sum(flat * self.array(np.asarray([strides], np.int64), dtypes.int64), 1)

    def int64(self, indices: Array) -> Array:
        """Return `indices` cast to int64."""
        raise NotImplementedError

    def gather_nd(self, x: Array, indices: Array, batch_dims: int = 0) -> Array:
        sizes = [int(size) for size in x.shape]
        depth, batch = int(indices.shape[-1]), math.prod(sizes[:batch_dims])
        lead, rest = sizes[batch_dims : batch_dims + depth], sizes[batch_dims + depth :]
        rows = self._rows(indices, lead)
        if batch_dims:
            first = np.arange(batch, dtype=np.int64) * math.prod(lead)
            repeats = math.prod(int(size) for size in indices.shape[batch_dims:-1])
            rows = self.xp.add(rows, self.array(np.repeat(first, repeats), dtypes.int64))
        table = self.xp.reshape(x, (batch * math.prod(lead), *rest))
        return self.xp.reshape(self.xp.take(table, rows, 0), tuple(indices.shape[:-1]) + tuple(rest))

    def scatter_nd(self, x: Array, indices: Array, updates: Array, reduction: str) -> Array:
        sizes = [int(size) for size in x.shape]
        depth = int(indices.shape[-1])
        lead, width = sizes[:depth], math.prod(sizes[depth:])
        rows = self._rows(indices, lead)
        table = self.xp.reshape(x, (math.prod(lead), width))
        new = self.xp.reshape(updates, (int(rows.shape[0]), width))
        return self.xp.reshape(self.scatter_rows(table, rows, new, reduction), tuple(sizes))

    def scatter_rows(self, table: Array, rows: Array, new: Array, reduction: str) -> Array:
        """Return a copy of the matrix `table`, in which row `rows[k]` is replaced by `new[k]` or combined with it.

        table: [n, width].
        rows: numbers from 0 to n - 1. A number may occur several times.
        new: [len(rows), width].
        reduction: "none" replaces a row by the last of its updates. "add", "mul", "max" and "min" combine a row with
            all its updates.
        """
        raise NotImplementedError

    def nonzero(self, x: Array) -> Array:
        flat = self.int64(self.xp.nonzero(self.xp.reshape(x, (-1,)))[0])
        if x.ndim == 0:
            return self.xp.reshape(flat, (1, -1))[:0]
        sizes = [int(size) for size in x.shape]
        strides = [math.prod(sizes[k + 1 :]) for k in range(len(sizes))]
        return self.xp.stack(
            [
                self.xp.remainder(
                    self.xp.floor_divide(flat, self.like(max(stride, 1), flat)), self.like(max(size, 1), flat)
                )
                for stride, size in zip(strides, sizes)
            ]
        )

    def top_k(self, x: Array, k: Sizes, axis: int, largest: bool = True) -> Tuple[Array, Array]:
        (count,) = numbers(k)
        order = self.argsort(x, axis, largest)
        order = order[(slice(None),) * axis + (slice(count),)]
        return self.xp.take_along_axis(x, order, axis), order

    def argsort(self, x: Array, axis: int, descending: bool) -> Array:
        """Return the int64 indices that sort x along an axis. The sort is stable.

        NaN counts as the largest element: it is last, or first with `descending`.
        """
        raise NotImplementedError

    def cumsum(self, x: Array, axis: int, exclusive: bool = False, reverse: bool = False) -> Array:
        wide = self.widen(x)
        total = self.xp.cumsum(self.xp.flip(wide, (axis,)) if reverse else wide, axis, dtype=wide.dtype)
        if exclusive:
            before = (slice(None),) * axis
            zero = self.xp.zeros_like(total[(*before, slice(0, 1))])
            total = self.xp.concatenate([zero, total[(*before, slice(0, -1))]], axis)
        total = self.xp.astype(total, x.dtype)
        return self.xp.flip(total, (axis,)) if reverse else total
