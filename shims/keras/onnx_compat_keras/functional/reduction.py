"""Combining elements along axes, on symbolic tensors."""

from typing import Any, Optional, Sequence

from onnx_compat.shim import UnsupportedError
from onnx_compat_keras.functional.base import Base

__all__ = ["Reduction"]


class Reduction(Base):
    """The primitives of `onnx_compat.primitives.reduction`."""

    def _everywhere(self, kind: str, x: Any, axes: Sequence[int], keepdims: bool) -> Optional[Any]:
        """A global pool, if it is all space of an image (of which the channels are the last axis)."""
        rank = len(x.shape)
        if rank not in (4, 5) or tuple(axes) != tuple(range(1, rank - 1)) or self.out.dtype.kind != "f":
            return None
        name = "Global%sPooling%dD" % (kind, rank - 2)
        return self.layer(name, x, keepdims=keepdims, data_format="channels_last")

    def _plain(self, name: str, x: Any, axes: Sequence[int], keepdims: bool) -> Any:
        dtype = self.out.dtype
        if dtype.kind == "f" or (dtype.kind == "i" and dtype.bits >= 32):
            return self.settled(getattr(self.ops, name)(x, axis=tuple(axes), keepdims=keepdims))
        raise UnsupportedError("a Keras model combines floats and wide integers only")

    def _something(self, x: Any, axes: Sequence[int]) -> None:
        if any(x.shape[axis] == 0 for axis in axes):
            raise UnsupportedError("Keras has no largest or smallest of nothing")

    def reduce_sum(self, x: Any, axes: Sequence[int], keepdims: bool = False) -> Any:
        return self._plain("sum", self.tensor(x), axes, keepdims)

    def reduce_mean(self, x: Any, axes: Sequence[int], keepdims: bool = False) -> Any:
        x = self.tensor(x)
        if self.out.dtype.kind != "f":
            raise UnsupportedError("a Keras model has means of floats only")
        pooled = self._everywhere("Average", x, axes, keepdims)
        return self._plain("mean", x, axes, keepdims) if pooled is None else pooled

    def reduce_max(self, x: Any, axes: Sequence[int], keepdims: bool = False) -> Any:
        x = self.tensor(x)
        self._something(x, axes)
        pooled = self._everywhere("Max", x, axes, keepdims)
        return self._plain("max", x, axes, keepdims) if pooled is None else pooled

    def reduce_min(self, x: Any, axes: Sequence[int], keepdims: bool = False) -> Any:
        x = self.tensor(x)
        self._something(x, axes)
        return self._plain("min", x, axes, keepdims)

    def reduce_prod(self, x: Any, axes: Sequence[int], keepdims: bool = False) -> Any:
        x = self.tensor(x)
        for axis in reversed(axes):  # of several at once older releases lose count, on torch
            x = self._plain("prod", x, [axis], keepdims)
        return x

    def softmax(self, x: Any, axis: int) -> Any:
        if axis == 0:
            return self.ops.softmax(x, axis=axis)
        return self.layer("Softmax", self.tensor(x), axis=axis)

    def log_softmax(self, x: Any, axis: int) -> Any:
        return self.ops.log_softmax(self.tensor(x), axis=axis)
