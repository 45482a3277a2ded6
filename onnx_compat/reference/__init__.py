"""The primitives in numpy: the executable definition of each, the folder of constants, and the shim that is always there.

`REFERENCE` takes numpy arrays as handles. Arithmetic that shapes are made of also works on object arrays of ints and
symbolic sizes; a comparison of sizes that cannot be decided raises `dims.Undecided`.
"""

from typing import Any, Optional, Sequence, Tuple

import numpy as np

from onnx_compat.ir import Spec
from onnx_compat.ir.dims import is_static
from onnx_compat.ir.dtypes import DType
from onnx_compat.reference.bits import Bits
from onnx_compat.reference.control import Control
from onnx_compat.reference.elementwise import Elementwise
from onnx_compat.reference.images import Images
from onnx_compat.reference.indexing import Indexing
from onnx_compat.reference.linear import Linear
from onnx_compat.reference.random import Random
from onnx_compat.reference.reduction import Reduction
from onnx_compat.reference.shape import Shape
from onnx_compat.reference.text import Text
from onnx_compat.reference.windows import Windows
from onnx_compat.shim.interface import Emitter

__all__ = ["REFERENCE", "Reference"]


class Reference(Elementwise, Shape, Indexing, Reduction, Linear, Windows, Control, Random, Text, Images, Bits, Emitter):
    """Every primitive, by its name."""

    layout = "channels_first"
    filter_layout = "OIHW"
    concrete = True

    def constant(self, array: np.ndarray, dtype: DType) -> Any:
        return array

    def finish(self, handle: Any, dtype: DType) -> Any:
        """Always an array, never a numpy scalar; of values that the dtype has."""
        array = np.asarray(handle, object if dtype.kind == "s" else None)
        return array if dtype.native or array.dtype == object else dtype.round(array, saturate=False)

    def dim(self, handle: Any, axis: int) -> int:
        return int(handle.shape[axis])

    def element(self, handle: Any, index: Optional[int]) -> int:
        return int(handle.reshape(-1)[index or 0])

    def stack(self, scalars: Sequence[Any]) -> Any:
        return np.asarray(scalars, self.index_dtype.numpy)

    def placeholder(self, spec: Spec) -> Any:
        """Zeros, one long where the size is unknown; they take no memory."""
        shape = [size if is_static(size) else 1 for size in spec.shape]
        return np.broadcast_to(np.zeros((), spec.dtype.numpy), shape)

    def shape(self, handle: Any) -> Tuple[int, ...]:
        return tuple(handle.shape)

    def fetch(self, handle: Any) -> np.ndarray:
        return np.asarray(handle)


REFERENCE = Reference()
