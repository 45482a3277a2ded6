"""Products of matrices."""

from typing import Any

from onnx_compat_tensorflow.elementwise import Elementwise

__all__ = ["Linear"]


class Linear(Elementwise):
    """The matrix product; what slides windows has files of its own."""

    def matmul(self, x: Any, y: Any, bias: Any = None, transpose_x: bool = False, transpose_y: bool = False) -> Any:
        if self.rank(x) == 2 and self.rank(y) == 2:
            product = self.op("MatMul", x, y, transpose_a=transpose_x, transpose_b=transpose_y)
            return self.biased(product, bias, fused=bool(self.shape_list(y)[1 if transpose_y else 0]))
        if self.rank(y) == 2 and not transpose_x:
            return self._rows(x, y, bias, transpose_y)
        conjugate = [
            self._conjugated(operand) if flag else operand for operand, flag in ((x, transpose_x), (y, transpose_y))
        ]
        product = self.op("BatchMatMulV2", *conjugate, adj_x=transpose_x, adj_y=transpose_y)
        return self.biased(product, bias)

    def _rows(self, x: Any, y: Any, bias: Any, transpose_y: bool) -> Any:
        """A stack of matrices by one matrix is one product of all their rows."""
        depth = self.shape_list(y)[1 if transpose_y else 0]
        width = self.dim(y, 0 if transpose_y else 1)
        lead = self.lengths(x)[:-1]
        columns = self.lengths(x)[-1] if depth is None else depth
        some = isinstance(columns, int) and columns > 0
        count = -1 if some else self.raw.Prod(input=self.vector(lead), axis=[0])
        rows = self.raw.Reshape(tensor=x, shape=self.vector([count, columns]))
        product = self.biased(self.op("MatMul", rows, y, transpose_b=transpose_y), bias, fused=bool(depth))
        known = [length for length in lead if isinstance(length, int)]
        free = len(known) == len(lead) - 1 and isinstance(width, int) and width and all(known)
        lead = [length if isinstance(length, int) else -1 for length in lead] if free else lead
        return self.raw.Reshape(tensor=product, shape=self.vector([*lead, width]))

    def _conjugated(self, x: Any) -> Any:
        """The kernel's flags are of the adjoint: for complex numbers not the transpose."""
        return self.raw.Conj(input=x) if x.dtype.is_complex else x

    def biased(self, x: Any, bias: Any, fused: bool = True) -> Any:
        """With one number for each element of the last axis added. Not `fused` with a product over nothing: that may
        give zeros without a bias.
        """
        if bias is None:
            return x
        return self.op("BiasAdd" if fused and x.dtype.is_floating else "AddV2", x, bias)
