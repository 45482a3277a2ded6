"""A stored tensor of a model, decoded when it is asked for."""

from typing import Any, Callable, Optional, Tuple

from ..dtypes import DType
from ..errors import InvalidModelError
from .types import TensorType

__all__ = ["Initializer"]

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
        """The carrier array (see `onnx_compat.dtypes`), read-only: a view of the model's bytes where that is possible."""
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

    def __repr__(self) -> str:
        return "<%s %s>" % (self.name, self.type)
