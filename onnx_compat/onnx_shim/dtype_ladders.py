"""Wider dtypes in which an operator can compute, for dtypes that a target's operator does not take."""

from typing import Dict, Tuple

from onnx_compat.ir.dtypes import DType

__all__ = ["EXACT", "WRAPPING", "candidates"]

_WIDER = {
    "bool": "uint8 int32 int64 float32",
    "uint8": "int32 int64 float32",
    "int8": "int32 int64 float32",
    "uint16": "int32 int64 float32",
    "int16": "int32 int64 float32",
    "int32": "int64 float64",
    "uint32": "int64 float64",
    "float16": "float32 float64",
    "float32": "float64",
}

#: Every value of the dtype is a value of the wider one: for comparisons, divisions and functions.
EXACT: Dict[str, Tuple[str, ...]] = {name: tuple(wider.split()) for name, wider in _WIDER.items()}

#: The low bits of the result are right: for sums and products of integers, and for moves of elements of any dtype.
WRAPPING: Dict[str, Tuple[str, ...]] = {**EXACT, "uint32": ("int32", "int64"), "uint64": ("int64",)}


def candidates(dtype: DType, ladder: Dict[str, Tuple[str, ...]]) -> Tuple[DType, ...]:
    """Return the dtypes in which an operator on `dtype` can compute: the dtype itself, then the wider ones."""
    return (dtype, *map(DType.of, ladder.get(dtype.name, ())))
