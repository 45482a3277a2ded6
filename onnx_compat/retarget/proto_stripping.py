"""Strip a ModelProto in memory: copy it without the large fields of its tensors, which stay in the source."""

from typing import TYPE_CHECKING, Any, Dict, Iterator, List

from onnx_compat.retarget.payloads import NUMBERS, Payload, StrippedTensor, add_mark
from onnx_compat.retarget.stand_ins import constant_of
from onnx_compat.retarget.unknown_fields import copy_unknown_fields
from onnx_compat.retarget.wire_layout import (
    ATTRIBUTE,
    CHILDREN,
    CONSTANT_ATTRIBUTE,
    GRAPH,
    LARGE,
    MODEL,
    NODE,
    TENSOR,
    fields_of,
)

if TYPE_CHECKING:
    import onnx

__all__ = ["can_be_stripped", "strip_proto"]

#: The element types of which a stand-in cannot be made: strings and complex numbers.
_KEPT_TYPES = (0, 8, 14, 15)
#: The bytes of a number in a list that is stored as an array.
_WIDTHS = {"float_data": 4, "double_data": 8}


def can_be_stripped(tensor: "onnx.TensorProto") -> bool:
    """Whether a tensor may lose its large fields: its data is in the model, and a stand-in can be made.

    False for external data, and for tensors of strings, of complex numbers or without an element type.
    """
    return tensor.data_type not in _KEPT_TYPES and tensor.data_location != tensor.EXTERNAL


def strip_proto(
    source: "onnx.ModelProto", tensors: Dict[str, StrippedTensor], only_main: bool = False
) -> "onnx.ModelProto":
    """Return a copy of a model without the large fields of its tensors.

    Each stripped tensor is marked in the copy, and added to `tensors` (mark -> stripped tensor). Its payloads are read
    from `source` later. `only_main`: whether only initializers of the main graph are stripped.
    """
    result = type(source)()
    _Stripper(tensors, only_main).copy(source, result, MODEL)
    return result


class _Stripper:
    """Copy messages without the large fields of tensors. The stripped tensors are added to `tensors`."""

    def __init__(self, tensors: Dict[str, StrippedTensor], only_main: bool) -> None:
        self._tensors = tensors
        self._only_main = only_main

    def copy(self, source: Any, target: Any, message: str) -> None:
        """Copy the message `source` to the empty message `target`, and strip the tensors in it.

        `message`: the kind of the message, a key of `CHILDREN`.
        """
        children = CHILDREN[message]
        copy_unknown_fields(source, target)
        for field, value in source.ListFields():
            child = children.get(field.number)
            if child is None or (self._only_main and (message, child) not in ((MODEL, GRAPH), (GRAPH, TENSOR))):
                _copy_field(target, field.name, value)
            elif hasattr(value, "add"):
                entries = getattr(target, field.name)
                for item in value:
                    self._copy_item(item, entries.add(), child)
            else:
                self._copy_item(value, getattr(target, field.name), child)

    def _copy_item(self, item: Any, copy: Any, message: str) -> None:
        """Copy the message `item` of the kind `message` to the empty message `copy`, and strip the tensors in it."""
        if message == TENSOR:
            self._copy_tensor(item, copy)
        elif message == NODE:
            self._copy_node(item, copy)
        else:
            self.copy(item, copy, message)

    def _copy_node(self, node: "onnx.NodeProto", copy: "onnx.NodeProto") -> None:
        """Copy a node to the empty `copy`. Strip the tensor of a Constant node, and the tensors in subgraphs."""
        is_constant = bool(constant_of(node))
        if not is_constant and not any(attribute.HasField("g") or attribute.graphs for attribute in node.attribute):
            copy.CopyFrom(node)
            return
        copy_unknown_fields(node, copy)
        for field, value in node.ListFields():
            if field.name != "attribute":
                _copy_field(copy, field.name, value)
        for attribute in node.attribute:
            self.copy(attribute, copy.attribute.add(), CONSTANT_ATTRIBUTE if is_constant else ATTRIBUTE)

    def _copy_tensor(self, tensor: "onnx.TensorProto", copy: "onnx.TensorProto") -> None:
        """Copy a tensor to the empty `copy`, without its large fields. If it has any, mark the copy and store them."""
        copy_unknown_fields(tensor, copy)
        payloads: List[Payload] = []
        for field, value in tensor.ListFields():
            if field.number in NUMBERS and can_be_stripped(tensor):
                length = _length_of(tensor, field.name, value)
                if length > LARGE:
                    payloads.append(_payload(tensor, field.name, field.number, length))
                    continue
            _copy_field(copy, field.name, value)
        if payloads:
            mark = str(len(self._tensors))
            self._tensors[mark] = StrippedTensor(copy.SerializeToString(), payloads)
            add_mark(copy, mark)


def _copy_field(target: Any, name: str, value: Any) -> None:
    """Store `value` in the field `name` of the message `target`.

    A list is appended to the field. Any other value replaces the value of the field.
    """
    field = getattr(target, name)
    if hasattr(field, "extend"):
        field.extend(value)
    elif hasattr(field, "CopyFrom"):
        field.CopyFrom(value)
    else:
        setattr(target, name, value)


def _length_of(tensor: "onnx.TensorProto", name: str, value: Any) -> int:
    """Return the length in bytes of the serialised field `name`, which has the numbers `value`.

    Return 0 for a list of varints that is too short to be large.
    """
    if name == "raw_data":
        return len(value)
    if name in _WIDTHS:
        return _WIDTHS[name] * len(value)
    return len(_content(tensor, name)) if len(value) * 10 > LARGE else 0


def _payload(tensor: "onnx.TensorProto", name: str, number: int, length: int) -> Payload:
    """Return the field `name` of a tensor, with its number and its length, as a payload in a single block."""

    def read() -> Iterator[Any]:
        yield tensor.raw_data if name == "raw_data" else _content(tensor, name)

    return Payload(number, length, read)


def _content(tensor: "onnx.TensorProto", name: str) -> bytes:
    """Return the serialised numbers of the list field `name`, without the header of the field."""
    part = type(tensor)()
    _copy_field(part, name, getattr(tensor, name))
    data = bytes(part.SerializeToString())
    (content,) = (start for _, _, start, _ in fields_of(lambda begin, stop: data[begin:stop], 0, len(data)))
    return data[content:]
