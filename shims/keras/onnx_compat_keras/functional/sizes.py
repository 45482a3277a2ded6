"""Compute with symbolic sizes in a functional Keras model, whose operations accept no computed sizes.

A size n is represented by a vector of n ones. For an axis of x, this vector is the sum of zeros_like(x) over all other axes,
plus 1. Arithmetic on sizes is done on vectors: the concatenation of the vectors of m and n represents m + n. The sum of the
vector is the size as a number. Its cumulative sum minus 1 is the range from 0 to n - 1.
"""

from dataclasses import dataclass
from typing import Any, Dict, Optional, Sequence, Tuple

import keras
import numpy as np

from onnx_compat.shim import DType, UnsupportedError, dtypes
from onnx_compat_keras.framework_types import Handle, Scalar
from onnx_compat_keras.functional.base import Base, Known
from onnx_compat_keras.functional.names import Names
from onnx_compat_keras.functional.slicing import cut

__all__ = ["LENGTHS", "Counted", "Length", "Sizing"]


@dataclass(frozen=True)
class Length:
    """A symbolic size: the result of an `operation` on `parts`.

    - "mul", "add", "floordiv", "min": `parts` are two sizes, each an int or a Length.
    - "axis": `parts` are a tensor and an axis, whose length is the size.
    """

    operation: str
    parts: Tuple[Any, ...]

    @property
    def key(self) -> Any:
        """A hashable key, equal for sizes that are computed by the same operations on the same tensors."""
        return (self.operation, *(part.key if isinstance(part, Length) else _key(part) for part in self.parts))


@dataclass(frozen=True)
class Counted:
    """The handle of an integer tensor whose elements are sizes: ints or `Length`s, in row-major order."""

    sizes: Tuple[Any, ...]
    shape: Tuple[int, ...]
    dtype: DType


LENGTHS = (Length,)


def _key(part: Scalar) -> Any:
    return part if isinstance(part, (int, np.integer)) else id(part)


def _is_int(size: Scalar) -> bool:
    return isinstance(size, (int, np.integer))


