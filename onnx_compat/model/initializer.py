"""Stored tensors of a model, in initializers and in attributes, decoded on demand."""

from typing import Any, Callable, Optional, Tuple

import numpy as np

from onnx_compat.errors import InvalidModelError
from onnx_compat.ir.dtypes import DType
from onnx_compat.model.types import TensorType

__all__ = ["Constant", "Initializer"]

Array = Any  # a numpy array: the stubs of numpy 1.16 to 2.x differ


class Initializer:
    """A stored constant of a graph: its name, dtype and shape. `array` decodes the elements anew at each call.

    - read: an argument of the constructor, a function that decodes the elements to a carrier array.
    - nbytes: the size of the carrier array in bytes.
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
        """Return the carrier array (see `onnx_compat.ir.dtypes`), if possible as a view of the model's bytes.

        The array is read-only, except for a dense tensor of strings. Raises InvalidModelError in these cases:

        - The initializer was released.
        - A stored number does not fit the dtype.
        - The file of external data has changed since the model was loaded, or cannot be read.
        """
        if self._read is None:
            raise InvalidModelError(
                "the data of initializer '%s' was already released" % self.name, hint="load the model again"
            )
        return self._read()

    @property
    def released(self) -> bool:
        return self._read is None

    def release(self) -> None:
        """Drop the reference to the stored bytes. Arrays that `array` has returned stay valid."""
        self._read = None

    def copy(self) -> "Initializer":
        """Return a copy that shares the stored bytes. After `release` of one of the two, the other can still be read.

        A copy of a released initializer is released too.
        """
        duplicate = Initializer(self.name, self.dtype, self.shape, self.array)
        duplicate._read = self._read
        return duplicate

    def __repr__(self) -> str:
        return "<%s %s>" % (self.name, self.type)


class Constant:
    """A tensor in an attribute: an array, or a tensor of a file that `array` decodes at each access.

    The constructor takes a carrier array; `of` takes a tensor of a file.
    """

    __slots__ = ("_array", "_stored", "dtype", "name", "shape")

    def __init__(self, array: Array, dtype: DType, name: str = "") -> None:
        self._array = np.asarray(array)
        self._stored: Optional[Initializer] = None
        self.dtype = dtype
        self.name = name
        self.shape: Tuple[int, ...] = self._array.shape

    @classmethod
    def of(cls, stored: Initializer) -> "Constant":
        """Return a constant for a stored tensor, which `array` decodes at each access."""
        constant = cls((), stored.dtype, stored.name)
        constant._stored, constant.shape = stored, stored.shape
        return constant

    @property
    def array(self) -> Array:
        """The carrier array (see `onnx_compat.ir.dtypes`).

        A stored tensor is decoded at each access. Raises as `Initializer.array` does: after `release`, and for damaged
        data.
        """
        return self._array if self._stored is None else self._stored.array()

    def copy(self) -> "Constant":
        """Return a copy that shares the data. After `release` of one of the two, the other can still be read.

        A copy of a released constant is released too.
        """
        if self._stored is None:
            return Constant(self._array, self.dtype, self.name)
        return Constant.of(self._stored.copy())

    def release(self) -> None:
        """Drop the stored bytes of a tensor from a file, as `Initializer.release` does. An array is kept."""
        if self._stored is not None:
            self._stored.release()

    def __repr__(self) -> str:
        return "<constant %s>" % (TensorType(self.dtype, self.shape),)
