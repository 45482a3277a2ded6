"""Emitter methods for the gather and sort primitives, on symbolic Keras tensors."""

import math
from typing import Any, List, Sequence, Tuple

import numpy as np

from onnx_compat.shim import Const, DType, Ref, Sizes, UnsupportedError, dtypes, is_equal
from onnx_compat_keras.framework_types import Handle, Scalar
from onnx_compat_keras.functional.base import Known
from onnx_compat_keras.functional.rounds import Rounds
from onnx_compat_keras.functional.shape import known_sizes
from onnx_compat_keras.functional.slicing import cut

__all__ = ["Indexing"]


class Indexing(Rounds):
    """Emitter methods for the primitives of `onnx_compat.primitives.indexing` that Keras computes exactly."""

    def take(self, x: Handle, indices: Handle, axis: int) -> Handle:
        if isinstance(x, Known) and not isinstance(indices, Known) and axis == 0 and x.ndim == 2 and x.array.size:
            rows, width = x.array.shape
            table = np.ascontiguousarray(x.array)
            if x.dtype.kind == "f" and self.has_weights:
                return self.layer(
                    "Embedding", indices, weights=[table], input_dim=rows, output_dim=width,
                    embeddings_initializer="zeros",
                )  # fmt: skip
        if isinstance(indices, Known) and not isinstance(x, Known):
            return self._take_known(x, indices.array, axis)
        return self.ops.take(self.tensor(x), self.tensor(indices), axis=axis)

    def _take_known(self, x: Handle, positions: np.ndarray, axis: int) -> Handle:
        if positions.ndim == 0:
            return cut(self.ops, x, (slice(None),) * axis + (int(positions),))
        positions = positions.astype(np.int32) if abs(positions).max(initial=0) < 2**31 else positions
        return self.ops.take(x, self.operand(Known(positions, DType.of(positions.dtype))), axis=axis)

    def take_along(self, x: Handle, indices: Handle, axis: int) -> Handle:
        x, indices = self.tensor(x), self.tensor(indices)
        specs = [arg.spec for arg in self.node.args if isinstance(arg, (Ref, Const))]
        for k, (whole, part) in enumerate(zip(*(spec.shape for spec in specs))):
            if k != axis and not is_equal(whole, part):  # the indices may be shorter than x
                x = self.ops.take(x, self.positions(self.dim(indices, k)), axis=k)
        return self.ops.take_along_axis(x, indices, axis=axis)

    def gather_nd(self, x: Handle, indices: Handle, batch_dims: int = 0) -> Handle:
        x, indices = self.tensor(x), self.tensor(indices)
        depth = _known_depth(indices)
        if depth == 1 and not batch_dims:
            return self.ops.take(x, self.ops.squeeze(indices, axis=-1), axis=0)
        sizes = [self.dim(x, axis) for axis in range(len(x.shape))]
        lead, rest = sizes[: batch_dims + depth], sizes[batch_dims + depth :]
        rows = self._rows(indices, lead[batch_dims:])
        for axis in range(batch_dims):
            rows = self.plus(rows, self._batch_offset(indices, axis, lead))
        if all(isinstance(size, int) for size in rest) and 0 not in rest:
            return self.ops.take(self.ops.reshape(x, (-1, *rest)), rows, axis=0)
        return self.ops.take(self.ops.reshape(x, (-1,)), self._elements(rows, rest), axis=0)

    def _rows(self, indices: Handle, sizes: Sequence[Scalar]) -> Handle:
        """Return the int32 row-major positions, in an array of the shape `sizes`, of the coordinates in `indices`.

        The coordinates are along the last axis of `indices`, which the result lacks. If `sizes` is empty, all positions
        are 0.
        """
        ops = self.unchecked_ops
        if not sizes:
            return ops.cast(ops.sum(indices, axis=-1), "int32")
        rows: Any = None
        for k, size in enumerate(sizes):
            column = ops.cast(cut(ops, indices, (*[slice(None)] * (len(indices.shape) - 1), k)), "int32")
            rows = column if rows is None else self.plus(ops.multiply(rows, self.int32(size)), column)
        return rows

    def _batch_offset(self, indices: Handle, axis: int, lead: Sequence[Scalar]) -> Handle:
        """Return the offset of each index of the batch axis `axis`, to add to row numbers of shape indices.shape[:-1].

        The offset of index k is k times the product of `lead` after `axis`. `lead` has the sizes of the batch axes and
        of the indexed axes of the tensor. Example: axis 0, lead [2, 3] -> [0, 3].
        """
        ops = self.unchecked_ops
        offset = self.positions(self.dim(indices, axis))
        for size in lead[axis + 1 :]:
            offset = ops.multiply(offset, self.int32(size))
        return ops.reshape(offset, (-1, *[1] * (len(indices.shape) - 2 - axis)))

    def _elements(self, rows: Handle, rest: Sequence[Scalar]) -> Handle:
        """Return the positions of all elements of the rows with the numbers `rows`, in the flattened tensor.

        A row has the shape `rest`, and the result has the shape rows.shape + rest. Example: rows [2], rest [3] ->
        [[6, 7, 8]].
        """
        ops = self.unchecked_ops
        for size in rest:
            first = ops.multiply(ops.expand_dims(rows, -1), self.int32(size))
            rows = self.plus(first, self.positions(size))
        return rows

    def scatter_nd(self, x: Handle, indices: Handle, updates: Handle, reduction: str) -> Handle:
        x, indices, updates = self.tensor(x), self.tensor(indices), self.tensor(updates)
        depth = _known_depth(indices)
        if depth == 0:
            raise UnsupportedError("a Keras model does not scatter a whole tensor")
        rest = [-1 if size is None else size for size in x.shape[depth:]]
        if len(indices.shape) != 2:
            if -1 in rest:
                raise UnsupportedError("a Keras model does not scatter slices of unknown sizes")
            indices = self.ops.reshape(indices, (-1, depth))
            updates = self.ops.reshape(updates, (-1, *rest))
        indices = self.unchecked_ops.cast(indices, "int32")
        if self.back_end == "jax" and reduction == "none":
            updates = self._last_updates(x, indices, updates)
        options = {} if reduction == "none" else {"reduction": reduction}
        return self.ops.scatter_update(x, indices, updates, **options)

    def _last_updates(self, x: Handle, indices: Handle, updates: Handle) -> Handle:
        """Return a copy of `updates` in which each update is replaced by the last update of the same slice of x.

        JAX scatters in any order, so that equal indices need equal updates. Raises UnsupportedError if the size of an
        indexed axis is known only at run time.
        """
        ops, depth = self.unchecked_ops, int(indices.shape[-1])
        sizes = [self.dim(x, axis) for axis in range(depth)]
        if not all(isinstance(size, int) for size in sizes):
            raise UnsupportedError("a Keras model on JAX scatters in the order of the updates along known sizes only")
        rows = self._rows(indices, sizes)
        order = self.positions(self.dim(updates, 0))
        never = self.constant_tensor(Known(np.full(math.prod(sizes), -1, np.int32), dtypes.int32))
        last = ops.scatter_update(never, ops.expand_dims(rows, -1), order, reduction="max")
        return self.ops.take(updates, ops.take(last, rows, axis=0), axis=0)

    def nonzero(self, x: Handle) -> Handle:
        if self.back_end == "jax":
            raise UnsupportedError("Keras on JAX compiles fixed shapes: it has no count of elements that are not zero")
        self.check_dtypes()
        ops, x = self.unchecked_ops, self.tensor(x)
        marks = x if x.dtype == "bool" else ops.not_equal(x, 0)
        flat = ops.cast(self.nonzero_positions(ops.cast(ops.reshape(marks, (-1,)), "int32")), "int64")
        sizes = [self.dim(x, axis) for axis in range(len(x.shape))]
        columns: List[Handle] = []
        for axis in reversed(range(len(sizes))):
            size = sizes[axis] if isinstance(sizes[axis], int) else self.size_tensor(sizes[axis])
            size = max(size, 1) if isinstance(size, int) else ops.maximum(size, 1)
            columns.append(ops.mod(flat, size) if axis else flat)
            flat = ops.floor_divide(flat, size)
        if not columns:
            return cut(ops, ops.expand_dims(flat, 0), (slice(0, 0),))
        return ops.cast(ops.stack(columns[::-1]), "int64")

    def top_k(self, x: Handle, k: Sizes, axis: int, largest: bool = True) -> Tuple[Handle, Handle]:
        count = known_sizes(k)
        x = self.tensor(x)
        if count is not None and largest and axis == len(x.shape) - 1 and self.back_end != "torch":
            values, positions = self.ops.top_k(x, count[0])
            return values, self.unchecked_ops.cast(positions, "int64")
        self.check_dtypes()
        order = self._sorted_positions(x, axis, largest)
        if count is not None:
            order = cut(self.unchecked_ops, order, (*[slice(None)] * axis, slice(0, count[0])))
        else:
            order = self.unchecked_ops.take(order, self.positions(k.scalars[0]), axis=axis)
        return self.unchecked_ops.take_along_axis(x, order, axis=axis), self.unchecked_ops.cast(order, "int64")

    def _sorted_positions(self, x: Handle, axis: int, descending: bool) -> Handle:
        """Return the int32 positions that sort x along an axis, stably, in ascending or `descending` order.

        The sort of Keras is stable, and ascending: for the descending order, it sorts x reversed.
        """
        ops = self.unchecked_ops
        if not descending:
            return ops.cast(ops.argsort(x, axis=axis), "int32")
        last = self.int32(self.dim(x, axis))
        last = last - 1 if isinstance(last, int) else ops.subtract(last, 1)
        backwards = ops.cast(ops.argsort(ops.flip(x, axis), axis=axis), "int32")
        return ops.flip(ops.subtract(last, backwards), axis)

    def argmax(self, x: Handle, axis: int) -> Handle:
        return self._extreme_position("argmax", x, axis)

    def argmin(self, x: Handle, axis: int) -> Handle:
        return self._extreme_position("argmin", x, axis)

    def _extreme_position(self, name: str, x: Handle, axis: int) -> Handle:
        self.check_dtypes()  # only the position is int32, which every axis fits
        position = getattr(self.unchecked_ops, name)(self.tensor(x), axis=axis)
        return self.unchecked_ops.cast(position, "int64")

    def cumsum(self, x: Handle, axis: int, exclusive: bool = False, reverse: bool = False) -> Handle:
        if self.sums_in_float16():
            return self.through_float32(self.cumsum, x, axis=axis, exclusive=exclusive, reverse=reverse)
        x = self.tensor(x)
        total = self.ops.cumsum(self.ops.flip(x, axis) if reverse else x, axis=axis)
        if exclusive:  # a zero in front, and without the last sum
            before = [(int(k == axis), 0) for k in range(len(x.shape))]
            total = self.ops.pad(total, before, constant_values=0)
            total = cut(self.ops, total, (*[slice(None)] * axis, slice(0, -1)))
        return self.ops.flip(total, axis) if reverse else total


def _known_depth(indices: Handle) -> int:
    """Return the length of the last axis of `indices`. Raises UnsupportedError if it is known only at run time."""
    if indices.shape[-1] is None:
        raise UnsupportedError("a Keras model needs a known number of coordinates")
    return int(indices.shape[-1])
