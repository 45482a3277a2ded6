"""Emitter methods for the reductions, on TensorFlow tensors."""

from typing import Sequence

from onnx_compat_tensorflow.elementwise import Elementwise
from onnx_compat_tensorflow.framework_types import TfTensor

__all__ = ["Reduction"]


class Reduction(Elementwise):
    """Emitter methods for the primitives of `onnx_compat.primitives.reduction`."""

    def _reduce(self, op: str, x: TfTensor, axes: Sequence[int], keepdims: bool) -> TfTensor:
        return self.op(op, x, axis=self.vector(axes, self.tf.int32), keep_dims=keepdims)

    def reduce_sum(self, x: TfTensor, axes: Sequence[int], keepdims: bool) -> TfTensor:
        return self._reduce("Sum", x, axes, keepdims)

    def reduce_prod(self, x: TfTensor, axes: Sequence[int], keepdims: bool) -> TfTensor:
        return self._reduce("Prod", x, axes, keepdims)

    def reduce_mean(self, x: TfTensor, axes: Sequence[int], keepdims: bool) -> TfTensor:
        if x.dtype.is_floating:
            return self._reduce("Mean", x, axes, keepdims)
        wide = self.tf.uint64 if x.dtype.is_unsigned else self.tf.int64
        total = self._reduce("Sum", self.raw.Cast(x=x, DstT=wide), axes, keepdims)
        counts = self.raw.GatherV2(params=self.sizes(x), indices=self.vector(axes), axis=0)
        count = self.raw.Cast(x=self.raw.Prod(input=counts, axis=[0]), DstT=wide)
        return self.raw.Cast(x=self.div(total, count), DstT=x.dtype)

    def reduce_max(self, x: TfTensor, axes: Sequence[int], keepdims: bool) -> TfTensor:
        return self._extremum("Max", "Any", x, axes, keepdims)

    def reduce_min(self, x: TfTensor, axes: Sequence[int], keepdims: bool) -> TfTensor:
        return self._extremum("Min", "All", x, axes, keepdims)

    def _extremum(self, op: str, logical: str, x: TfTensor, axes: Sequence[int], keepdims: bool) -> TfTensor:
        if x.dtype.is_bool:
            along = self.vector(axes, self.tf.int32)
            return getattr(self.raw, logical)(input=x, axis=along, keep_dims=keepdims)
        extremum = self._reduce(op, x, axes, keepdims)
        if not x.dtype.is_floating or self.features.holds(op + " keeps NaN"):
            return extremum
        missing = self.raw.Any(input=self.op("IsNan", x), axis=self.vector(axes, self.tf.int32), keep_dims=keepdims)
        return self.where(missing, self.number(float("nan"), x.dtype), extremum)

    def softmax(self, x: TfTensor, axis: int) -> TfTensor:
        return self._normalise("Softmax", x, axis)

    def log_softmax(self, x: TfTensor, axis: int) -> TfTensor:
        return self._normalise("LogSoftmax", x, axis)

    def _normalise(self, op: str, x: TfTensor, axis: int) -> TfTensor:
        """Return `op` ("Softmax" or "LogSoftmax") of x along an axis, which is not negative.

        The kernel computes the last axis only. Other axes are computed by Exp and Sum.
        """
        if axis == self.rank(x) - 1:
            return self.op(op, x)
        along = self.vector([axis], self.tf.int32)
        shifted = self.op("Sub", x, self.op("Max", x, axis=along, keep_dims=True))
        powers = self.op("Exp", shifted)
        total = self.op("Sum", powers, axis=along, keep_dims=True)
        if op == "Softmax":
            return self.op("RealDiv", powers, total)
        return self.op("Sub", shifted, self.op("Log", total))
