"""The types of ONNX values: tensors, and the sequences, optionals and maps that hold them."""

from typing import NamedTuple, Optional, Tuple, Union

from onnx_compat.ir.dtypes import DType

__all__ = ["Dim", "MapType", "OpaqueType", "OptionalType", "SequenceType", "SparseTensorType", "TensorType", "Type"]

#: A size: a number, the symbol of a size that is known only at run time, or None for an unknown size.
Dim = Union[int, str, None]


class TensorType(NamedTuple):
    """A tensor. `dtype` may be absent in a model (None); `shape` is absent where the rank is unknown (None)."""

    dtype: Optional[DType]
    shape: Optional[Tuple[Dim, ...]] = None

    @property
    def rank(self) -> Optional[int]:
        return None if self.shape is None else len(self.shape)

    @property
    def static(self) -> bool:
        """Whether every size is a number."""
        return self.shape is not None and all(isinstance(size, int) for size in self.shape)

    def __str__(self) -> str:
        shape = "[…]" if self.shape is None else "[%s]" % ", ".join("?" if d is None else str(d) for d in self.shape)
        return "%s%s" % (self.dtype or "?", shape)


class SparseTensorType(NamedTuple):
    """A sparse tensor, with the dtype of its values and its dense shape."""

    dtype: Optional[DType]
    shape: Optional[Tuple[Dim, ...]] = None

    def __str__(self) -> str:
        return "sparse %s" % (TensorType(*self),)


class SequenceType(NamedTuple):
    """A list of values of the same type. `element` may be absent in a model (None)."""

    element: "Optional[Type]"

    def __str__(self) -> str:
        return "sequence(%s)" % ("?" if self.element is None else self.element,)


class OptionalType(NamedTuple):
    """A value that may be empty."""

    element: "Optional[Type]"

    def __str__(self) -> str:
        return "optional(%s)" % ("?" if self.element is None else self.element,)


class MapType(NamedTuple):
    """A map from keys, integers or strings, to values."""

    key: DType
    value: "Optional[Type]"

    def __str__(self) -> str:
        return "map(%s, %s)" % (self.key, "?" if self.value is None else self.value)


class OpaqueType(NamedTuple):
    """A type of the exporter, identified by a domain and a name."""

    domain: str
    name: str

    def __str__(self) -> str:
        return "opaque(%s, %s)" % self


Type = Union[TensorType, SparseTensorType, SequenceType, OptionalType, MapType, OpaqueType]
