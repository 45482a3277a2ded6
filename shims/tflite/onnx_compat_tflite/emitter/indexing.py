"""Primitives that select and sort elements."""

from typing import Any, Optional, Sequence, Tuple

import numpy as np

from onnx_compat.shim import Sizes
from onnx_compat_tflite.emitter import narrowing
from onnx_compat_tflite.emitter.base import widen_for
from onnx_compat_tflite.emitter.padding import Padding
from onnx_compat_tflite.subgraph_builder import Handle

__all__ = ["Indexing"]


class Indexing(Padding):
    """Emit gathers, coordinates and sorting.

    Indices are computed in int32, since no tensor has more elements. An int64 index that may not fit stays int64, so
    that the kernel detects an index out of range.
    """

    def take(self, x: Handle, indices: Handle, axis: int) -> Handle:
        if indices.dtype not in ("int32", "int64"):
            indices = self.to(indices, "int32")
        if x.is_constant and not x.array.size:
            x = self.graph.copy(x)
        if x.dtype == "string":
            return self._take_text(x, indices, axis)
        return self.gather(x, indices, axis)

    def _take_text(self, x: Handle, indices: Handle, axis: int) -> Handle:
        """Gather strings by GATHER_ND, the only kernel for them: along the first axis."""
        if axis != 0:
            raise self.kernel_error("GATHER", x.dtype)
        return self._add_gather_nd(x, self._append_axis(indices), indices.dims + x.dims[1:])

    def _append_axis(self, x: Handle) -> Handle:
        """Append an axis of length 1."""
        if x.is_static:
            return self.reshape_to(x, (*x.dims, 1))
        last = Handle.of(np.asarray(x.rank, np.int32))
        return self.add_op("EXPAND_DIMS", [x, last], x.dtype, (*x.dims, 1))

    @widen_for("GATHER_ND")
    def _add_gather_nd(self, x: Handle, coordinates: Handle, dims: Sequence[Any]) -> Handle:
        return self.add_op("GATHER_ND", [x, coordinates], x.dtype, dims)

    def take_along(self, x: Handle, indices: Handle, axis: int) -> Handle:
        """Emit GatherElements: gather by flattened coordinates, or by GATHER_ND for strings."""
        indices = self._narrow_indices(indices)
        coordinates = [self.grid(indices, k) if k != axis else indices for k in range(x.rank)]
        if x.dtype == "string":
            same_dtype_coordinates = [self.to(c, indices.dtype) for c in coordinates]
            columns = [self.broadcast(c, self.shape_tensor(indices), indices.dims) for c in same_dtype_coordinates]
            dims = (*indices.dims, x.rank)
            coordinate_rows = self.add_op("PACK", columns, indices.dtype, dims, values_count=x.rank, axis=indices.rank)
            return self._add_gather_nd(x, coordinate_rows, indices.dims)
        flat_indices = self.flatten_coordinates(coordinates, x)
        return self.gather(self.flatten(x), flat_indices, 0)

    def _narrow_indices(self, indices: Handle) -> Handle:
        """Return indices as int32 where they provably fit, else unchanged."""
        return indices if narrowing.may_overflow(indices) else self.to(indices, "int32")

    def grid(self, x: Handle, axis: int, rank: Optional[int] = None) -> Handle:
        """Return 0, 1, 2, ... along an axis of x, in a shape that broadcasts to x, with axes of length 1 up to `rank`."""
        length = self.dim(x, axis)
        shape = [1] * (x.rank if rank is None else rank)
        if isinstance(length, int):
            shape[axis] = length
            return Handle.of(np.arange(length, dtype=np.int32).reshape(shape))
        shape[axis] = -1
        dims = [None if size < 0 else size for size in shape]
        return self.add_op("RESHAPE", [self.count_to(length), self.ints(*shape)], "int32", dims)

    def flatten(self, x: Handle) -> Handle:
        """Reshape x to a vector."""
        if x.is_static:
            return self.reshape_to(x, (int(np.prod(x.dims)),))
        return self.add_op("RESHAPE", [x, self.ints(-1)], x.dtype, (None,))

    def flatten_coordinates(self, coordinates: Sequence[Handle], x: Handle) -> Handle:
        """Return the row-major index of the elements at coordinates of the first axes of x."""
        total: Any = None
        for axis, coordinate in enumerate(coordinates):
            if total is not None:
                total = self._fold_op("MUL", total, self.scalar(self.dim(x, axis)))
            total = coordinate if total is None else self._fold_op("ADD", total, coordinate)
        return total if total is not None else Handle.of(np.zeros((), np.int32))

    def _fold_op(self, builtin: str, x: Handle, y: Handle) -> Handle:
        """Append ADD or MUL of two sizes, or fold it if both are known."""
        x, y = self.promote(x, y)
        if x.is_constant and y.is_constant:
            return Handle.of((x.array * y.array if builtin == "MUL" else x.array + y.array).astype(x.dtype))
        if builtin == "MUL" and y.is_constant and y.array.size == 1 and y.array == 1:
            return x
        return self.elementwise(builtin, [x, y])

    # -- coordinates -------------------------------------------------------------------------------------------------------
    def gather_nd(self, x: Handle, indices: Handle, batch_dims: int) -> Handle:
        depth = int(indices.dims[-1])
        dims = self.out.shape
        if depth == 0:
            return self._repeat_batch(x, indices, batch_dims, dims)
        if batch_dims:
            batch_columns = [
                self._coordinate_column(self.grid(indices, axis, indices.rank - 1), indices)
                for axis in range(batch_dims)
            ]
            last = self._narrow_indices(indices)
            parts = [*(self.to(column, last.dtype) for column in batch_columns), last]
            indices = self._concatenate(parts[0], parts[1:], indices.rank - 1)
        elif indices.dtype not in ("int32", "int64"):
            indices = self.to(indices, "int32")
        return self._add_gather_nd(x, indices, dims)

    def _coordinate_column(self, grid: Handle, indices: Handle) -> Handle:
        """Return a grid over the rows of `indices` as a column of coordinates."""
        dims = indices.dims[:-1]
        column = (*dims, 1)
        if all(isinstance(size, int) for size in dims):
            target = self.ints(*column)
        else:
            rows = self.slice_axis(self.shape_tensor(indices), 0, 0, indices.rank - 1)
            target = self._concatenate(rows, [self.ints(1)], 0)
        return self.broadcast(self._append_axis(grid), target, column)

    def _repeat_batch(self, x: Handle, indices: Handle, batch_dims: int, dims: Sequence[Any]) -> Handle:
        """Return all of x, or of its batch, for every empty row of coordinates."""
        if not all(isinstance(size, int) for size in dims) or not x.is_static:
            raise self.kernel_error("GATHER_ND", x.dtype, "no coordinates, unknown sizes")
        between = len(dims) - x.rank
        wide = x.dims[:batch_dims] + (1,) * between + x.dims[batch_dims:]
        return self.broadcast(self.reshape_to(x, wide), self.ints(*[int(size) for size in dims]), dims)

    def nonzero(self, x: Handle) -> Handle:
        if x.dtype != "bool":
            x = self.logical_not(self.equal(x, self.like(x, 0)))
        if x.rank == 0:
            count = self.to(self._add_where(self.reshape_to(x, (1,))), "int32")
            rows = self.slice_axis(self.shape_tensor(count), 0, 0, 1)
            target = self._concatenate(self.ints(0), [rows], 0)
            return self.broadcast(Handle.of(np.zeros((), np.int64)), target, (0, None))
        return self.transpose(self._add_where(x), (1, 0))

    def _add_where(self, x: Handle) -> Handle:
        return self.add_op("WHERE", [x], "int64", (None, x.rank))

    # -- order -------------------------------------------------------------------------------------------------------------
    def top_k(self, x: Handle, sizes: Sizes, axis: int, largest: bool) -> Tuple[Handle, ...]:
        (count,) = sizes.scalars
        # For a negative k, the kernel of LiteRT returns no elements. It refuses a k beyond the axis.
        k = narrowing.narrow_clamped(self, count) if isinstance(count, Handle) else self.scalar(count)
        last = x.rank - 1
        perm = [a for a in range(x.rank) if a != axis] + [axis]
        back = [perm.index(a) for a in range(x.rank)]
        transposed = self.transpose(x, perm) if axis != last else x
        values, indices = self.sort_last(transposed, k, largest)
        if axis != last:
            values, indices = self.transpose(values, back), self.transpose(indices, back)
        results = values, self.to(indices, "int64")
        for handle, ref in zip(results, self.node.outputs):
            self.refine(handle, ref.spec.shape)
        return results

    def sort_last(self, x: Handle, k: Handle, largest: bool = True) -> Tuple[Handle, Handle]:
        """Return the first k elements in order along the last axis, and their int32 indices. The sort is stable."""
        if not largest:
            values, indices = self.sort_last(self._reverse_order(x), k)
            return self._reverse_order(values), indices
        first: Tuple[Handle, Handle] = self._safe_top_k(x, k)
        return first

    @widen_for("TOPK_V2")
    def _safe_top_k(self, x: Handle, k: Handle) -> Any:
        """Append TOPK_V2; where k may be 0, sort one element at least and slice it off.

        The kernels from 2.11 to LiteRT 2.1.0 end the process for k = 0 of several rows.
        """
        if self.accepts("TOPK_V2", x.dtype, "none") or x.rank == 1 or (k.is_constant and k.array > 0):
            return self._add_top_k(x, k)
        if k.is_constant:
            values = self.slice_axis(x, x.rank - 1, 0, 0)
            zero = Handle.of(np.zeros((), np.int32))
            return values, self.add_op("FILL", [self.shape_tensor(values), zero], "int32", values.dims)
        size = self.stack([*[-1] * (x.rank - 1), k])
        parts = self._add_top_k(x, self.maximum(self.like(k, 1), k))
        return tuple(self._add_slice(part, self.ints(*[0] * x.rank), size, (*x.dims[:-1], None)) for part in parts)

    def _add_top_k(self, x: Handle, k: Handle) -> Tuple[Handle, ...]:
        dims = (*x.dims[:-1], int(k.array) if k.is_constant else None)
        return tuple(self.add_ops("TOPK_V2", [x, k], [(x.dtype, dims), ("int32", dims)]))

    def _reverse_order(self, x: Handle) -> Handle:
        """Return values in the opposite order. The function is its own inverse, and no integer overflows."""
        if np.dtype(x.dtype).kind == "f":
            return self.neg(x)
        last = np.iinfo(x.dtype).max if x.dtype.startswith("uint") else -1
        return self.sub(self.like(x, last), x)

    def argmax(self, x: Handle, axis: int) -> Handle:
        if x.dtype == "int64" or not self.accepts("ARG_MAX", "int32"):
            return self._arg_by_sorting(x, axis, True)
        return self._add_arg(x, axis, "ARG_MAX")

    def argmin(self, x: Handle, axis: int) -> Handle:
        return self._arg_by_sorting(x, axis, False) if x.dtype == "int64" else self._add_arg(x, axis, "ARG_MIN")

    def _add_arg(self, x: Handle, axis: int, builtin: str) -> Handle:
        if not self.accepts(builtin, x.dtype):
            return self._arg_in_wider_type(self.widen(x, builtin), axis, builtin)
        axis_tensor = Handle.of(np.asarray(axis, np.int32))
        dims = x.dims[:axis] + x.dims[axis + 1 :]
        return self.add_op(builtin, [x, axis_tensor], "int64", dims, output_type="int64")

    def _arg_in_wider_type(self, x: Handle, axis: int, builtin: str) -> Handle:
        return self.argmax(x, axis) if builtin == "ARG_MAX" else self.argmin(x, axis)

    def _arg_by_sorting(self, x: Handle, axis: int, largest: bool) -> Handle:
        """Return the index of the extreme element from a TOPK_V2 with k = 1."""
        perm = [a for a in range(x.rank) if a != axis] + [axis]
        transposed = self.transpose(x, perm)
        _, indices = self.sort_last(transposed, Handle.of(np.asarray(1, np.int32)), largest)
        first = self.add_op("SQUEEZE", [indices], "int32", indices.dims[:-1], squeeze_dims=[x.rank - 1])
        return self.to(first, "int64")

    @widen_for("CUMSUM")
    def cumsum(self, x: Handle, axis: int, exclusive: bool, reverse: bool) -> Handle:
        axis_tensor = Handle.of(np.asarray(axis, np.int32))
        return self.add_op("CUMSUM", [x, axis_tensor], x.dtype, x.dims, exclusive=exclusive, reverse=reverse)
