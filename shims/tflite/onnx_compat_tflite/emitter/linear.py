"""Matrix products."""

from typing import Any, List, Optional, Sequence, Tuple

import numpy as np

from onnx_compat_tflite.emitter.base import is_same_shape
from onnx_compat_tflite.emitter.broadcast import broadcast_dims
from onnx_compat_tflite.emitter.reduction import Reduction
from onnx_compat_tflite.subgraph_builder import Handle

__all__ = ["Linear"]


class Linear(Reduction):
    """Emit matrix products.

    A known matrix on the right becomes the weights of a FULLY_CONNECTED. Other float products become BATCH_MATMUL.
    Integers have no kernel: they are multiplied and summed.
    """

    def matmul(
        self, x: Handle, y: Handle, bias: Optional[Handle] = None, transpose_x: bool = False, transpose_y: bool = False
    ) -> Handle:
        if x.dtype == "float16":
            return self.call_in_float32(self.matmul, x, y, bias, transpose_x=transpose_x, transpose_y=transpose_y)
        if x.dtype != "float32":
            return self._add_bias(self._sum_products(x, y, transpose_x, transpose_y), bias)
        if y.is_constant and y.rank == 2 and not y.is_empty:
            left = self._swap_last_axes(x) if transpose_x else x
            return self._fully_connected(left, y if transpose_y else self._swap_last_axes(y), bias)
        return self._add_bias(self._batch_matmul(x, y, transpose_x, transpose_y), bias)

    def _swap_last_axes(self, x: Handle) -> Handle:
        """Swap the last two axes. A constant is transposed as a view."""
        last = x.rank - 1
        return self.transpose(x, [*range(last - 1), last, last - 1])

    def _add_bias(self, product: Handle, bias: Optional[Handle]) -> Handle:
        return product if bias is None else self.add(product, bias)

    def _fully_connected(self, x: Handle, weights: Handle, bias: Optional[Handle]) -> Handle:
        """Append FULLY_CONNECTED for weights [units, depth]."""
        dims = (*x.dims[:-1], weights.dims[0])
        if x.is_constant and not x.array.any() and bias is None and np.isfinite(weights.array).all():
            return Handle.of(np.zeros(dims, x.dtype))  # seen for the initial state of a recurrent network
        options = {"keep_num_dims": True} if x.rank > 2 else {}
        return self.add_op("FULLY_CONNECTED", [x, weights, bias], x.dtype, dims, **options)

    def _batch_matmul(self, x: Handle, y: Handle, transpose_x: bool, transpose_y: bool) -> Handle:
        """Append BATCH_MATMUL; merge the batch axes of a rank above 4."""
        rank = max(x.rank, y.rank)
        # The kernels give wrong results for a transposed x whose batch axes broadcast with those of y.
        if transpose_x and not is_same_shape(x.dims[:-2], y.dims[:-2]):
            x, transpose_x = self._swap_last_axes(x), False
        x, y = self._prepend_axes(x, rank), self._prepend_axes(y, rank)
        batch = broadcast_dims([x.dims[:-2], y.dims[:-2]])
        dims = (*batch, x.dims[-1 if transpose_x else -2], y.dims[-2 if transpose_y else -1])
        if (x.is_empty or y.is_empty) and all(isinstance(size, int) for size in dims):
            return Handle.of(np.zeros(dims, x.dtype))
        if rank > 4 and x.is_static and y.is_static:
            return self._matmul_merged(x, y, dims, transpose_x, transpose_y)
        if rank > 4:
            self.demand("BATCH_MATMUL", x.dtype, "broadcast rank %d" % rank)
        return self.add_op("BATCH_MATMUL", [x, y], x.dtype, dims, adj_x=transpose_x, adj_y=transpose_y)

    def _prepend_axes(self, x: Handle, rank: int) -> Handle:
        """Reshape x to a rank by axes of length 1 before its own."""
        if x.rank == rank:
            return x
        dims: Tuple[Any, ...] = (1,) * (rank - x.rank) + x.dims
        if x.is_static:
            return self.reshape_to(x, dims)
        if not x.is_empty and sum(not isinstance(size, int) for size in dims) == 1:
            shape = self.ints(*[size if isinstance(size, int) else -1 for size in dims])
        else:
            shape = self._concatenate(self.ints(*dims[: rank - x.rank]), [self.shape_tensor(x)], 0)
        return self.add_op("RESHAPE", [x, shape], x.dtype, dims)

    def _matmul_merged(self, x: Handle, y: Handle, dims: Sequence[int], transpose_x: bool, transpose_y: bool) -> Handle:
        """Multiply with all batch axes merged into a single axis."""
        count = int(np.prod(dims[:-2]))
        flat: List[Handle] = []
        for operand in (x, y):
            batched_dims = (*dims[:-2], *operand.dims[-2:])
            operand_in_shape = self.broadcast_known(operand, batched_dims)
            flat.append(self.reshape_to(operand_in_shape, (count, *operand.dims[-2:])))
        return self.reshape_to(self._batch_matmul(flat[0], flat[1], transpose_x, transpose_y), dims)

    def broadcast_known(self, x: Handle, sizes: Sequence[int]) -> Handle:
        """Broadcast x to known sizes."""
        if x.dims == tuple(sizes):
            return x
        return self._broadcast_merged(x, sizes) if len(sizes) > 6 else self.broadcast(x, self.ints(*sizes), sizes)

    def _sum_products(self, x: Handle, y: Handle, transpose_x: bool, transpose_y: bool) -> Handle:
        """Return the matrix product as the sum of elementwise products."""
        left = self._swap_last_axes(x) if transpose_x else x
        right = y if transpose_y else self._swap_last_axes(y)
        products = self.mul(self._insert_axis(left, -1), self._insert_axis(right, -2))
        return self.reduce_sum(products, [products.rank - 1], False)

    def _insert_axis(self, x: Handle, offset: int) -> Handle:
        """Insert an axis of length 1: before the last for -1, before the last two for -2, at the end for 0."""
        axis = x.rank + offset
        dims = x.dims[:axis] + (1,) + x.dims[axis:]
        if x.is_static:
            return self.reshape_to(x, dims)
        return self.add_op("EXPAND_DIMS", [x, Handle.of(np.asarray(axis, np.int32))], x.dtype, dims)
