"""The types of ONNX values: tensors, and the sequences, optionals and maps that hold them."""

from typing import NamedTuple, Optional, Tuple, Union

from onnx_compat.ir.dtypes import DType

__all__ = ["Dim", "MapType", "OpaqueType", "OptionalType", "SequenceType", "SparseTensorType", "TensorType", "Type"]

#: A size, the name of a size that is only known at run time, or nothing known at all.
Dim = Union[int, str, None]


class TensorType(NamedTuple):
    """A tensor. `dtype` is None where a model leaves it out; `shape` is None where even the rank is unknown."""

    dtype: Optional[DType]
    shape: Optional[Tuple[Dim, ...]] = None

    @property
    def rank(self) -> Optional[int]:
        return None if self.shape is None else len(self.shape)

    @property
    def static(self) -> bool:
        """Every size is a number."""
        return self.shape is not None and all(isinstance(size, int) for size in self.shape)

    def __str__(self) -> str:
        shape = "[…]" if self.shape is None else "[%s]" % ", ".join("?" if d is None else str(d) for d in self.shape)
        return "%s%s" % (self.dtype or "?", shape)


class SparseTensorType(NamedTuple):
    dtype: Optional[DType]
    shape: Optional[Tuple[Dim, ...]] = None

    def __str__(self) -> str:
        return "sparse %s" % (TensorType(*self),)


class SequenceType(NamedTuple):
    """A list of values of one type; `element` is None where a model leaves it out."""

    element: "Optional[Type]"

    def __str__(self) -> str:
        return "sequence(%s)" % ("?" if self.element is None else self.element,)


class OptionalType(NamedTuple):
    element: "Optional[Type]"

    def __str__(self) -> str:
        return "optional(%s)" % ("?" if self.element is None else self.element,)


class MapType(NamedTuple):
    key: DType
    value: "Optional[Type]"

    def __str__(self) -> str:
        return "map(%s, %s)" % (self.key, "?" if self.value is None else self.value)


class OpaqueType(NamedTuple):
    domain: str
    name: str

    def __str__(self) -> str:
        return "opaque(%s, %s)" % self


Type = Union[TensorType, SparseTensorType, SequenceType, OptionalType, MapType, OpaqueType]
