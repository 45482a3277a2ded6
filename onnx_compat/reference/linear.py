"""Matrix products in numpy."""

from typing import Any, Optional

import numpy as np

from onnx_compat.reference.arrays import Array
from onnx_compat.reference.quiet import quiet, widen

__all__ = ["Linear", "product"]


class Linear:
    """The primitive matmul of `onnx_compat.primitives.linear` in numpy; `windows` has the convolutions and pools."""

    @quiet
    def matmul(
        self, x: Array, y: Array, bias: Optional[Array] = None, transpose_x: bool = False, transpose_y: bool = False
    ) -> Any:
        left = np.swapaxes(x, -1, -2) if transpose_x else x
        right = np.swapaxes(y, -1, -2) if transpose_y else y
        out = product(left, right)
        if bias is not None:
            out = out + widen(bias)
        return out.astype(x.dtype, copy=False)


def product(x: Array, y: Array) -> Any:
    """Return x @ y, computed by BLAS if possible. The result has the dtype of x and y, but float32 for float16.

    Integers are multiplied exactly, as float64, if no result can reach 2^53. Otherwise integers are multiplied in their
    own dtype, and wrap.
    """
    if x.ndim > 2 and y.ndim == 2 and x.flags.c_contiguous:
        return product(x.reshape(int(np.prod(x.shape[:-1])), x.shape[-1]), y).reshape(x.shape[:-1] + y.shape[-1:])
    if x.dtype.kind in "iu":
        if x.shape[-1] * _magnitude(x) * _magnitude(y) < 2**53:
            exact = np.matmul(x.astype(np.float64), y.astype(np.float64))
            return exact.astype(np.int64).astype(x.dtype)
        return np.matmul(x, y)
    return np.matmul(widen(x), widen(y))


def _magnitude(x: Array) -> int:
    return max(abs(int(x.min())), abs(int(x.max()))) if x.size else 0
