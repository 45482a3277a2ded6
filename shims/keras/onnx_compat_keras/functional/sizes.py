"""Sizes that are only known when the model runs, in a model whose operations take no computed sizes.

Such a size is held as a vector of ones that is so long: an axis gives one (the sum of zeros along all others), and what
is computed with sizes is done to the vectors. Twice a size is the vector beside itself, half of it every other element.
The sum of the vector is the size; its running sum counts the places of an axis.
"""

from dataclasses import dataclass
from typing import Any, Dict, Optional, Sequence, Tuple

import keras
import numpy as np

from onnx_compat.shim import DType, UnsupportedError, dtypes
from onnx_compat_keras.functional.base import Base, Known
from onnx_compat_keras.functional.slicing import cut

__all__ = ["LENGTHS", "Counted", "Length", "Sizing"]


@dataclass(frozen=True)
class Length:
    """A size that is only known when the model runs: `how` it comes from its `parts`, sizes or (a tensor, an axis)."""

    how: str
    parts: Tuple[Any, ...]

    @property
    def key(self) -> Any:
        return (self.how, *(part.key if isinstance(part, Length) else _key(part) for part in self.parts))


@dataclass(frozen=True)
class Counted:
    """A tensor of sizes, of an integer type."""

    sizes: Tuple[Any, ...]
    shape: Tuple[int, ...]
    dtype: DType


LENGTHS = (Length,)


def _key(part: Any) -> Any:
    return part if isinstance(part, (int, np.integer)) else id(part)


def _is_int(size: Any) -> bool:
    return isinstance(size, (int, np.integer))


class Sizing(Base):
    """What an emitter knows of sizes."""

    def __init__(self, names: Any) -> None:
        super().__init__(names)
        self._ones: Dict[Any, Any] = {}
        self._places: Dict[Any, Any] = {}

    def tensor(self, handle: Any) -> Any:
        if isinstance(handle, Counted):
            return self._of_sizes(handle)
        return self.counted(handle) if isinstance(handle, Length) else super().tensor(handle)

    # -- what the walk asks for ----------------------------------------------------------------------------------------
    def dim(self, handle: Any, axis: int) -> Any:
        size = handle.shape[axis]
        return Length("axis", (handle, axis)) if size is None else int(size)

    def element(self, handle: Any, index: Optional[int]) -> Any:
        if isinstance(handle, Counted):
            return handle.sizes[index or 0]
        return self.tensor(handle) if index is None else self.name(cut(keras.ops, handle, (index,)))

    def stack(self, scalars: Sequence[Any]) -> Any:
        return Counted(tuple(scalars), (len(scalars),), self.index_dtype)

    def combined(self, how: str, x: Any, y: Any) -> Any:
        """A size computed with others; a tensor where not all of them are sizes."""
        x, y = (part.array.item() if isinstance(part, Known) and part.array.ndim == 0 else part for part in (x, y))
        if all(isinstance(part, Length) or _is_int(part) for part in (x, y)):
            return Length(how, (x, y))
        raise UnsupportedError("a Keras model computes sizes from sizes only")

    # -- as tensors ----------------------------------------------------------------------------------------------------
    def counted(self, length: Length) -> Any:
        """A size as an int64 scalar."""
        return self.free.cast(self.free.sum(self.ones(length)), "int64")

    def places(self, length: Any) -> Any:
        """0, 1, … as far as a size goes, in int32."""
        if _is_int(length):
            return self.held(Known(np.arange(int(length), dtype=np.int32), dtypes.int32))
        if not isinstance(length, Length):
            raise UnsupportedError("a computed number is no size of a Keras model")
        if length.key not in self._places:
            self._places[length.key] = self.free.subtract(self.free.cumsum(self.ones(length)), 1)
        return self._places[length.key]

    def _of_sizes(self, counted: Counted) -> Any:
        parts = [self.tensor(size) for size in counted.sizes]
        whole = parts[0] if not counted.shape else self.free.stack(parts)
        whole = whole if len(counted.shape) < 2 else self.free.reshape(whole, counted.shape)
        return whole if counted.dtype.name == "int64" else self.free.cast(whole, counted.dtype.name)

    # -- as vectors ----------------------------------------------------------------------------------------------------
    def ones(self, length: Any) -> Any:
        """As many int32 ones as the size says."""
        if _is_int(length):
            return self.held(Known(np.ones(int(length), np.int32), dtypes.int32))
        if length.key not in self._ones:
            make = {
                "axis": self._axis,
                "mul": self._product,
                "add": self._sum,
                "floordiv": self._share,
                "min": self._some,
            }
            self._ones[length.key] = make[length.how](*length.parts)
        return self._ones[length.key]

    def _axis(self, handle: Any, axis: int) -> Any:
        others = [k for k in range(len(handle.shape)) if k != axis]
        none = self.free.zeros_like(handle, dtype="int32")
        if others:
            none = self.free.cast(self.free.sum(none, axis=others), "int32")
        return self.free.add(none, 1)

    def _product(self, x: Any, y: Any) -> Any:
        table = self.free.multiply(self.free.expand_dims(self.ones(x), -1), self.ones(y))
        return self.free.reshape(table, (-1,))

    def _sum(self, x: Any, y: Any) -> Any:
        if _is_int(x):
            x, y = y, x
        if _is_int(y) and y < 0:
            return cut(self.free, self.ones(x), (slice(-int(y), None),))
        return self.ones(x) if _is_int(y) and y == 0 else self.free.concatenate([self.ones(x), self.ones(y)])

    def _share(self, x: Any, y: Any) -> Any:
        if not _is_int(y) or y < 1:
            raise UnsupportedError("a Keras model divides sizes by known numbers only")
        return cut(self.free, self.ones(x), (slice(int(y) - 1, None, int(y)),))

    def _some(self, x: Any, y: Any) -> Any:
        if _is_int(x):
            x, y = y, x
        if not _is_int(y) or y < 0:
            raise UnsupportedError("a Keras model compares sizes with known numbers only")
        return cut(self.free, self.ones(x), (slice(None, int(y)),))
