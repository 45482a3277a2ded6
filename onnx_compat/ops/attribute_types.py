"""Check the attributes of a node against the types that a meaning's signature declares.

`check` compares the ONNX attribute type of each value (FLOAT, INTS, ...) with the annotation of its parameter. A
parameter without an annotation, or with an annotation that names no attribute type (`Any`), accepts every value. An INT
for a FLOAT is refused, as in onnxruntime. Only a meaning from another package accepts it.
"""

import functools
import inspect
from typing import Any, Callable, Dict, FrozenSet, Union

from onnx_compat.errors import InvalidModelError
from onnx_compat.model import Empty, Graph
from onnx_compat.model.types import MapType, OpaqueType, OptionalType, SequenceType, SparseTensorType, TensorType
from onnx_compat.tracing.values import Tensor

__all__ = ["attribute_type", "check", "declared_types", "is_own"]

#: The order and the numbers of AttributeProto.AttributeType.
_NAMES = (
    "UNDEFINED FLOAT INT STRING TENSOR GRAPH FLOATS INTS STRINGS TENSORS GRAPHS"
    " SPARSE_TENSOR SPARSE_TENSORS TYPE_PROTO TYPE_PROTOS"
).split()
_BY_CLASS = {float: "FLOAT", int: "INT", bool: "INT", str: "STRING", bytes: "STRING", Tensor: "TENSOR", Graph: "GRAPH"}
_BY_CLASS.update(
    dict.fromkeys((TensorType, SparseTensorType, SequenceType, OptionalType, MapType, OpaqueType), "TYPE_PROTO")
)

#: The declared types of a parameter that accepts every value.
_ANY: FrozenSet[str] = frozenset()


def attribute_type(value: Any) -> str:
    """Return the ONNX name of the type of an attribute's value: "FLOAT", "INTS", …; "" for an unknown type.

    - A bool counts as INT, bytes as STRING.
    - A `Tensor`, also of a sparse attribute, has the type TENSOR.
    - A tuple has the type of its first item with an S: (1, 2) -> "INTS".
    - An `Empty` has the type that the model declares; any other empty tuple gives "".
    """
    kind = type(value)
    if kind is tuple:
        return attribute_type(value[0]) + "S" if value else ""
    return _NAMES[value.kind] if kind is Empty else _BY_CLASS.get(kind, "")


@functools.lru_cache(maxsize=None)
def is_own(function: Callable[..., Any]) -> bool:
    """Return whether onnx_compat itself defines the meaning `function`. Other packages can register meanings too."""
    return str(function.__module__).startswith("onnx_compat.")


@functools.lru_cache(maxsize=None)
def declared_types(annotation: Any) -> FrozenSet[str]:
    """Return the names of the attribute types that an annotation allows: {"INTS"} for Optional[Sequence[int]].

    A union gives the types of all its members except None, because every attribute may be absent.

    The empty set allows every type. It is returned if the annotation is `Any` or is absent, or if a part of it names no
    attribute type.
    """
    if isinstance(annotation, type) and annotation in _BY_CLASS:
        return frozenset([_BY_CLASS[annotation]])
    arguments = getattr(annotation, "__args__", None) or ()
    inner = [declared_types(argument) for argument in arguments if argument not in (type(None), Ellipsis)]
    if not inner or not all(inner):
        return _ANY
    union = frozenset(name for names in inner for name in names)
    # `int | None` (PEP 604) has no __origin__
    return (
        union
        if getattr(annotation, "__origin__", None) in (None, Union)
        else frozenset(argument + "S" for argument in union)
    )


@functools.lru_cache(maxsize=None)
def _declared_by(function: Callable[..., Any]) -> Dict[str, FrozenSet[str]]:
    return {
        name: declared_types(parameter.annotation) for name, parameter in inspect.signature(function).parameters.items()
    }


def check(operator: str, function: Callable[..., Any], name: str, value: Any) -> None:
    """Raise InvalidModelError if the value of an attribute has a type that the meaning does not accept.

    `function` is the meaning of `operator`. `name` is the attribute, which is a parameter of `function`. A parameter
    without declared types accepts every value.

    A meaning of onnx_compat also refuses a text that is no UTF-8. A meaning of another package accepts this text as a
    STRING, and accepts an INT for a FLOAT.
    """
    expected = _declared_by(function)[name]
    if not expected:
        return
    if is_own(function) and any(isinstance(item, bytes) for item in (value if isinstance(value, tuple) else (value,))):
        raise InvalidModelError("the attribute '%s' is no UTF-8 text" % name, hint="export the model again")
    actual = attribute_type(value)
    if actual in expected or (actual == "INT" and "FLOAT" in expected and not is_own(function)):
        return
    raise InvalidModelError(
        "the attribute '%s' has the type %s, %s expects %s"
        % (name, actual or type(value).__name__, operator, " or ".join(sorted(expected))),
        hint="write the attribute with the type that the operator's schema declares, or export the model again",
    )
