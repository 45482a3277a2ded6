"""Attributes of nodes as Python values.

- float and int: float, int.
- Strings: str; bytes if they are not valid UTF-8.
- Tensors, sparse tensors too: `Constant`.
- Graphs and types: `Graph`, and the classes of `onnx_compat.model.types`.
- Lists: tuples of these. An empty list is an `Empty`, which keeps its attribute type.
- References: `AttributeReference`, only in the body of a function that is not inlined yet.
"""

from typing import TYPE_CHECKING, Any, Callable, Dict, Iterable, NamedTuple, Tuple

from onnx_compat.errors import InvalidModelError, UnsupportedError
from onnx_compat.model.initializer import Constant
from onnx_compat.model.wire import Message, numbers

if TYPE_CHECKING:
    from onnx_compat.model.read import Reader

__all__ = ["KINDS", "AttributeReference", "Empty", "attributes"]

#: AttributeProto.AttributeType -> the field that holds the value.
KINDS = {
    1: "f",
    2: "i",
    3: "s",
    4: "t",
    5: "g",
    6: "floats",
    7: "ints",
    8: "strings",
    9: "tensors",
    10: "graphs",
    11: "sparse_tensor",
    12: "sparse_tensors",
    13: "tp",
    14: "type_protos",
}


class Empty(Tuple[Any, ...]):  # noqa: SLOT001 (a subclass of tuple cannot have slots that hold a value)
    """An empty list attribute. `kind` is the number of its attribute type (AttributeProto.AttributeType)."""

    def __new__(cls, kind: int) -> "Empty":  # noqa: ARG004, PYI034 (typing.Self is newer than the floor)
        return super().__new__(cls)

    def __init__(self, kind: int) -> None:
        self.kind = kind

    def __reduce__(self) -> Any:
        return Empty, (self.kind,)


class AttributeReference(NamedTuple):
    """A reference in a function's body to the attribute `name` of the call.

    Inlining replaces the reference by the value at the call or by the function's default. Without both, it removes the
    attribute.
    """

    name: str


def attributes(records: Iterable[Message], reader: "Reader", node: str) -> Dict[str, Any]:
    """Return attribute name -> Python value for the attributes of a node, in the order of the file.

    `node` is the name of the node, for errors. A missing number is 0, a missing text "", a missing list an `Empty`. If
    an attribute has no type, as before IR version 2, the only field that is present gives the type.

    Raises InvalidModelError in these cases:

    - A name is missing or repeated.
    - An attribute has an invalid type, or no type and not exactly one field.
    - The value of a tensor, graph or type attribute is missing.

    Raises UnsupportedError for a type that is newer than this library. Raises also what `reader` raises for a tensor, a
    graph or a type.
    """
    attributes_by_name: Dict[str, Any] = {}
    for record in records:
        if not record.name or record.name in attributes_by_name:
            problem = "comes twice" if record.name else "has no name"
            raise InvalidModelError("attribute '%s' %s" % (record.name, problem), node=node)
        attributes_by_name[record.name] = _value(record, reader, node)
    return attributes_by_name


def _value(record: Message, reader: "Reader", node: str) -> Any:
    """Return the Python value of one attribute. Raises InvalidModelError and UnsupportedError as `attributes` does."""
    if record.ref_attr_name:
        return AttributeReference(record.ref_attr_name)
    kind = record.type
    if not kind:  # files before IR version 2 have no types: take that of the field that is present
        present = [number for number, field in KINDS.items() if field in vars(record)]
        kind = present[0] if len(present) == 1 else 0
    field = KINDS.get(kind)
    if field is None:
        error_type = UnsupportedError if kind > max(KINDS) else InvalidModelError
        raise error_type("attribute '%s' has the unknown type %d" % (record.name, kind), node=node)
    value = getattr(record, field)
    if value is None:
        raise InvalidModelError("attribute '%s' has no value" % record.name, node=node)
    if field in ("f", "i"):
        return value
    if field == "floats":
        return tuple(numbers(value, "float32").tolist()) or Empty(kind)
    if field == "ints":
        return tuple(numbers(value, "int64").tolist()) or Empty(kind)
    convert = _converter(field, reader)
    return convert(value) if not isinstance(value, (list, tuple)) else tuple(map(convert, value)) or Empty(kind)


def _converter(field: str, reader: "Reader") -> Callable[[Any], Any]:
    """Return the function that converts a single value of the field `field` of AttributeProto. Numbers have none."""
    if field in ("s", "strings"):
        return _string
    if field in ("g", "graphs"):
        return reader.graph
    if field in ("tp", "type_protos"):
        return reader.type
    read = reader.tensor if field in ("t", "tensors") else reader.sparse
    return lambda record: Constant.of(read(record, ""))


def _string(value: bytes) -> Any:
    """Return bytes decoded as UTF-8; bytes that are no UTF-8 unchanged."""
    try:
        return value.decode("utf-8")
    except UnicodeDecodeError:
        return value
