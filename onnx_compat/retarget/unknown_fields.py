"""Fields of messages that the installed onnx does not know: a model of a newer release has them."""

import importlib
from typing import Any

__all__ = ["copy_unknown_fields", "varint"]

_VARINT, _FIXED64, _CONTENT, _FIXED32 = 0, 1, 2, 5


def copy_unknown_fields(source: Any, target: Any) -> None:
    """Add the unknown fields of the message `source` to the message `target`.

    Groups are not copied: onnx.proto has none.
    """
    try:
        fields = importlib.import_module("google.protobuf.unknown_fields").UnknownFieldSet(source)
    except ImportError:  # protobuf before 4.21
        fields = source.UnknownFields()
    for field in fields:
        content = _encode(field.wire_type, field.data)
        if content is not None:
            target.MergeFromString(varint(field.field_number << 3 | field.wire_type) + content)


def _encode(wire_type: int, data: Any) -> Any:
    """Return the serialised content of a field, without its key. None for a group."""
    if wire_type == _VARINT:
        return varint(data)
    if wire_type == _CONTENT:
        return varint(len(data)) + bytes(data)
    return data.to_bytes(8 if wire_type == _FIXED64 else 4, "little") if wire_type in (_FIXED64, _FIXED32) else None


def varint(value: int) -> bytes:
    """Return a number in the variable-length form of protobuf, 7 bits a byte."""
    code = bytearray()
    while value > 0x7F:
        code.append(value & 0x7F | 0x80)
        value >>= 7
    code.append(value)
    return bytes(code)
