"""Cases of `bitcast`, which reads the bits of a dtype as another dtype."""

from typing import Any

import numpy as np

from cases.making import Making, case
from onnx_compat import primitives
from onnx_compat.ir import dtypes as all_dtypes


@case("bitcast")
def bitcast(make: Making) -> Any:
    """Reinterpret the dtype under test as any dtype of its width.

    Carried dtypes get no NaN, because its bits are unspecified.
    """
    dtype = make.dtype
    make.exact = True
    array = make.values(make.shape())
    if dtype.native and dtype.kind != "b" and make.yes():
        count = array.size * array.dtype.itemsize
        array = np.frombuffer(bytes(make.order(256) * (count // 256 + 1))[:count], array.dtype).reshape(array.shape)
    target = make.choose([candidate for candidate in all_dtypes.ALL if candidate.bits == dtype.bits])
    make.note(dtype=target)
    make.feed(np.array(array))
    return lambda x: primitives.bitcast(x, target)
