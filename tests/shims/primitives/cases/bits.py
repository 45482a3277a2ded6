"""Cases of the primitive that reads bits as another type."""

from typing import Any

import numpy as np

from cases.making import Making, case
from onnx_compat import primitives
from onnx_compat.ir import dtypes as all_dtypes


@case("bitcast")
def bitcast(make: Making) -> Any:
    """From the dtype under test to any of its width. Bits of every kind, but for carried ones no NaN: its payload is open."""
    dtype = make.dtype
    make.exact = True
    array = make.values(make.shape())
    if dtype.native and dtype.kind != "b" and make.yes():
        count = array.size * array.dtype.itemsize
        array = np.frombuffer(bytes(make.order(256) * (count // 256 + 1))[:count], array.dtype).reshape(array.shape)
    target = make.choose([one for one in all_dtypes.ALL if one.bits == dtype.bits])
    make.noted(dtype=target)
    make.feed(np.array(array))
    return lambda x: primitives.bitcast(x, target)
