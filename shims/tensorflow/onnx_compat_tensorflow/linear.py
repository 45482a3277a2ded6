"""Emitter methods for matrix products, on TensorFlow tensors."""

from typing import Optional

from onnx_compat_tensorflow.elementwise import Elementwise
from onnx_compat_tensorflow.framework_types import TfTensor

__all__ = ["Linear"]


class Linear(Elementwise):
    """Emitter method for the primitive `matmul`. Convolutions and pools are in `convolution` and `pooling`."""

    def matmul(
        self,
        x: TfTensor,
        y: TfTensor,
        bias: Optional[TfTensor] = None,
        transpose_x: bool = False,
        transpose_y: bool = False,
    ) -> TfTensor:
        if self.rank(x) == 2 and self.rank(y) == 2:
            product = self.op("MatMul", x, y, transpose_a=transpose_x, transpose_b=transpose_y)
            return self.add_bias(product, bias, fused=bool(self.shape_list(y)[1 if transpose_y else 0]))
        if self.rank(y) == 2 and not transpose_x:
            return self._rows(x, y, bias, transpose_y)
        rank = max(self.rank(x), self.rank(y))
        x, y = (
            self._with_rank(self._conjugate(operand) if flag else operand, rank)
            for operand, flag in ((x, transpose_x), (y, transpose_y))
        )
        return self.add_bias(self._multiply_batches(x, y, transpose_x, transpose_y), bias)

    def _multiply_batches(self, x: TfTensor, y: TfTensor, transpose_x: bool, transpose_y: bool) -> TfTensor:
        """Multiply stacks of matrices of one rank. `transpose_x`, `transpose_y`: whether the matrices are transposed.

        Batch axes of size 1 in both operands are removed from the operands and inserted into the product: with oneDNN,
        BatchMatMulV2 of TensorFlow 2.21 writes beyond the product if another batch axis is broadcast.
        """
        sizes = list(zip(self.shape_list(x), self.shape_list(y)))[:-2]
        single = [axis for axis, pair in enumerate(sizes) if pair == (1, 1)]
        if single:
            x, y = (self.raw.Squeeze(input=operand, axis=single) for operand in (x, y))
        product = self.op("BatchMatMulV2", x, y, adj_x=transpose_x, adj_y=transpose_y)
        for axis in single:
            product = self.raw.ExpandDims(input=product, axis=axis)
        return product

    def _with_rank(self, x: TfTensor, rank: int) -> TfTensor:
        """Return x with axes of size 1 before its own axes, so that it has the rank `rank`."""
        missing = rank - self.rank(x)
        return self.raw.Reshape(tensor=x, shape=self.vector([1] * missing + self.lengths(x))) if missing else x

    def _rows(self, x: TfTensor, y: TfTensor, bias: TfTensor, transpose_y: bool) -> TfTensor:
        """Multiply x by a matrix y: reshape x to the matrix of all its rows, multiply, add the bias, and reshape back.

        A bias of None adds nothing. `transpose_y`: True if y is [columns, depth], False if y is [depth, columns].
        """
        depth = self.shape_list(y)[1 if transpose_y else 0]
        width = self.dim(y, 0 if transpose_y else 1)
        lead = self.lengths(x)[:-1]
        columns = self.lengths(x)[-1] if depth is None else depth
        has_columns = isinstance(columns, int) and columns > 0
        count = -1 if has_columns else self.raw.Prod(input=self.vector(lead), axis=[0])
        rows = self.raw.Reshape(tensor=x, shape=self.vector([count, columns]))
        product = self.add_bias(self.op("MatMul", rows, y, transpose_b=transpose_y), bias, fused=bool(depth))
        known = [length for length in lead if isinstance(length, int)]
        has_wildcard = len(known) == len(lead) - 1 and isinstance(width, int) and width and all(known)
        lead = [length if isinstance(length, int) else -1 for length in lead] if has_wildcard else lead
        return self.raw.Reshape(tensor=product, shape=self.vector([*lead, width]))

    def _conjugate(self, x: TfTensor) -> TfTensor:
        """Return the conjugate of a complex operand; a real operand is returned unchanged.

        BatchMatMulV2 conjugates an operand that it transposes. The two conjugations cancel, so that the operand is only
        transposed.
        """
        return self.raw.Conj(input=x) if x.dtype.is_complex else x

    def add_bias(self, x: TfTensor, bias: TfTensor, fused: bool = True) -> TfTensor:
        """Add a bias of rank 1 along the last axis. Without a bias (None), return x itself.

        `fused`: use the op BiasAdd for floats; TensorFlow may fuse it with the op that computes x. Otherwise AddV2 is
        used. `fused` must be False after a MatMul over an axis that may be empty: the fused kernel would return zeros,
        without the bias.
        """
        if bias is None:
            return x
        return self.op("BiasAdd" if fused and x.dtype.is_floating else "AddV2", x, bias)
