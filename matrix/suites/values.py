"""Read recorded values as numpy arrays and Python values, with any installed onnx.

An onnx of 2022 parses current messages, but cannot make arrays of newer types. Types that numpy lacks are decoded here,
by a table of the numbers of all codes. This decoder is independent of the library's own decoder, which is under test.

The dtypes are those that the library returns: of ml_dtypes, if it has the type, else a numpy dtype that holds every
value. A sequence becomes a list, a map a dict, an empty optional None.
"""

from __future__ import annotations

import importlib
from typing import Any, Dict, List, NamedTuple, Optional, Union

import numpy as np
import onnx
from onnx import numpy_helper

__all__ = ["Value", "read_tensor", "read_value"]

Value = Union[np.ndarray, List[Any], Dict[Any, Any], None]


class _Small(NamedTuple):
    """A type that numpy lacks.

    - name: its name in ml_dtypes.
    - bits: the number of bits of an element.
    - carrier: the numpy dtype that holds its values.
    - exponent, bias: the number of bits and the bias of its exponent; 0 for an integer type.
    """

    name: str
    bits: int
    carrier: str
    exponent: int = 0
    bias: int = 0
    special: str = ""
    """The special codes.

    - `ieee`: infinities and NaNs
    - `fn`: the code of all ones is NaN
    - `fnuz`: the code of minus zero is NaN
    - `e`: a power of two; all ones is NaN
    - empty: every code is a number
    """


_SMALL: Dict[int, _Small] = {
    16: _Small("bfloat16", 16, "float32", 8, 127, "ieee"),
    17: _Small("float8_e4m3fn", 8, "float32", 4, 7, "fn"),
    18: _Small("float8_e4m3fnuz", 8, "float32", 4, 8, "fnuz"),
    19: _Small("float8_e5m2", 8, "float32", 5, 15, "ieee"),
    20: _Small("float8_e5m2fnuz", 8, "float32", 5, 16, "fnuz"),
    21: _Small("uint4", 4, "uint8"),
    22: _Small("int4", 4, "int8"),
    23: _Small("float4_e2m1fn", 4, "float32", 2, 1),
    24: _Small("float8_e8m0fnu", 8, "float32", 8, 127, "e"),
    25: _Small("uint2", 2, "uint8"),
    26: _Small("int2", 2, "int8"),
    27: _Small("float6_e2m3fn", 6, "float32", 2, 1),
    28: _Small("float6_e3m2fn", 6, "float32", 3, 3),
}


def read_value(type_: onnx.TypeProto, data: bytes) -> Value:
    """Return the value of a serialised message. `type_`: its type in the graph, which decides the protobuf class."""
    kind = type_.WhichOneof("value")
    if kind == "sequence_type":
        return _read_sequence(onnx.SequenceProto.FromString(data))
    if kind == "optional_type":
        return _read_optional(onnx.OptionalProto.FromString(data))
    if kind == "map_type":
        return _read_map(onnx.MapProto.FromString(data))
    tensor = onnx.TensorProto.FromString(data)
    kinds = onnx.TensorProto
    if (type_.tensor_type.elem_type, tensor.data_type) == (kinds.BFLOAT16, kinds.UINT16):
        tensor.data_type = kinds.BFLOAT16  # up to onnx 1.18 the bits of a bfloat16 were recorded as UINT16
    return read_tensor(tensor)


def read_tensor(tensor: onnx.TensorProto) -> np.ndarray:
    """Return a TensorProto of any type as an array; strings as objects.

    A type that numpy lacks gives its ml_dtypes dtype, or its values in a wider dtype if there is no such dtype.
    """
    small = _SMALL.get(tensor.data_type)
    if small is not None:
        array: np.ndarray = _values(small)[_codes(tensor, small.bits)].reshape(tuple(tensor.dims))
        ml_dtype = _ml_dtype(small.name)
        return array if ml_dtype is None else array.astype(ml_dtype)
    if tensor.data_type == onnx.TensorProto.STRING:
        texts = np.empty(len(tensor.string_data), object)
        texts[:] = [text.decode("utf-8", "surrogateescape") for text in tensor.string_data]
        return texts.reshape(tuple(tensor.dims))
    plain: np.ndarray = numpy_helper.to_array(tensor)
    return plain


