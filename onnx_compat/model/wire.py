"""Reading the protobuf wire format, without protobuf.

The library reads models itself for three reasons: an old `onnx` in an old environment drops the fields of newer models
(function overloads, attribute defaults) where this keeps them; a weight never passes through protobuf's arena, which
neither shares its memory nor gives parts of it back, so a tensor is a view of the file's bytes or an array of its own;
and every length is compared with what is there before anything is allocated.
"""

import mmap
import struct
from typing import Any, Callable, ClassVar, Dict, Optional, Sequence, Set, Tuple, Type, Union

import numpy as np

from onnx_compat.errors import InvalidModelError

__all__ = ["BytesSource", "Field", "FileSource", "Message", "Source", "numbers", "parse"]

Array = Any

#: Messages inside messages inside messages: protobuf's own limit.
DEPTH = 100
#: A payload of a file that is shorter is copied from the mapping, a longer one is read into an array of its own.
READ = 1 << 16

_NOT_ONNX = "check that the file is an ONNX model and that it was copied or downloaded completely"


class Source:
    """Bytes that can be looked at one by one, and taken out as arrays."""

    def __init__(self, data: Union[bytes, mmap.mmap], size: int) -> None:
        self.data = data
        self.size = size

    def take(self, start: int, stop: int) -> Array:
        """These bytes as a uint8 array that stays valid."""
        raise NotImplementedError


class BytesSource(Source):
    """Bytes in memory: what is taken is a view of them."""

    def __init__(self, data: bytes) -> None:
        super().__init__(data, len(data))

    def take(self, start: int, stop: int) -> Array:
        return np.frombuffer(self.data, np.uint8, stop - start, start)


class FileSource(Source):
    """An open file, mapped while it is parsed: what is taken is a copy, and the only one."""

    def __init__(self, file: Any, data: mmap.mmap) -> None:
        super().__init__(data, len(data))
        self.file = file

    def take(self, start: int, stop: int) -> Array:
        if stop - start < READ:
            return np.frombuffer(self.data[start:stop], np.uint8)
        self.file.seek(start)
        taken = np.fromfile(self.file, np.uint8, stop - start)
        if taken.size != stop - start:
            raise InvalidModelError("the model file became shorter while it was read", hint="load it again")
        return taken


class Field:
    """What a field number of a message means.

    kind: int, float, text, bytes, payload (bytes taken from the source), ints, floats, doubles (repeated: a list of numbers
    and of packed arrays, see `numbers`), skip, or the name of a message. `many`: it may come often, and makes a list.
    """

    __slots__ = ("kind", "many", "message", "name")

    def __init__(self, name: str, kind: str, many: bool = False) -> None:
        self.name = name
        self.kind = kind
        self.many = many
        self.message: Optional[Type[Message]] = None


class Message:
    """One decoded message; a field that was not there reads as its default, `vars(record)` holds those that were."""

    FIELDS: ClassVar[Dict[int, Field]] = {}

    def __getattr__(self, name: str) -> Any:  # only called for what is no field at all; tells mypy that fields are Any
        raise AttributeError(name)


def parse(source: Source, message: Type[Message]) -> Tuple[Message, Set[str]]:
    """The message that fills the source, and the fields in it that this release does not know."""
    unknown: Set[str] = set()
    record = message()
    _decode(record, source, 0, source.size, DEPTH, unknown)
    return record, unknown


def _bad(message: Type[Message], why: str) -> InvalidModelError:
    return InvalidModelError(
        "this is no ONNX model, or a damaged one: %s in its %s" % (why, message.__name__), hint=_NOT_ONNX
    )


def _varint(data: Any, position: int, stop: int) -> Tuple[int, int]:
    """An unsigned number of 64 bits and where it ends, or a position past `stop`."""
    value = shift = 0
    while position < stop:
        byte = data[position]
        position += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value & 0xFFFFFFFFFFFFFFFF, position
        shift += 7
        if shift > 63:
            break
    return 0, stop + 1


def _next(message: Type[Message], data: Any, position: int, stop: int) -> Tuple[int, int, int, int, int]:
    """The field at a position: its number and wire type, its value if that is a varint, and where its bytes are."""
    key, position = _varint(data, position, stop)
    number, wire, value = key >> 3, key & 7, 0
    if wire == 2:
        size, position = _varint(data, position, stop)
        end = position + size
    elif wire == 0:
        value, end = _varint(data, position, stop)
    elif wire in (1, 5):
        end = position + (8 if wire == 1 else 4)
    else:
        raise _bad(message, "an impossible wire type (%d)" % wire)
    if end > stop:
        raise _bad(message, "a field reaches %d bytes past the end" % (end - stop))
    if not number:
        raise _bad(message, "a field number 0")
    return number, wire, value, position, end


