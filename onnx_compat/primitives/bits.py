"""The bits of an element, read as another type of the same width.

Only types that numpy has are reinterpreted by a shim. The others are carried as values, so their bits are looked up: every
value of a small float is one of bfloat16, whose bits are the upper half of a float32, and these index a table.
"""

from typing import Any

import numpy as np

from onnx_compat.errors import InvalidModelError
from onnx_compat.ir import dtypes
from onnx_compat.ir.dtypes import DType
from onnx_compat.primitives.base import primitive
from onnx_compat.primitives.elementwise import cast, elementwise, shift_left, shift_right
from onnx_compat.primitives.indexing import take
from onnx_compat.tracing.values import Tensor, lift


@primitive("fiubc")
def bitcast(x: Any, dtype: DType) -> Tensor:
    """The bits of each element as an element of another type that has as many: nothing is rounded, and a NaN keeps its
    payload. A shim sees but floats, integers and complex numbers of numpy's (the real part in the lower half).

    A NaN of a type that is carried in another one may come back with another payload, and what is not 0 is True.
    """
    tensor = lift(x)
    if "s" in (tensor.dtype.kind, dtype.kind) or tensor.dtype.bits != dtype.bits:
        raise InvalidModelError(
            "the bits of %s are not those of %s: the widths differ" % (tensor.dtype.name, dtype.name)
        )
    if tensor.dtype == dtype:
        return tensor
    if _native(tensor.dtype) and _native(dtype):
        return elementwise("bitcast", [tensor], dtype, {"dtype": dtype})
    return _from_codes(_codes(tensor), dtype)


def _native(dtype: DType) -> bool:
    return dtype.native and dtype.kind != "b"


def _codes(x: Tensor) -> Tensor:
    """The bits as an unsigned integer of the same width."""
    unsigned = DType.of("uint%d" % x.dtype.bits)
    if x.dtype.format is not None:
        upper = shift_right(bitcast(cast(x, dtypes.float32), dtypes.uint32), 16)
        return cast(upper, unsigned) if x.dtype.bits == 16 else take(_table(x.dtype), cast(upper, dtypes.int32), 0)
    return _read(x, unsigned)


def _from_codes(codes: Tensor, dtype: DType) -> Tensor:
    if dtype.name == "bfloat16":
        return cast(bitcast(shift_left(cast(codes, dtypes.uint32), 16), dtypes.float32), dtype)
    if dtype.format is not None:
        values = dtype.format.decode(np.arange(1 << dtype.bits))
        return take(lift(values, dtype), cast(codes, dtypes.int32), 0)
    return _read(codes, dtype)


def _read(x: Tensor, dtype: DType) -> Tensor:
    """One of the two is an unsigned integer: others that numpy lacks, and booleans, are what they wrap to."""
    native = _native(x.dtype) and _native(dtype)
    bits: Tensor = bitcast(x, dtype) if native else cast(x, dtype)
    return bits


def _table(dtype: DType) -> Tensor:
    """The code of each bfloat16, by its bits."""
    assert dtype.format is not None
    every = dtypes.bfloat16.format.decode(np.arange(1 << 16))  # type: ignore[union-attr]
    return lift(dtype.format.encode(every, saturate=False), DType.of("uint%d" % dtype.bits))
