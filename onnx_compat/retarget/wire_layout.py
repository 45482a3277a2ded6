"""The parts of a serialised model that lead to its tensors: which field of which message holds which message."""

from typing import Any, Callable, Dict, Iterator, Optional, Tuple

from onnx_compat.errors import InvalidModelError

__all__ = [
    "ATTRIBUTE",
    "CHILDREN",
    "CONSTANT_ATTRIBUTE",
    "FUNCTION",
    "GRAPH",
    "LARGE",
    "MODEL",
    "NODE",
    "TENSOR",
    "TRAINING",
    "Read",
    "fields_of",
]

#: The largest field of a tensor that is no payload. The trace needs the values of small tensors.
LARGE = 1 << 16
#: The wire type of a field that has a length.
_CONTENT = 2

MODEL, TRAINING, FUNCTION, GRAPH, NODE = "ModelProto", "TrainingInfoProto", "FunctionProto", "GraphProto", "NodeProto"
ATTRIBUTE, CONSTANT_ATTRIBUTE, TENSOR = "AttributeProto", "AttributeProto of a Constant", "TensorProto"

#: Message -> number of a field -> the message in it. Other fields lead to no payload.
CHILDREN: Dict[str, Dict[int, str]] = {
    MODEL: {7: GRAPH, 20: TRAINING, 25: FUNCTION},
    TRAINING: {1: GRAPH, 2: GRAPH},
    FUNCTION: {7: NODE},
    GRAPH: {1: NODE, 5: TENSOR},
    NODE: {5: ATTRIBUTE},
    ATTRIBUTE: {6: GRAPH, 11: GRAPH},
    CONSTANT_ATTRIBUTE: {5: TENSOR},
}

#: Returns the bytes from a position to another one.
Read = Callable[[int, int], Any]


def fields_of(read: Read, position: int, stop: int) -> Iterator[Tuple[int, int, Optional[int], int]]:
    """Yield (number, start, start of the content, stop) for each field of a serialised message.

    - read: returns the bytes from a position to another position.
    - position, stop: where the message begins and ends.

    The start of the content is None for a field that is not length-delimited: a number.

    Raises InvalidModelError if a field ends after `stop`, or if a varint does not end.
    """
    while position < stop:
        header = read(position, min(position + 20, stop))
        key, used = _read_varint(header, 0)
        wire_type = key & 7
        content: Optional[int] = None
        if wire_type == _CONTENT:
            length, used = _read_varint(header, used)
            content = position + used
            end = content + length
        elif wire_type == 0:
            end = position + _read_varint(header, used)[1]
        else:
            end = position + used + (8 if wire_type == 1 else 4)
        if end > stop:
            raise _changed_error()
        yield key >> 3, position, content, end
        position = end


def _read_varint(data: Any, position: int) -> Tuple[int, int]:
    """Return (number, position after it). Raises InvalidModelError if the number does not end."""
    value = shift = 0
    while position < len(data):
        byte = data[position]
        position += 1
        value |= (byte & 0x7F) << shift
        shift += 7
        if byte < 0x80:
            return value, position
    raise _changed_error()


def _changed_error() -> InvalidModelError:
    return InvalidModelError("the model is damaged, or changed while it was read", hint="convert it again")