def _decode(record: Message, source: Source, position: int, stop: int, depth: int, unknown: Set[str]) -> None:
    """Fill a record from source[position:stop]; a message that comes twice is merged, as protobuf does."""
    message, values = type(record), record.__dict__
    if not depth:
        raise _bad(message, "messages nested more than %d deep" % DEPTH)
    while position < stop:
        number, wire, value, start, position = _next(message, source.data, position, stop)
        field = message.FIELDS.get(number)
        if field is None:
            unknown.add("%s field %d" % (message.__name__, number))
        elif field.message is not None and wire == 2:
            inner = None if field.many else values.get(field.name)
            inner = inner if inner is not None else field.message()
            _decode(inner, source, start, position, depth - 1, unknown)
            _store(values, field, inner)
        elif wire == 0 and field.kind in ("int", "ints"):
            _store(values, field, value - (1 << 64) if value >> 63 else value)
        elif field.kind != "skip":
            _store(values, field, _value(message, field, wire, source, start, position))


def _value(message: Type[Message], field: Field, wire: int, source: Source, start: int, stop: int) -> Any:
    read = _READERS.get((field.kind, wire))
    if read is None:
        raise _bad(message, "field '%s' has the wrong wire type (%d)" % (field.name, wire))
    try:
        return read(source, start, stop)
    except UnicodeDecodeError:
        raise _bad(message, "field '%s' is not UTF-8 text" % field.name) from None


def _store(values: Dict[str, Any], field: Field, value: Any) -> None:
    if not field.many:
        values[field.name] = value
    elif field.name in values:
        values[field.name].append(value)
    else:
        values[field.name] = [value]


def _text(source: Source, start: int, stop: int) -> str:
    return str(source.data[start:stop], "utf-8")


def _bytes(source: Source, start: int, stop: int) -> bytes:
    return bytes(source.data[start:stop])


def _payload(source: Source, start: int, stop: int) -> Array:
    return source.take(start, stop)


def _scalar(form: str) -> Callable[[Source, int, int], float]:
    return lambda source, start, stop: float(struct.unpack(form, source.data[start:stop])[0])


def _packed_varints(source: Source, start: int, stop: int) -> Array:
    """All the varints at once: each byte shifted to its place, then the bytes of one number added up."""
    data = source.take(start, stop)
    if not data.size:
        return np.zeros(0, np.int64)
    ends = np.flatnonzero(data < 0x80)
    if not ends.size or ends[-1] != data.size - 1:
        raise InvalidModelError("this is no ONNX model, or a damaged one: a packed number does not end", hint=_NOT_ONNX)
    starts = np.concatenate([[0], ends[:-1] + 1])
    lengths = ends - starts + 1
    if lengths.max() > 10:
        raise InvalidModelError("this is no ONNX model, or a damaged one: a number is too long", hint=_NOT_ONNX)
    found = np.zeros(ends.size, np.uint64)
    for place in range(int(lengths.max())):
        here = lengths > place
        found[here] |= (data[starts[here] + place] & 0x7F).astype(np.uint64) << np.uint64(7 * place)
    return found.view(np.int64)


def _packed(form: str) -> Callable[[Source, int, int], Array]:
    dtype = np.dtype(form)

    def read(source: Source, start: int, stop: int) -> Array:
        if (stop - start) % dtype.itemsize:
            raise InvalidModelError(
                "this is no ONNX model, or a damaged one: packed numbers do not end", hint=_NOT_ONNX
            )
        return np.require(source.take(start, stop).view(dtype), requirements=["A"])

    return read


_READERS: Dict[Tuple[str, int], Callable[[Source, int, int], Any]] = {
    ("float", 5): _scalar("<f"),
    ("text", 2): _text,
    ("bytes", 2): _bytes,
    ("payload", 2): _payload,
    ("ints", 2): _packed_varints,
    ("floats", 5): _scalar("<f"),
    ("floats", 2): _packed("<f4"),
    ("doubles", 1): _scalar("<d"),
    ("doubles", 2): _packed("<f8"),
}


def numbers(parts: Sequence[Any], dtype: str) -> Array:
    """One array from what a repeated number field gave: numbers one by one, packed arrays, or both."""
    if len(parts) == 1 and isinstance(parts[0], np.ndarray):
        return parts[0].astype(dtype, copy=False)
    if not any(isinstance(part, np.ndarray) for part in parts):
        return np.array(parts, dtype)
    return np.concatenate([np.atleast_1d(part) for part in parts]).astype(dtype)