def _read_sequence(sequence: onnx.SequenceProto) -> List[Any]:
    """Return the elements of a sequence. Its element type says which field holds them."""
    kinds = onnx.SequenceProto
    if sequence.elem_type == kinds.SEQUENCE:
        return [_read_sequence(element) for element in sequence.sequence_values]
    if sequence.elem_type == kinds.MAP:
        return [_read_map(element) for element in sequence.map_values]
    if sequence.elem_type == kinds.OPTIONAL:
        return [_read_optional(element) for element in sequence.optional_values]
    return [read_tensor(element) for element in sequence.tensor_values]


def _read_optional(optional: onnx.OptionalProto) -> Value:
    """Return the value of an optional, or None if it is empty."""
    for field, read in (
        ("tensor", read_tensor),
        ("sequence", _read_sequence),
        ("map", _read_map),
        ("optional", _read_optional),
    ):
        if optional.HasField(field + "_value"):
            content: Value = read(getattr(optional, field + "_value"))
            return content
    return None


def _read_map(map_: onnx.MapProto) -> Dict[Any, Any]:
    texts = [key.decode("utf-8") for key in map_.string_keys]
    return dict(zip(texts or map_.keys, _read_sequence(map_.values)))


def _codes(tensor: onnx.TensorProto, bits: int) -> np.ndarray:
    """Return the bits of each element of a tensor as an int64. `bits`: the number of bits of an element."""
    count = int(np.prod(tensor.dims, dtype=np.int64))
    if bits == 16:
        whole = np.frombuffer(tensor.raw_data, "<u2") if tensor.raw_data else np.array(tensor.int32_data, np.int64)
    elif bits == 6 and not tensor.raw_data:  # int32_data holds one element per entry
        whole = np.array(tensor.int32_data, np.int64)
    else:
        stored = np.frombuffer(tensor.raw_data, np.uint8) if tensor.raw_data else np.array(tensor.int32_data, np.int64)
        stream = np.unpackbits(stored.astype(np.uint8)[:, None], axis=1, bitorder="little").reshape(-1)
        parts = stream[: count * bits].reshape(count, bits)
        whole = parts.astype(np.int64) @ (1 << np.arange(bits))
    codes: np.ndarray = whole[:count].astype(np.int64) & ((1 << bits) - 1)
    return codes


_VALUES: Dict[str, np.ndarray] = {}


def _values(small: _Small) -> np.ndarray:
    """Return the array of the numbers of all codes of a type: the index is the code. It is computed once by type."""
    if small.name not in _VALUES:
        numbers = [_number(small, code) for code in range(1 << small.bits)]
        _VALUES[small.name] = np.array(numbers, np.float64).astype(small.carrier)
    return _VALUES[small.name]


def _number(small: _Small, code: int) -> float:
    """Return the number that a code of a type stands for, also NaN or an infinity."""
    if not small.exponent:
        negative = small.name.startswith("int") and code >> (small.bits - 1)
        return code - (1 << small.bits) if negative else code
    all_ones = (1 << small.exponent) - 1
    if small.special == "e":
        return float("nan") if code == all_ones else 2.0 ** (code - small.bias)
    width = small.bits - 1 - small.exponent
    negative, rest = code >> (small.bits - 1), code & ((1 << (small.bits - 1)) - 1)
    exponent, fraction = rest >> width, rest & ((1 << width) - 1)
    if small.special == "fnuz" and negative and not rest:
        return float("nan")
    if small.special == "fn" and rest == (1 << (small.bits - 1)) - 1:
        return float("nan")
    sign = -1.0 if negative else 1.0
    if small.special == "ieee" and exponent == all_ones:
        return float("nan") if fraction else sign * float("inf")
    share = fraction / (1 << width)
    return sign * (share * 2.0 ** (1 - small.bias) if not exponent else (1 + share) * 2.0 ** (exponent - small.bias))


def _ml_dtype(name: str) -> Optional[Any]:
    """Return the dtype of this name in ml_dtypes. None if ml_dtypes is not installed or lacks it."""
    try:
        scalar_type = getattr(importlib.import_module("ml_dtypes"), name, None)
    except ImportError:
        return None
    return None if scalar_type is None else np.dtype(scalar_type)
