"""Products of matrices."""

from typing import Any, List, Optional, Sequence, Tuple

import numpy as np

from onnx_compat_tflite.emitter.base import equal_sizes
from onnx_compat_tflite.emitter.broadcast import joined
from onnx_compat_tflite.emitter.reduction import Reduction
from onnx_compat_tflite.subgraph_builder import Handle

__all__ = ["Linear"]


class Linear(Reduction):
    """A known matrix on the right is the weights of a FULLY_CONNECTED; other floats go to BATCH_MATMUL, and integers,
    for which there is no kernel, are multiplied and summed.
    """

    def matmul(
        self, x: Handle, y: Handle, bias: Optional[Handle] = None, transpose_x: bool = False, transpose_y: bool = False
    ) -> Handle:
        if x.dtype == "float16":
            return self.in_float32(self.matmul, x, y, bias, transpose_x=transpose_x, transpose_y=transpose_y)
        if x.dtype != "float32":
            return self._biased(self._summed(x, y, transpose_x, transpose_y), bias)
        if y.constant and y.rank == 2 and not y.empty:
            left = self._swapped(x) if transpose_x else x
            return self._connected(left, y if transpose_y else self._swapped(y), bias)
        return self._biased(self._batched(x, y, transpose_x, transpose_y), bias)

    def _swapped(self, x: Handle) -> Handle:
        """With the last two axes exchanged; a constant is only looked at otherwise."""
        last = x.rank - 1
        return self.transpose(x, [*range(last - 1), last, last - 1])

    def _biased(self, product: Handle, bias: Optional[Handle]) -> Handle:
        return product if bias is None else self.add(product, bias)

    def _connected(self, x: Handle, weights: Handle, bias: Optional[Handle]) -> Handle:
        dims = (*x.dims[:-1], weights.dims[0])
        if x.constant and not x.array.any() and bias is None and np.isfinite(weights.array).all():
            return Handle.of(np.zeros(dims, x.dtype))  # the state before the first step of a recurrent network
        options = {"keep_num_dims": True} if x.rank > 2 else {}
        return self.add_op("FULLY_CONNECTED", [x, weights, bias], x.dtype, dims, **options)

    def _batched(self, x: Handle, y: Handle, transpose_x: bool, transpose_y: bool) -> Handle:
        rank = max(x.rank, y.rank)
        # Kernels get a transposed x wrong that meets a y of fewer matrices.
        if transpose_x and not equal_sizes(x.dims[:-2], y.dims[:-2]):
            x, transpose_x = self._swapped(x), False
        x, y = self._raised(x, rank), self._raised(y, rank)
        batch = joined([x.dims[:-2], y.dims[:-2]])
        dims = (*batch, x.dims[-1 if transpose_x else -2], y.dims[-2 if transpose_y else -1])
        if (x.empty or y.empty) and all(isinstance(size, int) for size in dims):
            return Handle.of(np.zeros(dims, x.dtype))
        if rank > 4 and x.static and y.static:
            return self._merged_batch(x, y, dims, transpose_x, transpose_y)
        if rank > 4:
            self.demand("BATCH_MATMUL", x.dtype, "broadcast rank %d" % rank)
        return self.add_op("BATCH_MATMUL", [x, y], x.dtype, dims, adj_x=transpose_x, adj_y=transpose_y)

    def _raised(self, x: Handle, rank: int) -> Handle:
        """With axes of length one before, for `rank` in all."""
        if x.rank == rank:
            return x
        dims: Tuple[Any, ...] = (1,) * (rank - x.rank) + x.dims
        if x.static:
            return self.shaped(x, dims)
        if not x.empty and sum(not isinstance(size, int) for size in dims) == 1:
            shape = self.ints(*[size if isinstance(size, int) else -1 for size in dims])
        else:
            shape = self._joined(self.ints(*dims[: rank - x.rank]), [self.shape_tensor(x)], 0)
        return self.add_op("RESHAPE", [x, shape], x.dtype, dims)

    def _merged_batch(self, x: Handle, y: Handle, dims: Sequence[int], transpose_x: bool, transpose_y: bool) -> Handle:
        """All the leading axes as one."""
        count = int(np.prod(dims[:-2]))
        flat: List[Handle] = []
        for operand in (x, y):
            whole = (*dims[:-2], *operand.dims[-2:])
            spread = self.spread_known(operand, whole)
            flat.append(self.shaped(spread, (count, *operand.dims[-2:])))
        return self.shaped(self._batched(flat[0], flat[1], transpose_x, transpose_y), dims)

    def spread_known(self, x: Handle, sizes: Sequence[int]) -> Handle:
        if x.dims == tuple(sizes):
            return x
        return self._spread_in_groups(x, sizes) if len(sizes) > 6 else self.spread(x, self.ints(*sizes), sizes)

    def _summed(self, x: Handle, y: Handle, transpose_x: bool, transpose_y: bool) -> Handle:
        left = self._swapped(x) if transpose_x else x
        right = y if transpose_y else self._swapped(y)
        products = self.mul(self._with_axis(left, -1), self._with_axis(right, -2))
        return self.reduce_sum(products, [products.rank - 1], False)

    def _with_axis(self, x: Handle, before: int) -> Handle:
        """With an axis of length one before the last, or before the last two."""
        place = x.rank + before
        dims = x.dims[:place] + (1,) + x.dims[place:]
        if x.static:
            return self.shaped(x, dims)
        return self.add_op("EXPAND_DIMS", [x, Handle.of(np.asarray(place, np.int32))], x.dtype, dims)
