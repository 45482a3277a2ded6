"""Emitter methods for the reductions, on symbolic Keras tensors."""

from typing import Any, Optional, Sequence, Tuple

import numpy as np

from onnx_compat.shim import UnsupportedError
from onnx_compat_keras.framework_types import Handle
from onnx_compat_keras.functional.base import Base, storage

__all__ = ["Reduction"]


class Reduction(Base):
    """Emitter methods for the primitives of `onnx_compat.primitives.reduction` that Keras computes exactly."""

    def _global_pool(self, kind: str, x: Handle, axes: Sequence[int], keepdims: bool) -> Optional[Any]:
        """Reduce a float image over all its spatial axes by a Global<kind>Pooling layer. Return the layer's result.

        `kind`: "Average" or "Max". The channels are the last axis of x.

        Return None in these cases:

        - x is no float tensor with two or three spatial axes.
        - `kind` is "Max", and an axis has the known length 0.
        - `kind` is "Max" on PyTorch, and the batch has an unknown size: Keras refuses the maximum of an empty batch.
        - `axes` are not all spatial axes in ascending order.
        """
        rank = len(x.shape)
        if rank not in (4, 5) or tuple(axes) != tuple(range(1, rank - 1)) or self.out.dtype.kind != "f":
            return None
        if kind == "Max" and (0 in x.shape or (self.back_end == "torch" and x.shape[0] is None)):
            return None
        name = "Global%sPooling%dD" % (kind, rank - 2)
        return self.layer(name, x, keepdims=keepdims, data_format="channels_last")

    def _reduce(self, name: str, x: Handle, axes: Sequence[int], keepdims: bool) -> Handle:
        """Return keras.ops.<name> of x over axes, in the dtype of the current node's result.

        Bools and integers below 32 bits are reduced as int32, uint32 as int64. Raises UnsupportedError if Keras lacks a
        dtype of the node, or is not exact in it.
        """
        dtype = self.out.dtype
        options = {"axis": tuple(axes), "keepdims": keepdims}
        if dtype.kind == "f" or (dtype.kind == "i" and dtype.bits >= 32) or dtype.bits == 64:
            return self.restore_dtype(getattr(self.ops, name)(x, **options))
        self.check_dtypes()
        wide = self.unchecked_ops.cast(x, "int64" if dtype.bits == 32 else "int32")
        result = getattr(self.unchecked_ops, name)(wide, **options)
        if dtype.kind == "b":
            return self.unchecked_ops.not_equal(result, 0)
        return self.unchecked_ops.cast(result, dtype.name)

    def _reduce_extreme(self, name: str, x: Handle, axes: Sequence[int], keepdims: bool) -> Handle:
        """Return the maximum or minimum of x over axes. `name` is "max" or "min".

        Over an axis of the known length 0, the maximum is the lowest number of the dtype, and the minimum the highest.
        """
        if any(x.shape[axis] == 0 for axis in axes):  # Keras raises ValueError
            limits = _limits(storage(self.out.dtype))
            return self.restore_dtype(self.ops.full_like(self._reduce("sum", x, axes, keepdims), limits[name == "min"]))
        # `max` and `min` of Keras on PyTorch refuse an empty batch.
        return self._reduce("a" + name if self.back_end == "torch" else name, x, axes, keepdims)

    def reduce_sum(self, x: Handle, axes: Sequence[int], keepdims: bool = False) -> Handle:
        if self.sums_in_float16():
            return self.through_float32(self.reduce_sum, x, axes=axes, keepdims=keepdims)
        return self._reduce("sum", self.tensor(x), axes, keepdims)

    def reduce_mean(self, x: Handle, axes: Sequence[int], keepdims: bool = False) -> Handle:
        if self.sums_in_float16():
            return self.through_float32(self.reduce_mean, x, axes=axes, keepdims=keepdims)
        x = self.tensor(x)
        if self.out.dtype.kind != "f":
            raise UnsupportedError("a Keras model has means of floats only")
        pooled = self._global_pool("Average", x, axes, keepdims)
        return self._reduce("mean", x, axes, keepdims) if pooled is None else pooled

    def reduce_max(self, x: Handle, axes: Sequence[int], keepdims: bool = False) -> Handle:
        x = self.tensor(x)
        pooled = self._global_pool("Max", x, axes, keepdims)
        return self._reduce_extreme("max", x, axes, keepdims) if pooled is None else pooled

    def reduce_min(self, x: Handle, axes: Sequence[int], keepdims: bool = False) -> Handle:
        return self._reduce_extreme("min", self.tensor(x), axes, keepdims)

    def reduce_prod(self, x: Handle, axes: Sequence[int], keepdims: bool = False) -> Handle:
        if self.sums_in_float16():
            return self.through_float32(self.reduce_prod, x, axes=axes, keepdims=keepdims)
        x = self.tensor(x)
        for axis in reversed(axes):  # on torch older releases of Keras compute several axes wrongly
            x = self._reduce("prod", x, [axis], keepdims)
        return x

    def softmax(self, x: Handle, axis: int) -> Handle:
        if self.sums_in_float16():
            return self.through_float32(self.softmax, x, axis=axis)
        if axis == 0:
            return self.ops.softmax(self.tensor(x), axis=axis)
        return self.layer("Softmax", self.tensor(x), axis=axis)

    def log_softmax(self, x: Handle, axis: int) -> Handle:
        if self.sums_in_float16():
            return self.through_float32(self.log_softmax, x, axis=axis)
        return self.ops.log_softmax(self.tensor(x), axis=axis)


def _limits(dtype: str) -> Tuple[Any, Any]:
    """Return the (lowest, highest) number of a float, integer or bool dtype: infinities for a float dtype."""
    kind = np.dtype(dtype).kind
    if kind in "iu":
        return int(np.iinfo(dtype).min), int(np.iinfo(dtype).max)
    return (False, True) if kind == "b" else (-np.inf, np.inf)
