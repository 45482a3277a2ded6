"""Products of matrices."""

from typing import Any

import numpy as np

from onnx_compat.reference.quiet import quiet, widened

__all__ = ["Linear", "product"]


class Linear:
    """The matrix product; the windows of `onnx_compat.primitives.linear` have a file of their own."""

    @quiet
    def matmul(self, x: Any, y: Any, bias: Any = None, transpose_x: bool = False, transpose_y: bool = False) -> Any:
        left = np.swapaxes(x, -1, -2) if transpose_x else x
        right = np.swapaxes(y, -1, -2) if transpose_y else y
        out = product(left, right)
        if bias is not None:
            out = out + widened(bias)
        return out.astype(x.dtype, copy=False)


def product(x: Any, y: Any) -> Any:
    """x @ y by the linear algebra library where it can be had: one call for a stack of rows, integers as float64 as
    long as that is exact. float16 gives float32.
    """
    if x.ndim > 2 and y.ndim == 2 and x.flags.c_contiguous:
        return product(x.reshape(int(np.prod(x.shape[:-1])), x.shape[-1]), y).reshape(x.shape[:-1] + y.shape[-1:])
    if x.dtype.kind in "iu":
        if x.shape[-1] * _magnitude(x) * _magnitude(y) < 2**53:
            exact = np.matmul(x.astype(np.float64), y.astype(np.float64))
            return exact.astype(np.int64).astype(x.dtype)
        return np.matmul(x, y)
    return np.matmul(widened(x), widened(y))


def _magnitude(x: Any) -> int:
    return max(abs(int(x.min())), abs(int(x.max()))) if x.size else 0
