"""Matrix products: MatMul and Gemm."""

from typing import Any, Optional

from onnx_compat import primitives as p
from onnx_compat.ir.dims import Extent, is_equal, is_static
from onnx_compat.ops.older_versions import older_version
from onnx_compat.ops.registry import op
from onnx_compat.tracing.values import Tensor


@op("MatMul", since=(1, 9, 13))
def matmul(A: Tensor, B: Tensor) -> Tensor:
    """Return the matrix product as in numpy: leading axes broadcast.

    A vector A is a row [1, n], and a vector B a column [n, 1]. The result lacks the axis of size 1 that is added in
    this way. Raises InvalidModelError if the dtypes differ, or if the inner sizes are static and differ.
    """
    left = p.unsqueeze(A, [0]) if A.rank == 1 else A
    right = p.unsqueeze(B, [1]) if B.rank == 1 else B
    product = p.matmul(left, right)
    vector_axes = [-2] * (A.rank == 1) + [-1] * (B.rank == 1)
    return p.squeeze(product, vector_axes) if vector_axes else product


@op("Gemm", since=(7, 9, 11, 13))
def gemm(
    A: Tensor,
    B: Tensor,
    C: Optional[Tensor] = None,
    *,
    alpha: float = 1.0,
    beta: float = 1.0,
    transA: int = 0,
    transB: int = 0,
) -> Tensor:
    """Return alpha * A' @ B' + beta * C.

    A' is A, transposed if transA is nonzero. B' is B, transposed if transB is nonzero. C broadcasts to the product.
    Without C, or if beta is 0, nothing is added. Raises InvalidModelError if the dtypes of A and B differ, or if the
    inner sizes are static and differ.
    """
    if B.known or not A.known:
        B = B * alpha
    else:
        A = A * alpha
    summand = None if C is None or beta == 0 else C * beta
    bias = None if summand is None else _column_bias(summand, B.shape[0 if transB else 1])
    product = p.matmul(A, B, bias, bool(transA), bool(transB))
    return product if summand is None or bias is not None else p.add(product, summand)


op("Gemm", since=(1, 6))(older_version(gemm, ignored=["broadcast"]))


def _column_bias(summand: Tensor, columns: Extent) -> Any:
    """Return the summand of a matrix product as a bias [columns]; None if its shape is not that of a bias.

    The shape of a bias is [columns] or [1, …, 1, columns], where `columns` is static.
    """
    if summand.rank == 0 or any(not is_equal(extent, 1) for extent in summand.shape[:-1]):
        return None
    if not is_equal(summand.shape[-1], columns) or not is_static(columns):
        return None
    return p.reshape(summand, (columns,))
