"""Selecting, scattering and ordering. Coordinates become numbers of rows, so that there is one kind of gather."""

import math
from typing import Any, Sequence, Tuple

import numpy as np

from onnx_compat.shim import dtypes
from onnx_compat_keras.arrays.sizes import numbers

__all__ = ["Indexing"]


class Indexing:
    """The primitives of `onnx_compat.primitives.indexing`."""

    xp: Any
    node: Any
    array: Any
    like: Any
    wide: Any

    def take(self, x: Any, indices: Any, axis: int) -> Any:
        shape = tuple(x.shape[:axis]) + tuple(indices.shape) + tuple(x.shape[axis + 1 :])
        return self.xp.reshape(self.xp.take(x, self.xp.reshape(indices, (-1,)), axis), shape)

    def take_along(self, x: Any, indices: Any, axis: int) -> Any:
        key = tuple(slice(None) if k == axis else slice(int(size)) for k, size in enumerate(indices.shape))
        return self.xp.take_along_axis(x[key], indices, axis)

    def _rows(self, indices: Any, shape: Sequence[int]) -> Any:
        """Coordinates in an array of this shape, one a row, as row-major positions; all in one vector."""
        strides = [math.prod(shape[k + 1 :]) for k in range(len(shape))]
        if not shape:
            return self.array(np.zeros(math.prod(indices.shape[:-1]), np.int64), dtypes.int64)
        flat = self.xp.reshape(self.int64(indices), (-1, len(shape)))
        return self.xp.sum(flat * self.array(np.asarray([strides], np.int64), dtypes.int64), 1)

    def int64(self, indices: Any) -> Any:
        raise NotImplementedError

    def gather_nd(self, x: Any, indices: Any, batch_dims: int = 0) -> Any:
        sizes = [int(size) for size in x.shape]
        depth, batch = int(indices.shape[-1]), math.prod(sizes[:batch_dims])
        lead, rest = sizes[batch_dims : batch_dims + depth], sizes[batch_dims + depth :]
        rows = self._rows(indices, lead)
        if batch_dims:
            first = np.arange(batch, dtype=np.int64) * math.prod(lead)
            each = math.prod(int(size) for size in indices.shape[batch_dims:-1])
            rows = self.xp.add(rows, self.array(np.repeat(first, each), dtypes.int64))
        table = self.xp.reshape(x, (batch * math.prod(lead), *rest))
        return self.xp.reshape(self.xp.take(table, rows, 0), tuple(indices.shape[:-1]) + tuple(rest))

    def scatter_nd(self, x: Any, indices: Any, updates: Any, reduction: str) -> Any:
        sizes = [int(size) for size in x.shape]
        depth = int(indices.shape[-1])
        lead, width = sizes[:depth], math.prod(sizes[depth:])
        rows = self._rows(indices, lead)
        table = self.xp.reshape(x, (math.prod(lead), width))
        new = self.xp.reshape(updates, (int(rows.shape[0]), width))
        return self.xp.reshape(self.scattered(table, rows, new, reduction), tuple(sizes))

    def scattered(self, table: Any, rows: Any, new: Any, reduction: str) -> Any:
        """The table with its rows of these numbers replaced by, or combined with, new ones; of several, the last wins."""
        raise NotImplementedError

    def nonzero(self, x: Any) -> Any:
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

    def top_k(self, x: Any, k: Any, axis: int, largest: bool = True) -> Tuple[Any, Any]:
        (count,) = numbers(k)
        order = self.ordered(x, axis, largest)
        order = order[(slice(None),) * axis + (slice(count),)]
        return self.xp.take_along_axis(x, order, axis), order

    def ordered(self, x: Any, axis: int, descending: bool) -> Any:
        """The int64 indices that sort along an axis; equal elements stay in order, NaN counts as the largest."""
        raise NotImplementedError

    def cumsum(self, x: Any, axis: int, exclusive: bool = False, reverse: bool = False) -> Any:
        wide = self.wide(x)
        total = self.xp.cumsum(self.xp.flip(wide, (axis,)) if reverse else wide, axis, dtype=wide.dtype)
        if exclusive:
            before = (slice(None),) * axis
            zero = self.xp.zeros_like(total[(*before, slice(0, 1))])
            total = self.xp.concatenate([zero, total[(*before, slice(0, -1))]], axis)
        total = self.xp.astype(total, x.dtype)
        return self.xp.flip(total, (axis,)) if reverse else total
