"""Operators for which TensorFlow has a kernel that is faster than the composed meaning, and gives the same numbers."""

from typing import Any, Sequence

import numpy as np

from onnx_compat.shim import native
from onnx_compat_tensorflow.linear import Linear

__all__ = ["FastPaths"]

_ALPHA, _GAMMA = float(np.float32(1.67326319217681884765625)), float(np.float32(1.05070102214813232421875))


def _unit(_: Any, inputs: Sequence[Any], attributes: Any) -> bool:
    return bool(inputs[0].dtype.name == "float32" and attributes.get("alpha", 1.0) == 1.0)


def _selu(node: Any, inputs: Sequence[Any], attributes: Any) -> bool:
    """With the constants of the paper, which the kernel has in it."""
    alpha, gamma = (attributes.get(name) for name in ("alpha", "gamma"))
    paper = (alpha in (None, _ALPHA)) and (gamma in (None, _GAMMA))
    return inputs[0].dtype.name == "float32" and node.opset >= 6 and paper


def _matrices(_: Any, inputs: Sequence[Any], __: Any) -> bool:
    """Stacks of matrices; one zero point for all of A, one for all or for each column of B."""
    a, b, a_zero, b_zero = (*inputs, None, None)[:4]
    one = a_zero is None or all(size == 1 for size in a_zero.shape)
    return a.rank >= 2 and b.rank >= 2 and one and (b_zero is None or b_zero.rank <= 1)


def _square(_: Any, inputs: Sequence[Any], __: Any) -> bool:
    return inputs[0].dtype.name in ("float32", "float64")


class FastPaths(Linear):
    """Each declines what its kernel does otherwise."""

    @native("Elu", _unit)
    def elu(self, X: Any, **_: Any) -> Any:
        return self.raw.Elu(features=X)

    @native("Selu", _selu)
    def selu(self, X: Any, **_: Any) -> Any:
        return self.raw.Selu(features=X)

    @native("Det", _square)
    def det(self, X: Any) -> Any:
        return self.raw.MatrixDeterminant(input=X)

    @native("MatMulInteger", _matrices)
    def matmul_integer(self, A: Any, B: Any, a_zero_point: Any = None, b_zero_point: Any = None) -> Any:
        """In a float that holds every partial sum exactly."""
        depth = self.shape_list(A)[-1]
        wide = self.tf.float32 if depth is not None and depth * 255 * 255 < 1 << 24 else self.tf.float64
        if a_zero_point is not None:
            a_zero_point = self.raw.Reshape(tensor=a_zero_point, shape=self.vector([], self.tf.int32))
        a, b = (self._centred(*pair, wide) for pair in ((A, a_zero_point), (B, b_zero_point)))
        product = self.matmul(a, b)
        whole = product if wide == self.tf.float32 else self.raw.Cast(x=product, DstT=self.tf.int64)  # int32 wraps
        return self.raw.Cast(x=whole, DstT=self.tf.int32)

    def _centred(self, x: Any, zero_point: Any, dtype: Any) -> Any:
        x = self.raw.Cast(x=x, DstT=dtype)
        return x if zero_point is None else self.raw.Sub(x=x, y=self.raw.Cast(x=zero_point, DstT=dtype))
