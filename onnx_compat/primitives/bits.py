"""Bitcasts: read the bits of an element as another type of the same width.

A shim reinterprets only the types that numpy has. All other types are carried as values, so a table gives their bits.
Every value of a small float is a value of bfloat16, and the upper half of its float32 bits is the index into the table.
"""

import numpy as np

from onnx_compat.errors import InvalidModelError
from onnx_compat.ir import dtypes
from onnx_compat.ir.dtypes import DType
from onnx_compat.primitives.base import primitive
from onnx_compat.primitives.elementwise import cast, elementwise, shift_left, shift_right
from onnx_compat.primitives.indexing import take
from onnx_compat.tracing.values import Tensor, TensorLike, lift


@primitive("fiubc")
def bitcast(x: TensorLike, dtype: DType) -> Tensor:
    """The bits of each element, read as an element of another type of the same width. Nothing is rounded.

    In a bitcast to bool, bits that are not zero give True. A NaN keeps its payload, except for the NaN of a carried
    type. A shim bitcasts only between numpy's floats, integers and complex numbers. The real part of a complex number
    is in the lower half of its bits.

    Raises InvalidModelError for strings, and if the widths differ.
    """
    tensor = lift(x)
    if "s" in (tensor.dtype.kind, dtype.kind) or tensor.dtype.bits != dtype.bits:
        raise InvalidModelError(
            "the bits of %s are not those of %s: the widths differ" % (tensor.dtype.name, dtype.name)
        )
    if tensor.dtype == dtype:
        return tensor
    if _is_reinterpretable(tensor.dtype) and _is_reinterpretable(dtype):
        return elementwise("bitcast", [tensor], dtype, {"dtype": dtype})
    return _from_codes(_codes(tensor), dtype)


def _is_reinterpretable(dtype: DType) -> bool:
    return dtype.native and dtype.kind != "b"


def _codes(x: Tensor) -> Tensor:
    """Return the bits of each element as an unsigned integer of the same width. A bool gives 0 or 1."""
    unsigned = DType.of("uint%d" % x.dtype.bits)
    if x.dtype.format is not None:
        upper = shift_right(bitcast(cast(x, dtypes.float32), dtypes.uint32), 16)
        return cast(upper, unsigned) if x.dtype.bits == 16 else take(_code_table(x.dtype), cast(upper, dtypes.int32), 0)
    return _reinterpret(x, unsigned)


def _from_codes(codes: Tensor, dtype: DType) -> Tensor:
    if dtype.name == "bfloat16":
        return cast(bitcast(shift_left(cast(codes, dtypes.uint32), 16), dtypes.float32), dtype)
    if dtype.format is not None:
        values = dtype.format.decode(np.arange(1 << dtype.bits))
        return take(lift(values, dtype), cast(codes, dtypes.int32), 0)
    return _reinterpret(codes, dtype)


def _reinterpret(x: Tensor, dtype: DType) -> Tensor:
    """Bitcast between an unsigned integer and a type that is no small float.

    If numpy lacks one of the types, or one is bool, the bitcast is a cast, which wraps.
    """
    native = _is_reinterpretable(x.dtype) and _is_reinterpretable(dtype)
    bits: Tensor = bitcast(x, dtype) if native else cast(x, dtype)
    return bits


def _code_table(dtype: DType) -> Tensor:
    """Return a vector of 65536 codes of the small float `dtype`: entry k is the code for the bfloat16 bits k.

    A bfloat16 number that is no value of `dtype` has the code of the rounded number.
    """
    bfloat16 = dtypes.bfloat16.format
    assert dtype.format is not None and bfloat16 is not None
    values = bfloat16.decode(np.arange(1 << 16))
    return lift(dtype.format.encode(values, saturate=False), DType.of("uint%d" % dtype.bits))
