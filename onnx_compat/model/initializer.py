"""The stored tensors of a model, decoded when they are asked for: in initializers and in attributes."""

from typing import Any, Callable, Optional, Tuple

import numpy as np

from onnx_compat.errors import InvalidModelError
from onnx_compat.ir.dtypes import DType
from onnx_compat.model.types import TensorType

__all__ = ["Constant", "Initializer"]

Array = Any


class Initializer:
    """A constant of a graph. Its sizes were checked when it was made; its elements are decoded by `array` each time.

    nbytes   the size of the carrier array
    """

    __slots__ = ("_read", "dtype", "name", "nbytes", "shape")

    def __init__(self, name: str, dtype: DType, shape: Tuple[int, ...], read: Callable[[], Array]) -> None:
        self.name = name
        self.dtype = dtype
        self.shape = shape
        self._read: Optional[Callable[[], Array]] = read
        self.nbytes = dtype.numpy.itemsize
        for size in shape:
            self.nbytes *= size

    @property
    def type(self) -> TensorType:
        return TensorType(self.dtype, self.shape)

    def array(self) -> Array:
        """The carrier array (see `onnx_compat.ir.dtypes`), read-only: a view of the model's bytes where that is possible."""
        if self._read is None:
            raise InvalidModelError(
                "the data of initializer '%s' was already let go of" % self.name, hint="load the model again"
            )
        return self._read()

    @property
    def released(self) -> bool:
        return self._read is None

    def release(self) -> None:
        """Let go of the bytes: whoever consumed the array is now the only one that keeps it in memory."""
        self._read = None

    def copy(self) -> "Initializer":
        """The same stored tensor; either may be let go of without the other."""
        made = Initializer(self.name, self.dtype, self.shape, self.array)
        made._read = self._read
        return made

    def __repr__(self) -> str:
        return "<%s %s>" % (self.name, self.type)


class Constant:
    """A tensor in an attribute. One that was read from a model is decoded each time that `array` is asked for."""

    __slots__ = ("_array", "_stored", "dtype", "name", "shape")

    def __init__(self, array: Array, dtype: DType, name: str = "") -> None:
        self._array = np.asarray(array)
        self._stored: Optional[Initializer] = None
        self.dtype = dtype
        self.name = name
        self.shape: Tuple[int, ...] = self._array.shape

    @classmethod
    def of(cls, stored: Initializer) -> "Constant":
        made = cls((), stored.dtype, stored.name)
        made._stored, made.shape = stored, stored.shape
        return made

    @property
    def array(self) -> Array:
        """The carrier array (see `onnx_compat.ir.dtypes`)."""
        return self._array if self._stored is None else self._stored.array()

    def copy(self) -> "Constant":
        """The same tensor; either may be let go of without the other."""
        if self._stored is None:
            return Constant(self._array, self.dtype, self.name)
        return Constant.of(self._stored.copy())

    def release(self) -> None:
        """Let go of the model's bytes, as `Initializer.release` does."""
        if self._stored is not None:
            self._stored.release()

    def __repr__(self) -> str:
        return "<constant %s>" % (TensorType(self.dtype, self.shape),)