class Sizing(Base):
    """The base class of emitter classes that compute sizes; see the module docstring."""

    def __init__(self, names: Names) -> None:
        super().__init__(names)
        self._ones_vectors: Dict[Any, Any] = {}
        self._positions: Dict[Any, Any] = {}

    def tensor(self, handle: Handle) -> Handle:
        if isinstance(handle, Counted):
            return self._stack_sizes(handle)
        return self.size_tensor(handle) if isinstance(handle, Length) else super().tensor(handle)

    # -- methods that `emit` calls -------------------------------------------------------------------------------------
    def dim(self, handle: Handle, axis: int) -> Scalar:
        size = handle.shape[axis]
        return Length("axis", (handle, axis)) if size is None else int(size)

    def element(self, handle: Handle, index: Optional[int]) -> Scalar:
        if isinstance(handle, Counted):
            return handle.sizes[index or 0]
        return self.tensor(handle) if index is None else self.name(cut(keras.ops, handle, (index,)))

    def stack(self, scalars: Sequence[Scalar]) -> Handle:
        return Counted(tuple(scalars), (len(scalars),), self.index_dtype)

    def combine_sizes(self, operation: str, x: Handle, y: Handle) -> Handle:
        """Return the size `operation(x, y)` as a `Length`: "mul", "add", "floordiv" or "min".

        Raises UnsupportedError unless each operand is a `Length`, an int or a scalar integer constant.
        """
        x, y = (part.array.item() if isinstance(part, Known) and part.array.ndim == 0 else part for part in (x, y))
        if all(isinstance(part, Length) or _is_int(part) for part in (x, y)):
            return Length(operation, (x, y))
        raise UnsupportedError("a Keras model computes sizes from sizes only")

    # -- as tensors ----------------------------------------------------------------------------------------------------
    def size_tensor(self, length: Length) -> Handle:
        """Return a symbolic size as an int64 scalar tensor."""
        return self.unchecked_ops.cast(self.unchecked_ops.sum(self.ones_vector(length)), "int64")

    def positions(self, length: Scalar) -> Handle:
        """Return the int32 tensor [0, 1, ..., length - 1]. `length`: an int or a `Length`, for which the tensor is cached.

        Raises UnsupportedError for 0, and for any other handle, such as a computed number.
        """
        if _is_int(length):
            return self.constant_tensor(Known(np.arange(int(length), dtype=np.int32), dtypes.int32))
        if not isinstance(length, Length):
            raise UnsupportedError("a Keras model takes no computed number as a size")
        if length.key not in self._positions:
            self._positions[length.key] = self.unchecked_ops.subtract(
                self.unchecked_ops.cumsum(self.ones_vector(length)), 1
            )
        return self._positions[length.key]

    def _stack_sizes(self, counted: Counted) -> Handle:
        parts = [self.tensor(size) for size in counted.sizes]
        whole = parts[0] if not counted.shape else self.unchecked_ops.stack(parts)
        whole = whole if len(counted.shape) < 2 else self.unchecked_ops.reshape(whole, counted.shape)
        return whole if counted.dtype.name == "int64" else self.unchecked_ops.cast(whole, counted.dtype.name)

    # -- as vectors ----------------------------------------------------------------------------------------------------
    def ones_vector(self, length: Scalar) -> Handle:
        """Return an int32 tensor of ones of the shape [length], which represents the size `length`: an int or a `Length`.

        The tensor of a `Length` is cached. Raises UnsupportedError if

        - the length is 0,
        - the length is a quotient, and the divisor is no int above 0,
        - the length is a minimum, and no operand is an int of at least 0.
        """
        if _is_int(length):
            return self.constant_tensor(Known(np.ones(int(length), np.int32), dtypes.int32))
        if length.key not in self._ones_vectors:
            make = {
                "axis": self._axis,
                "mul": self._product,
                "add": self._sum,
                "floordiv": self._quotient,
                "min": self._minimum,
            }
            self._ones_vectors[length.key] = make[length.operation](*length.parts)
        return self._ones_vectors[length.key]

    def _axis(self, handle: Handle, axis: int) -> Handle:
        other_axes = [k for k in range(len(handle.shape)) if k != axis]
        zeros = self.unchecked_ops.zeros_like(handle, dtype="int32")
        if other_axes:
            zeros = self.unchecked_ops.cast(self.unchecked_ops.sum(zeros, axis=other_axes), "int32")
        return self.unchecked_ops.add(zeros, 1)

    def _product(self, x: Scalar, y: Scalar) -> Handle:
        table = self.unchecked_ops.multiply(
            self.unchecked_ops.expand_dims(self.ones_vector(x), -1), self.ones_vector(y)
        )
        return self.unchecked_ops.reshape(table, (-1,))

    def _sum(self, x: Scalar, y: Scalar) -> Handle:
        if _is_int(x):
            x, y = y, x
        if _is_int(y) and y < 0:
            return cut(self.unchecked_ops, self.ones_vector(x), (slice(-int(y), None),))
        return (
            self.ones_vector(x)
            if _is_int(y) and y == 0
            else self.unchecked_ops.concatenate([self.ones_vector(x), self.ones_vector(y)])
        )

    def _quotient(self, x: Handle, y: Handle) -> Handle:
        if not _is_int(y) or y < 1:
            raise UnsupportedError("a Keras model divides sizes by known numbers only")
        return cut(self.unchecked_ops, self.ones_vector(x), (slice(int(y) - 1, None, int(y)),))

    def _minimum(self, x: Handle, y: Handle) -> Handle:
        if _is_int(x):
            x, y = y, x
        if not _is_int(y) or y < 0:
            raise UnsupportedError("a Keras model compares sizes with known numbers only")
        return cut(self.unchecked_ops, self.ones_vector(x), (slice(None, int(y)),))
