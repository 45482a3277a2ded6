"""The primitives in numpy: their executable definition. It folds constants, and is a shim of its own.

The handles of `REFERENCE` are numpy arrays. The arithmetic of shape computations also accepts object arrays of ints and
symbolic sizes. A comparison of sizes that cannot be decided raises `dims.Undecided`.
"""

from typing import Any, Optional, Sequence, Tuple

import numpy as np

from onnx_compat.ir import Spec
from onnx_compat.ir.dims import is_static
from onnx_compat.ir.dtypes import DType
from onnx_compat.reference.arrays import Array
from onnx_compat.reference.bits import Bits
from onnx_compat.reference.control import Control
from onnx_compat.reference.elementwise import Elementwise
from onnx_compat.reference.images import ImageDecoding
from onnx_compat.reference.indexing import Indexing
from onnx_compat.reference.linear import Linear
from onnx_compat.reference.random import Random
from onnx_compat.reference.reduction import Reduction
from onnx_compat.reference.shape import Shape
from onnx_compat.reference.text import Text
from onnx_compat.reference.windows import Windows
from onnx_compat.shim.interface import Emitter

__all__ = ["REFERENCE", "Reference"]


class Reference(
    Elementwise, Shape, Indexing, Reduction, Linear, Windows, Control, Random, Text, ImageDecoding, Bits, Emitter
):
    """The emitter that implements every primitive in numpy."""

    layout = "channels_first"
    filter_layout = "OIHW"
    concrete = True

    def constant(self, array: np.ndarray, dtype: DType) -> Any:
        """Return the array itself: a handle of the reference is a numpy array."""
        return array

    def finish(self, handle: Array, dtype: DType) -> Any:
        """Return a result as an array. If numpy lacks `dtype`, round the result to the values of `dtype`.

        `handle` is an array or a numpy scalar. Arrays of objects (strings, symbolic sizes) are not rounded.
        """
        array = np.asarray(handle, object if dtype.kind == "s" else None)
        return array if dtype.native or array.dtype == object else dtype.round(array, saturate=False)

    def dim(self, handle: Array, axis: int) -> int:
        """Return the size of an axis of an array."""
        return int(handle.shape[axis])

    def element(self, handle: Array, index: Optional[int]) -> int:
        """Return element `index` of a vector as an int; for None, the only element of a scalar."""
        return int(handle.reshape(-1)[index or 0])

    def stack(self, scalars: Sequence[Any]) -> Any:
        """Return a vector of these scalars, in the dtype of sizes (`index_dtype`)."""
        return np.asarray(scalars, self.index_dtype.numpy)

    def placeholder(self, spec: Spec) -> Any:
        """Return a read-only array of zeros of this spec.

        A symbolic size becomes 1. The array is broadcast, so it takes no memory.
        """
        shape = [size if is_static(size) else 1 for size in spec.shape]
        return np.broadcast_to(np.zeros((), spec.dtype.numpy), shape)

    def shape(self, handle: Array) -> Tuple[int, ...]:
        """Return the shape of an array."""
        return tuple(handle.shape)

    def fetch(self, handle: Array) -> np.ndarray:
        """Return the array itself, as the result of a run."""
        return np.asarray(handle)


REFERENCE = Reference()
