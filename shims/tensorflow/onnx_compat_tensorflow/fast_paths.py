"""Native operators with a single TensorFlow kernel: Elu, Selu, Det and MatMulInteger.

The kernel is faster than the composed meaning, and returns the same numbers.
"""

from typing import Any, Optional, Sequence

import numpy as np

from onnx_compat.shim import GraphNode, native
from onnx_compat_tensorflow.framework_types import Attributes, TfDType, TfTensor
from onnx_compat_tensorflow.linear import Linear

__all__ = ["FastPaths"]

_ALPHA, _GAMMA = float(np.float32(1.67326319217681884765625)), float(np.float32(1.05070102214813232421875))


def _is_unit_elu(_: object, inputs: Sequence[Any], attributes: Attributes) -> bool:
    return bool(inputs[0].dtype.name == "float32" and attributes.get("alpha", 1.0) == 1.0)


def _is_paper_selu(node: GraphNode, inputs: Sequence[Any], attributes: Attributes) -> bool:
    """Whether a float32 Selu of opset 6 or later has the default alpha and gamma, which the kernel has built in."""
    alpha, gamma = (attributes.get(name) for name in ("alpha", "gamma"))
    has_paper_constants = (alpha in (None, _ALPHA)) and (gamma in (None, _GAMMA))
    return inputs[0].dtype.name == "float32" and node.opset >= 6 and has_paper_constants


def _has_matrices(_: object, inputs: Sequence[Any], __: object) -> bool:
    """Whether `matmul_integer` accepts a MatMulInteger. All of these conditions must hold:

    - A and B have rank 2 or more.
    - The zero point of A is absent, or has a single element.
    - The zero point of B is absent, or has at most rank 1.
    """
    a, b, a_zero, b_zero = (*inputs, None, None)[:4]
    is_scalar = a_zero is None or all(size == 1 for size in a_zero.shape)
    return a.rank >= 2 and b.rank >= 2 and is_scalar and (b_zero is None or b_zero.rank <= 1)


def _is_float_matrix(_: object, inputs: Sequence[Any], __: object) -> bool:
    return inputs[0].dtype.name in ("float32", "float64")


class FastPaths(Linear):
    """Native methods of ONNX operators.

    The predicate of each @native accepts only nodes for which the kernel returns the numbers that ONNX defines.
    """

    @native("Elu", _is_unit_elu)
    def elu(self, X: TfTensor, **_: object) -> TfTensor:
        return self.raw.Elu(features=X)

    @native("Selu", _is_paper_selu)
    def selu(self, X: TfTensor, **_: object) -> TfTensor:
        return self.raw.Selu(features=X)

    @native("Det", _is_float_matrix)
    def det(self, X: TfTensor) -> TfTensor:
        return self.raw.MatrixDeterminant(input=X)

    @native("MatMulInteger", _has_matrices)
    def matmul_integer(
        self, A: TfTensor, B: TfTensor, a_zero_point: Optional[TfTensor] = None, b_zero_point: Optional[TfTensor] = None
    ) -> TfTensor:
        """Compute MatMulInteger as a float matrix product, in a dtype that represents each partial sum exactly.

        The dtype is float32 for a static depth of at most 258 (258 * 255**2 < 2**24), else float64. The result is
        int32: an overflow wraps. A zero point of None counts as 0.
        """
        depth = self.shape_list(A)[-1]
        wide = self.tf.float32 if depth is not None and depth * 255 * 255 < 1 << 24 else self.tf.float64
        if a_zero_point is not None:
            a_zero_point = self.raw.Reshape(tensor=a_zero_point, shape=self.vector([], self.tf.int32))
        a, b = (self._subtract_zero_point(*pair, wide) for pair in ((A, a_zero_point), (B, b_zero_point)))
        product = self.matmul(a, b)
        whole = product if wide == self.tf.float32 else self.raw.Cast(x=product, DstT=self.tf.int64)  # int32 wraps
        return self.raw.Cast(x=whole, DstT=self.tf.int32)

    def _subtract_zero_point(self, x: TfTensor, zero_point: TfTensor, dtype: TfDType) -> TfTensor:
        x = self.raw.Cast(x=x, DstT=dtype)
        return x if zero_point is None else self.raw.Sub(x=x, y=self.raw.Cast(x=zero_point, DstT=dtype))
