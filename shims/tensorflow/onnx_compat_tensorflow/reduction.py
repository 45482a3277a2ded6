"""Combining elements along axes."""

from typing import Any, Sequence

from onnx_compat_tensorflow.elementwise import Elementwise

__all__ = ["Reduction"]


class Reduction(Elementwise):
    """The primitives of `onnx_compat.primitives.reduction`."""

    def _reduced(self, op: str, x: Any, axes: Sequence[int], keepdims: bool) -> Any:
        return self.op(op, x, axis=self.vector(axes, self.tf.int32), keep_dims=keepdims)

    def reduce_sum(self, x: Any, axes: Sequence[int], keepdims: bool) -> Any:
        return self._reduced("Sum", x, axes, keepdims)

    def reduce_prod(self, x: Any, axes: Sequence[int], keepdims: bool) -> Any:
        return self._reduced("Prod", x, axes, keepdims)

    def reduce_mean(self, x: Any, axes: Sequence[int], keepdims: bool) -> Any:
        if x.dtype.is_floating:
            return self._reduced("Mean", x, axes, keepdims)
        wide = self.tf.uint64 if x.dtype.is_unsigned else self.tf.int64
        total = self._reduced("Sum", self.raw.Cast(x=x, DstT=wide), axes, keepdims)
        counts = self.raw.GatherV2(params=self.sizes(x), indices=self.vector(axes), axis=0)
        count = self.raw.Cast(x=self.raw.Prod(input=counts, axis=[0]), DstT=wide)
        return self.raw.Cast(x=self.div(total, count), DstT=x.dtype)

    def reduce_max(self, x: Any, axes: Sequence[int], keepdims: bool) -> Any:
        return self._extremum("Max", "Any", x, axes, keepdims)

    def reduce_min(self, x: Any, axes: Sequence[int], keepdims: bool) -> Any:
        return self._extremum("Min", "All", x, axes, keepdims)

    def _extremum(self, op: str, logical: str, x: Any, axes: Sequence[int], keepdims: bool) -> Any:
        if x.dtype.is_bool:
            along = self.vector(axes, self.tf.int32)
            return getattr(self.raw, logical)(input=x, axis=along, keep_dims=keepdims)
        found = self._reduced(op, x, axes, keepdims)
        if not x.dtype.is_floating or self.features.holds(op + " keeps NaN"):
            return found
        missing = self.raw.Any(input=self.op("IsNan", x), axis=self.vector(axes, self.tf.int32), keep_dims=keepdims)
        return self.where(missing, self.number(float("nan"), x.dtype), found)

    def softmax(self, x: Any, axis: int) -> Any:
        return self._normalised("Softmax", x, axis)

    def log_softmax(self, x: Any, axis: int) -> Any:
        return self._normalised("LogSoftmax", x, axis)

    def _normalised(self, op: str, x: Any, axis: int) -> Any:
        """The kernels work along the last axis; along another one the meaning is written out."""
        if axis == self.rank(x) - 1:
            return self.op(op, x)
        along = self.vector([axis], self.tf.int32)
        shifted = self.op("Sub", x, self.op("Max", x, axis=along, keep_dims=True))
        powers = self.op("Exp", shifted)
        total = self.op("Sum", powers, axis=along, keep_dims=True)
        if op == "Softmax":
            return self.op("RealDiv", powers, total)
        return self.op("Sub", shifted, self.op("Log", total))
