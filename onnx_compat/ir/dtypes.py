"""The element types of ONNX tensors, one interned `DType` each, and how the library carries their values in numpy.

Types that numpy has are carried as themselves. The others are carried in a numpy type that holds every value of theirs
exactly: the sub-byte integers as int8 or uint8, the small floats (bfloat16, float8*, float6*, float4*) as float32,
strings as Python `str` in an object array. A carrier says nothing about the type: keep the `DType` beside the array, and
after arithmetic on carried values call `DType.round` to come back to values that the type has.

`to_public` and `from_public` translate to what users hold: ml_dtypes arrays where that package is installed, the
carriers otherwise. Nothing here imports ml_dtypes until then.
"""

import importlib
from typing import Any, Callable, Dict, Mapping, Optional, Tuple, Union

import numpy as np

from onnx_compat.errors import UnsupportedError
from onnx_compat.ir.minifloat import FORMATS, Format

__all__ = ["ALL", "DType", "from_public", "to_public"]

Array = Any


class DType:
    """One ONNX element type.

    name       "float32", "int64", "bool", "string", "bfloat16", "float8e4m3fn", "int4", "complex64" …
    onnx       its number in TensorProto.DataType
    bits       the width of one element where it is stored packed (0 for strings)
    kind       'f' float, 'i' signed, 'u' unsigned, 'b' bool, 's' string, 'c' complex
    numpy      np.dtype of the arrays that carry it inside the library
    storage    the same in words
    format     the small float format, or None
    native     numpy has the type itself, the carrier is no stand-in
    """

    __slots__ = ("bits", "format", "kind", "name", "native", "numpy", "onnx")

    def __init__(self, name: str, onnx: int, bits: int, kind: str, carrier: str) -> None:
        self.name = name
        self.onnx = onnx
        self.bits = bits
        self.kind = kind
        self.numpy = np.dtype(carrier)
        self.format: Optional[Format] = FORMATS.get(name)
        self.native = carrier == name or kind == "s"

    @staticmethod
    def of(what: Any) -> "DType":
        """The type of an onnx number (a Python int), a name, a numpy or ml_dtypes dtype, or of an array."""
        if isinstance(what, DType):
            return what
        if isinstance(what, int) and not isinstance(what, bool):
            return _look(_BY_ONNX, what)
        if isinstance(what, str):
            text = what[7:-1] if what.startswith("tensor(") else what
            return _look(_BY_NAME, _ALIASES.get(text, text))
        held = what if isinstance(what, type) else getattr(what, "dtype", what)
        try:
            kind = np.dtype("V" if held is None else held)  # numpy would take None for float64
        except TypeError:
            return _look(_BY_NAME, what)
        if kind.kind in "OUS":
            return string
        return _look(_BY_NAME, _ALIASES.get(kind.name, kind.name))

    @property
    def storage(self) -> str:
        if self.native:
            return "str objects" if self.kind == "s" else self.name
        return "%s values" % self.numpy.name

    @property
    def spelling(self) -> str:
        """The name in ONNX's own type strings: tensor(float), tensor(double)."""
        return {"float32": "float", "float64": "double"}.get(self.name, self.name)

    @property
    def min(self) -> Any:
        """The smallest finite value of a numeric type."""
        return self._limits()[0]

    @property
    def max(self) -> Any:
        """The largest finite value of a numeric type."""
        return self._limits()[1]

    def _limits(self) -> Tuple[Any, Any]:
        if self.format is not None:
            return self.format.min, self.format.max
        if self.kind == "f":
            info = np.finfo(self.numpy)
            return float(info.min), float(info.max)
        if self.kind == "i":
            return -(1 << (self.bits - 1)), (1 << (self.bits - 1)) - 1
        if self.kind == "u":
            return 0, (1 << self.bits) - 1
        if self.kind == "b":
            return False, True
        raise UnsupportedError("the type %s has no smallest and largest value" % self.name)

    def round(self, values: Array, saturate: bool = True, mode: str = "nearest") -> Array:
        """Bring computed numbers back to values of a carried type; an array of a native type is only cast.

        Small floats are rounded correctly (see `Format.encode`); the sub-byte integers wrap, as integers do.
        """
        values = np.asarray(values)
        if self.format is not None:
            return self.format.round(values, saturate, mode)
        if self.native or self.kind not in "iu":
            return values.astype(self.numpy, copy=False)
        low = values.astype(np.int64) & ((1 << self.bits) - 1)
        if self.kind == "i":
            low = low - ((low >> (self.bits - 1)) << self.bits)
        return low.astype(self.numpy)

    def __repr__(self) -> str:
        return self.name

    def __reduce__(self) -> Tuple[Callable[[Any], "DType"], Tuple[str]]:
        return (DType.of, (self.name,))


def _look(table: Mapping[Any, DType], key: Any) -> DType:
    found = table.get(key) if isinstance(key, (int, str)) else None
    if found is None:
        newest = max(ALL, key=lambda one: one.onnx)
        raise UnsupportedError(
            "ONNX has no tensor element type %r that this release knows" % (key,),
            hint="known are numbers 1 to %d (the newest is %s); a later onnx-compat may know it"
            % (newest.onnx, newest.name),
        )
    return found


