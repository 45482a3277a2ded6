"""Emitter methods for the gather and sort primitives, on symbolic Keras tensors."""

from typing import Tuple

import numpy as np

from onnx_compat.shim import Const, DType, Ref, Sizes, UnsupportedError, is_equal
from onnx_compat_keras.framework_types import Handle
from onnx_compat_keras.functional.base import Base, Known
from onnx_compat_keras.functional.shape import known_sizes
from onnx_compat_keras.functional.slicing import cut

__all__ = ["Indexing"]


class Indexing(Base):
    """Emitter methods for the primitives of `onnx_compat.primitives.indexing` that Keras computes exactly."""

    def take(self, x: Handle, indices: Handle, axis: int) -> Handle:
        if isinstance(x, Known) and not isinstance(indices, Known) and axis == 0 and x.ndim == 2 and x.array.size:
            rows, width = x.array.shape
            table = np.ascontiguousarray(x.array)
            if x.dtype.kind == "f":
                return self.layer(
                    "Embedding", indices, weights=[table], input_dim=rows, output_dim=width,
                    embeddings_initializer="zeros",
                )  # fmt: skip
        if isinstance(indices, Known) and not isinstance(x, Known):
            return self._take_known(x, indices.array, axis)
        return self.ops.take(self.tensor(x), self.tensor(indices), axis=axis)

    def _take_known(self, x: Handle, positions: np.ndarray, axis: int) -> Handle:
        if positions.ndim == 0:
            return cut(self.ops, x, (slice(None),) * axis + (int(positions),))
        positions = positions.astype(np.int32) if abs(positions).max(initial=0) < 2**31 else positions
        return self.ops.take(x, self.operand(Known(positions, DType.of(positions.dtype))), axis=axis)

    def take_along(self, x: Handle, indices: Handle, axis: int) -> Handle:
        x, indices = self.tensor(x), self.tensor(indices)
        shapes = [arg.spec.shape for arg in self.node.args if isinstance(arg, (Ref, Const))]
        if any(not is_equal(*pair) for k, pair in enumerate(zip(*shapes)) if k != axis):
            raise UnsupportedError("a Keras model takes along an axis where all other axes are equal")
        return self.ops.take_along_axis(x, indices, axis=axis)

    def top_k(self, x: Handle, k: Sizes, axis: int, largest: bool = True) -> Tuple[Handle, Handle]:
        count = known_sizes(k)
        x = self.tensor(x)
        if count is None or not largest or axis != len(x.shape) - 1 or self.back_end == "torch":
            raise UnsupportedError("a Keras model has the known number of largest elements of the last axis only")
        values, positions = self.ops.top_k(x, count[0])
        return values, self.ops.cast(positions, "int64")

    def argmax(self, x: Handle, axis: int) -> Handle:
        return self.ops.cast(self.ops.argmax(self.tensor(x), axis=axis), "int64")

    def argmin(self, x: Handle, axis: int) -> Handle:
        return self.ops.cast(self.ops.argmin(self.tensor(x), axis=axis), "int64")

    def cumsum(self, x: Handle, axis: int, exclusive: bool = False, reverse: bool = False) -> Handle:
        if exclusive:
            raise UnsupportedError("a Keras model has inclusive running sums only")
        x = self.tensor(x)
        total = self.ops.cumsum(self.ops.flip(x, axis) if reverse else x, axis=axis)
        return self.ops.flip(total, axis) if reverse else total
