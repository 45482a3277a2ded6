"""The element types of ONNX tensors: one interned `DType` each, and the numpy type that carries its values.

A type that numpy has is its own carrier. Every other type is carried in a numpy type that holds all its values exactly:

- sub-byte integers in int8 or uint8
- small floats (bfloat16, float8*, float6*, float4*) in float32
- strings as Python `str` in an object array

An array of a carrier does not know the type: keep the `DType` with it. After arithmetic on carried values, call
`DType.round` to round them to values of the type.

`to_public` and `from_public` convert between carriers and the arrays of users: ml_dtypes arrays where that package is
installed, else the carriers. ml_dtypes is imported on first use.
"""

import importlib
from typing import Any, Callable, Dict, Mapping, Optional, Tuple, Union

import numpy as np

from onnx_compat.errors import UnsupportedError
from onnx_compat.ir.minifloat import FORMATS, Format

__all__ = ["ALL", "DType", "from_public", "text_carrier", "to_public"]

Array = Any  # numpy's stubs lose the dtype in most arithmetic


class DType:
    """An ONNX element type.

    Attributes:
        name: "float32", "int64", "bool", "string", "bfloat16", "float8e4m3fn", "int4", "complex64" …
        onnx: the number in TensorProto.DataType.
        bits: the width of a packed element (0 for strings).
        kind: 'f' float, 'i' signed, 'u' unsigned, 'b' bool, 's' string, 'c' complex.
        numpy: the np.dtype of the arrays that carry the type.
        storage: the carrier as text for messages.
        format: the small float format; None for a type that is not a small float.
        native: whether numpy has the type itself, so that the type is its own carrier. True for strings.
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
    def of(value: Any) -> "DType":
        """Return the DType for `value`. Raises UnsupportedError for any other value, such as a bool or None.

        `value` has one of these forms:

        - A DType, which is returned unchanged.
        - An int: the number of an ONNX type.
        - A str: the name of a DType, an ml_dtypes type or an ONNX type: "float32", "float8_e5m2", "tensor(float)".
        - A numpy or ml_dtypes dtype, or a class such as `float` or `np.int8`. str, bytes and objects give string.
        - An array or numpy scalar, which gives its own dtype: `np.int64(1)` gives int64.
        """
        if isinstance(value, DType):
            return value
        if isinstance(value, int) and not isinstance(value, bool):
            return _lookup(_BY_ONNX, value)
        if isinstance(value, str):
            text = value[7:-1] if value.startswith("tensor(") else value
            return _lookup(_BY_NAME, _ALIASES.get(text, text))
        source = value if isinstance(value, type) else getattr(value, "dtype", value)
        try:
            kind = np.dtype("V" if source is None else source)  # numpy reads None as float64
        except TypeError:
            return _lookup(_BY_NAME, value)
        if kind.kind in "OUS":
            return string
        return _lookup(_BY_NAME, _ALIASES.get(kind.name, kind.name))

    @property
    def storage(self) -> str:
        """The carrier as text: "float32" for float32, "float32 values" for bfloat16, "str objects" for string."""
        if self.native:
            return "str objects" if self.kind == "s" else self.name
        return "%s values" % self.numpy.name

    @property
    def spelling(self) -> str:
        """The name of the type in ONNX type strings such as tensor(float).

        This is "float" for float32, "double" for float64, and `name` for any other type.
        """
        return {"float32": "float", "float64": "double"}.get(self.name, self.name)

    @property
    def min(self) -> Any:
        """The lowest finite value; False for bool. For float8e8m0, the smallest positive value.

        Raises UnsupportedError for string and complex types.
        """
        return self._limits()[0]

    @property
    def max(self) -> Any:
        """The largest finite value; True for bool. Raises UnsupportedError for string and complex types."""
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
        """Round numbers to values of this type. Return an array of the carrier dtype; it may be `values` itself.

        - A native type: cast as numpy's `astype` does.
        - An integer type below 8 bits: truncate floats, and keep the low bits.
        - A small float type: round as `Format.encode` does, with `saturate` and `mode`. Other types ignore these two.
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


def _lookup(table: Mapping[Any, DType], key: object) -> DType:
    dtype = table.get(key) if isinstance(key, (int, str)) else None
    if dtype is None:
        newest = max(ALL, key=lambda candidate: candidate.onnx)
        raise UnsupportedError(
            "ONNX has no tensor element type %r that this release knows" % (key,),
            hint="known are numbers 1 to %d (the newest is %s); a later onnx-compat may know it"
            % (newest.onnx, newest.name),
        )
    return dtype


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

#: Name of a type -> its name in ml_dtypes, where the two differ.
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
    """Convert a carrier array of the type `dtype` to an ml_dtypes array.

    The carrier array itself is returned in these cases:

    - numpy has the type, or the type is string.
    - ml_dtypes is not installed, or lacks the type.
    """
    kind = DType.of(dtype)
    ml_dtype = None if kind.native else _ml_dtype(kind)
    array = np.asarray(array)
    if ml_dtype is None:
        return array
    if kind.format is None:
        return array.astype(ml_dtype)
    encoded = kind.format.encode(array, saturate=False)  # a carried infinity stays an infinity
    return np.asarray(encoded).view(ml_dtype)  # a scalar is an array too


def from_public(array: Array) -> Tuple[Array, DType]:
    """Convert a numpy or ml_dtypes array, a scalar, a list or a string to (carrier array, `DType`).

    Python numbers get numpy's default dtype. Bytes are decoded as UTF-8.

    Raises UnsupportedError if ONNX lacks the element type, or if an array of objects has an element other than str or
    bytes.
    """
    array = np.asarray(array)
    kind = DType.of(array)
    if kind.kind == "s":
        return _text(array), kind
    if kind.format is not None and not kind.native:
        return kind.format.decode(np.ascontiguousarray(array).view(kind.format.code_type).reshape(array.shape)), kind
    return array.astype(kind.numpy, copy=False), kind


def _text(array: Array) -> Array:
    """Convert an array of str or UTF-8 bytes to an object array of str.

    Raises UnsupportedError if an array of objects has any other element.
    """
    for item in array.reshape(-1) if array.dtype == object else ():
        if not isinstance(item, (str, bytes)):
            raise UnsupportedError(
                "an array of Python objects holds a %s, not text" % type(item).__name__,
                hint="give numbers in an array of a numeric type, and strings in an array of str",
            )
    return text_carrier(array)


def text_carrier(array: Array) -> Array:
    """Convert each element of an array to str. Return an object array.

    Bytes are decoded as UTF-8. A byte that is not UTF-8 becomes a surrogate ("surrogateescape"). Any other element
    becomes `str(element)`, as in onnxruntime: None becomes "None", NaN becomes "nan".
    """
    out = np.empty(array.shape, object)
    for index in np.ndindex(*array.shape):
        item = array[index]
        out[index] = item.decode("utf-8", "surrogateescape") if isinstance(item, bytes) else str(item)
    return out


def _ml_dtype(kind: DType) -> Optional[Any]:
    """Return the np.dtype that ml_dtypes has for a type; None if ml_dtypes is absent, or too old to have the type."""
    try:
        scalar_type = getattr(importlib.import_module("ml_dtypes"), _ML_DTYPES.get(kind.name, kind.name), None)
    except ImportError:
        return None
    return None if scalar_type is None else np.dtype(scalar_type)
