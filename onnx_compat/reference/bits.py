"""Bitcasts by numpy views."""

from typing import Any

import numpy as np

from onnx_compat.ir.dtypes import DType
from onnx_compat.reference.arrays import Array

__all__ = ["Bits"]


class Bits:
    """The primitives of `onnx_compat.primitives.bits` in numpy."""

    def bitcast(self, x: Array, dtype: DType) -> Any:
        return np.asarray(np.ascontiguousarray(x).view(dtype.numpy).reshape(x.shape))
