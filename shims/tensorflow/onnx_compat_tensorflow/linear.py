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
        operands = [
            self._conjugate(operand) if flag else operand for operand, flag in ((x, transpose_x), (y, transpose_y))
        ]
        product = self.op("BatchMatMulV2", *operands, adj_x=transpose_x, adj_y=transpose_y)
        return self.add_bias(product, bias)

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
