"""The determinant."""

from typing import List

from onnx_compat import primitives as p
from onnx_compat.ir.dtypes import float32, int64
from onnx_compat.ops.arguments import product
from onnx_compat.ops.registry import op
from onnx_compat.tracing.values import Tensor, lift


@op("Det", since=(11, 22))
def det(X: Tensor) -> Tensor:
    """Return the determinant of each matrix (the last two axes), by Gaussian elimination with partial pivoting.

    A singular matrix gives 0, up to rounding; an empty matrix gives 1. float16 and bfloat16 are computed in float32,
    and cast back.
    """
    size, lead = X.shape[-1], X.shape[:-2]
    wide = p.cast(X, float32) if X.dtype.bits < float32.bits else X
    batch = product(lead)
    rows = p.unsqueeze(p.iota(size), [0])

    def has_columns(k: Tensor, *_: Tensor) -> Tensor:
        return p.less(k, lift(size, int64))

    def eliminate(k: Tensor, matrix: Tensor, determinant: Tensor) -> List[Tensor]:
        column = p.take(matrix, k, 2)
        pivot = p.unsqueeze(p.argmax(p.where(p.less(rows, k), -1.0, p.abs(column)), 1), [1])
        order = p.where(p.equal(rows, k), pivot, p.where(p.equal(rows, pivot), k, rows))
        matrix = p.take_along(matrix, p.broadcast_to(p.unsqueeze(order, [2]), (batch, size, size)), 1)
        row, column = p.take(matrix, k, 1), p.take(matrix, k, 2)
        top = p.take(row, k, 1)
        divisor = p.unsqueeze(p.where(p.equal(top, 0), 1.0, top), [1])  # a column of zeros needs no elimination
        factor = p.where(p.less(k, rows), p.div(column, divisor), 0.0)
        matrix = p.sub(matrix, p.mul(p.unsqueeze(factor, [2]), p.unsqueeze(row, [1])))
        sign = p.where(p.equal(p.squeeze(pivot, [1]), k), top, p.neg(top))
        return [k + 1, matrix, p.mul(determinant, sign)]

    start = [lift(0, int64), p.reshape(wide, (batch, size, size)), p.full((batch,), 1, wide.dtype)]
    determinant = p.while_loop(has_columns, eliminate, start)[2]
    return p.cast(p.reshape(determinant, lead), X.dtype)
