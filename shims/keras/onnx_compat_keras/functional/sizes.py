"""Compute with symbolic sizes in a functional Keras model, whose operations accept no computed sizes.

A size n is represented by a vector of n ones. For an axis of x, this vector is the sum of zeros_like(x) over all other axes,
plus 1. Arithmetic on sizes is done on vectors: the concatenation of the vectors of m and n represents m + n. The sum of the
vector is the size as a number. Its cumulative sum minus 1 is the range from 0 to n - 1.
"""

from dataclasses import dataclass
from typing import Any, Callable, Dict, Optional, Sequence, Tuple

import keras
import numpy as np

from onnx_compat.shim import DType, UnsupportedError, dtypes
from onnx_compat_keras.framework_types import Handle, Scalar, SymbolicTensor
from onnx_compat_keras.functional.base import Base, Known
from onnx_compat_keras.functional.slicing import cut

__all__ = ["LENGTHS", "Counted", "Length", "Sizing"]


@dataclass(frozen=True)
class Length:
    """A symbolic size: the result of an `operation` on `parts`.

    - "mul", "add", "floordiv", "min": `parts` are two sizes, each an int or a Length.
    - "axis": `parts` are a tensor and an axis, whose length is the size.
    - "number": `parts` are one integer tensor with a single element, which is the size. A negative size counts as 0.
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
#: Operation on sizes -> the function of `keras.ops` that computes it on numbers.
_FUNCTIONS = {
    "add": "add", "mul": "multiply", "floordiv": "floor_divide", "min": "minimum", "max": "maximum", "mod": "mod",
}  # fmt: skip


def _key(part: Scalar) -> Any:
    """Return a hashable key of a part of a `Length` that is no `Length`: an int itself, the id of a tensor."""
    return part if isinstance(part, (int, np.integer)) else id(part)


def _is_int(size: Scalar) -> bool:
    return isinstance(size, (int, np.integer))


class Sizing(Base):
    """The base class of emitter classes that compute sizes; see the module docstring."""

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
        tensor = self.tensor(handle)
        return Length("number", (tensor if index is None else self.name(cut(keras.ops, tensor, (index,))),))

    def stack(self, scalars: Sequence[Scalar]) -> Handle:
        return Counted(tuple(scalars), (len(scalars),), self.index_dtype)

    def combine_sizes(self, operation: str, x: Handle, y: Handle) -> Handle:
        """Return the size `operation(x, y)`: "mul", "add", "floordiv", "min", "max" or "mod".

        Each operand is a `Length`, an int, or a scalar that is a constant or an integer tensor. The result is a
        `Length`. Its operation is "number" if vectors of ones cannot do `operation` (see `_has_vector`). A divisor
        below 1 counts as 1, unless it is an int.
        """
        x, y = (part.array.item() if isinstance(part, Known) and part.array.ndim == 0 else part for part in (x, y))
        if _has_vector(operation, x, y):
            return Length(operation, (x, y))
        numbers = [part if _is_int(part) else self.size_tensor(part) for part in (x, y)]
        if operation in ("floordiv", "mod") and not _is_int(y):
            numbers[1] = self.unchecked_ops.maximum(numbers[1], 1)  # no size is divided by zero
        number = getattr(self.unchecked_ops, _FUNCTIONS[operation])(*numbers)
        return Length("number", (self.unchecked_ops.cast(number, "int64"),))

    def plus(self, x: Handle, y: Handle) -> Handle:
        """Return x + y of integer tensors, computed as x - (-y).

        The method is needed because `keras.ops.add` of Keras 3.15 on TensorFlow may add along a wrong axis.
        """
        return self.unchecked_ops.subtract(x, self.unchecked_ops.negative(y))

    # -- as tensors ----------------------------------------------------------------------------------------------------
    def size_tensor(self, size: Handle) -> Handle:
        """Return a size as an int64 scalar tensor. `size`: a `Length`, or an integer handle with a single element."""
        ops = self.unchecked_ops
        if not isinstance(size, Length):
            tensor = self.tensor(size)
        elif size.operation == "number":
            tensor = size.parts[0]
        elif size.operation == "axis":
            tensor = ops.sum(self.ones_vector(size))
        else:  # not the sum of the vector, which has no negative sizes
            numbers = [part if _is_int(part) else self.size_tensor(part) for part in size.parts]
            tensor = getattr(ops, _FUNCTIONS[size.operation])(*numbers)
        tensor = tensor if not len(tensor.shape) else ops.reshape(tensor, ())
        return tensor if tensor.dtype == "int64" else ops.cast(tensor, "int64")

    def positions(self, length: Scalar) -> Handle:
        """Return the int32 tensor [0, 1, ..., length - 1]. `length`: an int or a `Length`.

        The tensor of a `Length` is created once. Raises UnsupportedError on JAX, which compiles fixed shapes, for a
        `Length` of the operation "number".
        """
        if _is_int(length):
            return self.constant_tensor(Known(np.arange(int(length), dtype=np.int32), dtypes.int32))
        if length.key not in self.scope.positions:
            counts = self.unchecked_ops.cumsum(self.ones_vector(length))
            self.scope.positions[length.key] = self.unchecked_ops.subtract(counts, 1)
        return self.scope.positions[length.key]

    def _stack_sizes(self, counted: Counted) -> Handle:
        """Return a `Counted` as a symbolic tensor of its shape and dtype."""
        if all(_is_int(size) for size in counted.sizes):
            array = np.asarray(counted.sizes, counted.dtype.numpy).reshape(counted.shape)
            return self.constant_tensor(Known(array, counted.dtype))
        parts = [size if _is_int(size) else self.size_tensor(size) for size in counted.sizes]
        whole = parts[0] if not counted.shape else self._stack(parts)
        whole = whole if len(counted.shape) < 2 else self.unchecked_ops.reshape(whole, counted.shape)
        return whole if counted.dtype.name == "int64" else self.unchecked_ops.cast(whole, counted.dtype.name)

    def _stack(self, parts: Sequence[Handle]) -> Handle:
        """Return ints and int64 scalar tensors as an int64 vector."""
        tensors = [
            self.constant_tensor(Known(np.asarray(part, np.int64), dtypes.int64)) if _is_int(part) else part
            for part in parts
        ]
        return self.unchecked_ops.stack(tensors)

    # -- as vectors ----------------------------------------------------------------------------------------------------
    def ones_vector(self, length: Scalar) -> Handle:
        """Return an int32 vector of `length` ones, which represents the size `length`: an int or a `Length`.

        The tensor of a `Length` is created once. Raises UnsupportedError on JAX, which compiles fixed shapes, for a
        `Length` of the operation "number".
        """
        if _is_int(length):
            return self.constant_tensor(Known(np.ones(int(length), np.int32), dtypes.int32))
        if length.key not in self.scope.ones_vectors:
            make: Dict[str, Callable[..., Handle]] = {
                "axis": self._axis,
                "mul": self._product,
                "add": self._sum,
                "floordiv": self._quotient,
                "min": self._minimum,
                "number": self._counted_ones,
            }
            self.scope.ones_vectors[length.key] = make[length.operation](*length.parts)
        return self.scope.ones_vectors[length.key]

    def _counted_ones(self, number: SymbolicTensor) -> Handle:
        """Return an int32 vector of `number` ones, or of none if the number is negative.

        `bincount` of [n] has n + 1 elements. Raises UnsupportedError on JAX.
        """
        if self.back_end == "jax":
            raise UnsupportedError("a Keras model on JAX takes no computed number as a size")
        ops = self.unchecked_ops
        counts = ops.bincount(ops.reshape(ops.cast(ops.maximum(number, 0), "int32"), (1,)))
        return ops.add(ops.multiply(ops.cast(cut(ops, counts, (slice(1, None),)), "int32"), 0), 1)

    def _axis(self, handle: Handle, axis: int) -> Handle:
        """Return an int32 vector of n ones, where n is the length of an axis of the tensor `handle`."""
        other_axes = [k for k in range(len(handle.shape)) if k != axis]
        zeros = self.unchecked_ops.zeros_like(handle, dtype="int32")
        if other_axes:
            zeros = self.unchecked_ops.cast(self.unchecked_ops.sum(zeros, axis=other_axes), "int32")
        return self.unchecked_ops.add(zeros, 1)

    def _product(self, x: Scalar, y: Scalar) -> Handle:
        """Return an int32 vector of x * y ones."""
        table = self.unchecked_ops.multiply(
            self.unchecked_ops.expand_dims(self.ones_vector(x), -1), self.ones_vector(y)
        )
        return self.unchecked_ops.reshape(table, (-1,))

    def _sum(self, x: Scalar, y: Scalar) -> Handle:
        """Return an int32 vector of x + y ones. At most one of the sizes is an int, which may be negative."""
        if _is_int(x):
            x, y = y, x
        if _is_int(y) and y < 0:
            return cut(self.unchecked_ops, self.ones_vector(x), (slice(-int(y), None),))
        return (
            self.ones_vector(x)
            if _is_int(y) and y == 0
            else self.unchecked_ops.concatenate([self.ones_vector(x), self.ones_vector(y)])
        )

    def _quotient(self, x: Handle, y: int) -> Handle:
        """Return an int32 vector of x // y ones, for the size x and an int y above 0."""
        return cut(self.unchecked_ops, self.ones_vector(x), (slice(int(y) - 1, None, int(y)),))

    def _minimum(self, x: Handle, y: Handle) -> Handle:
        """Return an int32 vector of min(x, y) ones. One of the sizes is an int of at least 0."""
        if _is_int(x):
            x, y = y, x
        return cut(self.unchecked_ops, self.ones_vector(x), (slice(None, int(y)),))


def _has_vector(operation: str, x: Scalar, y: Scalar) -> bool:
    """Whether a vector of ones represents `operation(x, y)`, without numbers.

    Each operand must be an int or a `Length` whose operation is not "number". The operations have further conditions:

    - "add": none
    - "mul": no operand is a negative int
    - "floordiv": y is an int above 0
    - "min": an operand is an int of at least 0

    Returns False for any other operation.
    """
    if not all(_is_int(part) or (isinstance(part, Length) and part.operation != "number") for part in (x, y)):
        return False
    if operation == "floordiv":
        return _is_int(y) and y > 0
    if operation == "min":
        return any(_is_int(part) and part >= 0 for part in (x, y))
    if operation == "mul":
        return not any(_is_int(part) and part < 0 for part in (x, y))
    return operation == "add"
