"""The bits of elements, which numpy looks at without touching them."""

from typing import Any

import numpy as np

from onnx_compat.ir.dtypes import DType

__all__ = ["Bits"]


class Bits:
    """The primitives of `onnx_compat.primitives.bits`."""

    def bitcast(self, x: Any, dtype: DType) -> Any:
        return np.asarray(np.ascontiguousarray(x).view(dtype.numpy).reshape(x.shape))