float32 = DType("float32", 1, 32, "f", "float32")
uint8 = DType("uint8", 2, 8, "u", "uint8")
int8 = DType("int8", 3, 8, "i", "int8")
uint16 = DType("uint16", 4, 16, "u", "uint16")
int16 = DType("int16", 5, 16, "i", "int16")
int32 = DType("int32", 6, 32, "i", "int32")
int64 = DType("int64", 7, 64, "i", "int64")
string = DType("string", 8, 0, "s", "object")
bool_ = DType("bool", 9, 8, "b", "bool")
float16 = DType("float16", 10, 16, "f", "float16")
float64 = DType("float64", 11, 64, "f", "float64")
uint32 = DType("uint32", 12, 32, "u", "uint32")
uint64 = DType("uint64", 13, 64, "u", "uint64")
complex64 = DType("complex64", 14, 64, "c", "complex64")
complex128 = DType("complex128", 15, 128, "c", "complex128")
bfloat16 = DType("bfloat16", 16, 16, "f", "float32")
float8e4m3fn = DType("float8e4m3fn", 17, 8, "f", "float32")
float8e4m3fnuz = DType("float8e4m3fnuz", 18, 8, "f", "float32")
float8e5m2 = DType("float8e5m2", 19, 8, "f", "float32")
float8e5m2fnuz = DType("float8e5m2fnuz", 20, 8, "f", "float32")
uint4 = DType("uint4", 21, 4, "u", "uint8")
int4 = DType("int4", 22, 4, "i", "int8")
float4e2m1 = DType("float4e2m1", 23, 4, "f", "float32")
float8e8m0 = DType("float8e8m0", 24, 8, "f", "float32")
uint2 = DType("uint2", 25, 2, "u", "uint8")
int2 = DType("int2", 26, 2, "i", "int8")
float6e2m3 = DType("float6e2m3", 27, 6, "f", "float32")
float6e3m2 = DType("float6e3m2", 28, 6, "f", "float32")

#: Every element type, in the order of their ONNX numbers.
ALL: Tuple[DType, ...] = tuple(
    sorted((d for d in list(globals().values()) if isinstance(d, DType)), key=lambda d: d.onnx)
)
_BY_ONNX = {d.onnx: d for d in ALL}
_BY_NAME = {d.name: d for d in ALL}

#: The names that ml_dtypes gives to the types that numpy lacks.
_ML_DTYPES = {
    "float8e4m3fn": "float8_e4m3fn",
    "float8e4m3fnuz": "float8_e4m3fnuz",
    "float8e5m2": "float8_e5m2",
    "float8e5m2fnuz": "float8_e5m2fnuz",
    "float8e8m0": "float8_e8m0fnu",
    "float4e2m1": "float4_e2m1fn",
    "float6e2m3": "float6_e2m3fn",
    "float6e3m2": "float6_e3m2fn",
}
_ALIASES: Dict[str, str] = {theirs: ours for ours, theirs in _ML_DTYPES.items()}
_ALIASES.update(float="float32", double="float64", str="string")


def to_public(array: Array, dtype: Union[DType, str, int]) -> Array:
    """What a user is given for a carried array: an ml_dtypes array if that package knows the type, else the carrier."""
    kind = DType.of(dtype)
    theirs = None if kind.native else _ml_dtype(kind)
    array = np.asarray(array)
    if theirs is None:
        return array
    if kind.format is None:
        return array.astype(theirs)
    return kind.format.encode(array, saturate=False).view(theirs)  # a carried infinity stays one


def from_public(array: Any) -> Tuple[Array, DType]:
    """The carrier and the type of what a user holds: numpy or ml_dtypes arrays, scalars, lists, strings."""
    array = np.asarray(array)
    kind = DType.of(array)
    if kind.kind == "s":
        return _text(array), kind
    if kind.format is not None and not kind.native:
        return kind.format.decode(np.ascontiguousarray(array).view(kind.format.code_type).reshape(array.shape)), kind
    return array.astype(kind.numpy, copy=False), kind


def _text(array: Array) -> Array:
    """An object array of `str`, from numpy's own text and bytes types too."""
    out = np.empty(array.shape, object)
    for place in np.ndindex(*array.shape):
        item = array[place]
        if isinstance(item, bytes):
            item = item.decode("utf-8", "surrogateescape")
        elif not isinstance(item, str):
            raise UnsupportedError(
                "an array of Python objects holds a %s, not text" % type(item).__name__,
                hint="give numbers in an array of a numeric type, and strings in an array of str",
            )
        out[place] = str(item)
    return out


def _ml_dtype(kind: DType) -> Optional[Any]:
    """ml_dtypes' own type, or None where the package is absent or too old to know it."""
    try:
        found = getattr(importlib.import_module("ml_dtypes"), _ML_DTYPES.get(kind.name, kind.name), None)
    except ImportError:
        return None
    return None if found is None else np.dtype(found)
