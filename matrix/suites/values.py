"""What the recorded files hold, as numpy and Python values, whatever onnx is installed.

An onnx of 2022 parses the messages of today, and cannot make arrays of their types. Those that numpy lacks are decoded
here, by a table of all their values, apart from the library's own decoder, which is among the things under test. They
come out as the library gives them to a user: an ml_dtypes array where that package knows the type, else in a numpy type
that holds every value of theirs. A sequence is a list, a map a dict, an empty optional None.
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
    """A type that numpy lacks: its name in ml_dtypes, its bits, and the numpy type that carries it."""

    name: str
    bits: int
    carrier: str
    exponent: int = 0
    bias: int = 0
    special: str = ""
    """`ieee`: infinities and NaNs; `fn`: only the code of all ones is NaN; `fnuz`: only that of minus zero is; `e`: a
    power of two, all ones is NaN; none: every code is a number.
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
    """The value in a file, which is of the message that the type in the graph asks for."""
    kind = type_.WhichOneof("value")
    if kind == "sequence_type":
        return _sequence(onnx.SequenceProto.FromString(data))
    if kind == "optional_type":
        return _optional(onnx.OptionalProto.FromString(data))
    if kind == "map_type":
        return _map(onnx.MapProto.FromString(data))
    tensor = onnx.TensorProto.FromString(data)
    kinds = onnx.TensorProto
    if (type_.tensor_type.elem_type, tensor.data_type) == (kinds.BFLOAT16, kinds.UINT16):
        tensor.data_type = kinds.BFLOAT16  # up to onnx 1.18 its bits were written under the name of what numpy has
    return read_tensor(tensor)


def read_tensor(tensor: onnx.TensorProto) -> np.ndarray:
    small = _SMALL.get(tensor.data_type)
    if small is not None:
        array: np.ndarray = _values(small)[_codes(tensor, small.bits)].reshape(tuple(tensor.dims))
        theirs = _ml_dtype(small.name)
        return array if theirs is None else array.astype(theirs)
    if tensor.data_type == onnx.TensorProto.STRING:
        texts = np.empty(len(tensor.string_data), object)
        texts[:] = [text.decode("utf-8", "surrogateescape") for text in tensor.string_data]
        return texts.reshape(tuple(tensor.dims))
    plain: np.ndarray = numpy_helper.to_array(tensor)
    return plain


def _sequence(sequence: onnx.SequenceProto) -> List[Any]:
    """Of the field that its type names; a sequence of a wrong type is of none."""
    kinds = onnx.SequenceProto
    if sequence.elem_type == kinds.SEQUENCE:
        return [_sequence(one) for one in sequence.sequence_values]
    if sequence.elem_type == kinds.MAP:
        return [_map(one) for one in sequence.map_values]
    if sequence.elem_type == kinds.OPTIONAL:
        return [_optional(one) for one in sequence.optional_values]
    return [read_tensor(one) for one in sequence.tensor_values]


def _optional(optional: onnx.OptionalProto) -> Value:
    """None also where the element's type is told, and there is none."""
    for field, read in (("tensor", read_tensor), ("sequence", _sequence), ("map", _map), ("optional", _optional)):
        if optional.HasField(field + "_value"):
            found: Value = read(getattr(optional, field + "_value"))
            return found
    return None


def _map(map_: onnx.MapProto) -> Dict[Any, Any]:
    texts = [key.decode("utf-8") for key in map_.string_keys]
    return dict(zip(texts or map_.keys, _sequence(map_.values)))


def _codes(tensor: onnx.TensorProto, bits: int) -> np.ndarray:
    """The bits of each element, as a whole number."""
    count = int(np.prod(tensor.dims, dtype=np.int64))
    if bits == 16:
        whole = np.frombuffer(tensor.raw_data, "<u2") if tensor.raw_data else np.array(tensor.int32_data, np.int64)
    elif bits == 6 and not tensor.raw_data:  # an element each
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
    """The number of each code."""
    if small.name not in _VALUES:
        numbers = [_number(small, code) for code in range(1 << small.bits)]
        _VALUES[small.name] = np.array(numbers, np.float64).astype(small.carrier)
    return _VALUES[small.name]


def _number(small: _Small, code: int) -> float:
    if not small.exponent:
        negative = small.name.startswith("int") and code >> (small.bits - 1)
        return code - (1 << small.bits) if negative else code
    ones = (1 << small.exponent) - 1
    if small.special == "e":
        return float("nan") if code == ones else 2.0 ** (code - small.bias)
    width = small.bits - 1 - small.exponent
    negative, rest = code >> (small.bits - 1), code & ((1 << (small.bits - 1)) - 1)
    exponent, fraction = rest >> width, rest & ((1 << width) - 1)
    if small.special == "fnuz" and negative and not rest:
        return float("nan")
    if small.special == "fn" and rest == (1 << (small.bits - 1)) - 1:
        return float("nan")
    sign = -1.0 if negative else 1.0
    if small.special == "ieee" and exponent == ones:
        return float("nan") if fraction else sign * float("inf")
    share = fraction / (1 << width)
    return sign * (share * 2.0 ** (1 - small.bias) if not exponent else (1 + share) * 2.0 ** (exponent - small.bias))


def _ml_dtype(name: str) -> Optional[Any]:
    try:
        found = getattr(importlib.import_module("ml_dtypes"), name, None)
    except ImportError:
        return None
    return None if found is None else np.dtype(found)
