"""The types of ONNX values: tensors, and the sequences, optionals and maps that hold them."""

from typing import NamedTuple, Optional, Tuple, Union

from onnx_compat.ir.dtypes import DType

__all__ = ["Dim", "MapType", "OpaqueType", "OptionalType", "SequenceType", "SparseTensorType", "TensorType", "Type"]

#: A size: a number, the symbol of a size that is known only at run time, or None for an unknown size.
Dim = Union[int, str, None]


class TensorType(NamedTuple):
    """The type of a tensor. A `dtype` of None is not declared. A `shape` of None means an unknown rank."""

    dtype: Optional[DType]
    shape: Optional[Tuple[Dim, ...]] = None

    @property
    def rank(self) -> Optional[int]:
        return None if self.shape is None else len(self.shape)

    @property
    def static(self) -> bool:
        """Whether the shape is declared and every size is a number."""
        return self.shape is not None and all(isinstance(size, int) for size in self.shape)

    def __str__(self) -> str:
        shape = "[…]" if self.shape is None else "[%s]" % ", ".join("?" if d is None else str(d) for d in self.shape)
        return "%s%s" % (self.dtype or "?", shape)


class SparseTensorType(NamedTuple):
    """The type of a sparse tensor: the dtype of its values, and the shape of its dense form."""

    dtype: Optional[DType]
    shape: Optional[Tuple[Dim, ...]] = None

    def __str__(self) -> str:
        return "sparse %s" % (TensorType(*self),)


class SequenceType(NamedTuple):
    """The type of a list of values of one type: `element`, None if the model does not declare it."""

    element: "Optional[Type]"

    def __str__(self) -> str:
        return "sequence(%s)" % ("?" if self.element is None else self.element,)


class OptionalType(NamedTuple):
    """The type of a value that may be empty. `element` is the type of a present value; None if the model omits it."""

    element: "Optional[Type]"

    def __str__(self) -> str:
        return "optional(%s)" % ("?" if self.element is None else self.element,)


class MapType(NamedTuple):
    """The type of a map: `key` is the dtype of its keys, `value` is the type of its values or None if it is unknown."""

    key: DType
    value: "Optional[Type]"

    def __str__(self) -> str:
        return "map(%s, %s)" % (self.key, "?" if self.value is None else self.value)


class OpaqueType(NamedTuple):
    """A type that only the exporter of the model knows, identified by a domain and a name."""

    domain: str
    name: str

    def __str__(self) -> str:
        return "opaque(%s, %s)" % self


Type = Union[TensorType, SparseTensorType, SequenceType, OptionalType, MapType, OpaqueType]
