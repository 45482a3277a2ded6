"""Decode the protobuf wire format without the protobuf library.

This library decodes models itself for three reasons:

- An old `onnx` in an old environment drops the fields of newer models, such as function overloads.
- The memory arena of protobuf neither shares the memory of a weight nor frees parts of it. Here a tensor is a view of
  the bytes of the file, or an array of its own.
- Every length is compared with the size of the file before memory is allocated.

A file is read and not mapped: an access to a mapping of a file that became shorter ends the process.
"""

import struct
from typing import Any, BinaryIO, Callable, ClassVar, Dict, Iterator, Optional, Sequence, Set, Tuple, Type

import numpy as np

from onnx_compat import limits
from onnx_compat.errors import InvalidModelError

__all__ = ["BytesSource", "Field", "FileSource", "Message", "Source", "numbers", "parse"]

Array = Any  # a numpy array: the stubs of numpy 1.16 to 2.x differ

#: The bytes of a source: `bytes`, which can be indexed and sliced, or `_FileBytes`, which can be sliced only.
Bytes = Any
#: A value of a field, whose type depends on the kind of the field.
FieldValue = Any

#: The largest depth of nested messages: the limit of protobuf itself.
DEPTH = 100
#: A message or a payload of fewer bytes is read with others in a block; a longer payload is read into an array of its
#: own.
READ = 1 << 16
#: The number of bytes in a block of a file.
_BLOCK = READ
#: The largest number of bytes before the content of a field: two varints, of which the second may be the content.
_HEADER = 20

_NOT_ONNX = "check that the file is an ONNX model and that it was copied or downloaded completely"


class Source:
    """The bytes of a model. `data` can be sliced, `size` is the number of bytes, and `take` returns arrays."""

    def __init__(self, data: Bytes, size: int) -> None:
        self.data = data
        self.size = size

    def take(self, start: int, stop: int) -> Array:
        """Return the bytes from `start` to `stop` as a uint8 array that stays valid after parsing."""
        raise NotImplementedError


class BytesSource(Source):
    """Bytes in memory. `take` returns views of the bytes."""

    def __init__(self, data: bytes) -> None:
        super().__init__(data, len(data))

    def take(self, start: int, stop: int) -> Array:
        return np.frombuffer(self.data, np.uint8, stop - start, start)


class FileSource(Source):
    """An open file of `size` bytes, read while it is parsed.

    `take` returns copies, which stay valid after the file is closed.
    """

    def __init__(self, file: BinaryIO, size: int) -> None:
        super().__init__(_FileBytes(self), size)
        self._file = file
        self._start = 0
        self._block = _CopiedSource(b"")

    def take(self, start: int, stop: int) -> Array:
        if stop - start < READ:
            return np.frombuffer(self.data[start:stop], np.uint8)
        self._file.seek(start)
        array = np.fromfile(self._file, np.uint8, stop - start)
        if array.size != stop - start:
            raise _shortened_error()
        return array

    def part(self, start: int, stop: int) -> "Tuple[Source, int, int]":
        """Return (source, start, stop) with the bytes from `start` to `stop` of the file.

        The returned source is a block in memory for fewer than `READ` bytes, else this source. The last block that was
        read is kept for later calls. Raises InvalidModelError if the file is shorter now.
        """
        if stop - start >= READ:
            return self, start, stop
        if start < self._start or stop > self._start + self._block.size:
            self._file.seek(start)
            self._start, self._block = start, _CopiedSource(self._file.read(_BLOCK))
            if self._block.size < stop - start:
                raise _shortened_error()
        return self._block, start - self._start, stop - self._start


class _FileBytes:
    """The bytes of a file as an object that can be sliced."""

    def __init__(self, source: FileSource) -> None:
        self._source = source

    def __getitem__(self, key: Any) -> Any:
        source, start, stop = self._source.part(key.start, key.stop)
        if source is self._source:
            return self._source.take(key.start, key.stop).tobytes()
        return source.data[start:stop]


class _CopiedSource(BytesSource):
    """A block of a file. `take` returns copies: an array keeps no other bytes of the block in memory."""

    def take(self, start: int, stop: int) -> Array:
        return np.frombuffer(self.data[start:stop], np.uint8)


def _shortened_error() -> InvalidModelError:
    return InvalidModelError("the model file became shorter while it was read", hint="load it again")


class Field:
    """The name and the kind of a field of a message. `many`: whether the field is repeated; its value is then a list.

    `kind` is the name of a message, or one of these:

    - int, float, text, bytes: a single value.
    - payload: bytes, as an array of the source.
    - ints, floats, doubles: repeated numbers, as a list of numbers and of packed arrays (see `numbers`).
    - skip: a field that is not read.
    """

    __slots__ = ("kind", "many", "message", "name")

    def __init__(self, name: str, kind: str, many: bool = False) -> None:
        self.name = name
        self.kind = kind
        self.many = many
        self.message: Optional[Type[Message]] = None


class Message:
    """A decoded message. Reading an absent field gives its default; `vars(record)` has the present fields only."""

    FIELDS: ClassVar[Dict[int, Field]] = {}

    def __getattr__(self, name: str) -> Any:  # only called for unknown names; tells mypy that fields are Any
        raise AttributeError(name)


def parse(source: Source, message: Type[Message]) -> Tuple[Message, Set[str]]:
    """Decode a source that is one message of the class `message`. Return (message, names of unknown fields).

    A name is a text such as "Node field 12". Unknown fields of inner messages are included. The content of unknown
    fields is skipped. Raises InvalidModelError if the bytes are damaged, and LimitError above the limit `messages`.
    """
    unknown: Set[str] = set()
    record = message()
    _decode(record, source, 0, source.size, DEPTH, unknown, iter(range(limits.limit("messages"))))
    return record, unknown


def _damaged_error(message: Type[Message], why: str) -> InvalidModelError:
    return InvalidModelError(
        "this is no ONNX model, or a damaged one: %s in its %s" % (why, message.__name__), hint=_NOT_ONNX
    )


def _varint(data: Bytes, position: int, stop: int) -> Tuple[int, int]:
    """Return an unsigned 64-bit varint and the position after it.

    Return (0, stop + 1) if the varint does not end before `stop`, or not within 10 bytes.
    """
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


def _next_field(message: Type[Message], data: Bytes, position: int, stop: int) -> Tuple[int, int, int, int, int]:
    """Return (number, wire type, value, start, end) of the field at a position. The next field begins at `end`.

    `value` is the number in a varint field, else 0. `start` and `end` bound the content, without its tag and length.
    `stop` is the end of the enclosing message, and `message` its class, for errors. Raises InvalidModelError if the
    bytes are damaged, or if the field reaches beyond `stop`.
    """
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
        raise _damaged_error(message, "an impossible wire type (%d)" % wire)
    if end > stop:
        raise _damaged_error(message, "a field reaches %d bytes past the end" % (end - stop))
    if not number:
        raise _damaged_error(message, "a field number 0")
    return number, wire, value, position, end


def _decode(
    record: Message, source: Source, position: int, stop: int, depth: int, unknown: Set[str], budget: Iterator[int]
) -> None:
    """Decode source[position:stop] into `record`, and add the names of unknown fields to `unknown`.

    A single message that is repeated is merged, as protobuf does. `depth` is the number of nesting levels that are
    left. `budget` yields once for each message that the source may have: an empty message takes two bytes of the file,
    and a hundred times as many in memory.

    Raises LimitError if `budget` ends. Raises InvalidModelError for messages that are nested too deep or damaged.
    """
    if next(budget, None) is None:
        subject = "the model, up to its %s at byte %d," % (type(record).__name__, position)
        raise limits.limit_error("messages", subject)
    message, values = type(record), record.__dict__
    if not depth:
        raise _damaged_error(message, "messages nested more than %d deep" % DEPTH)
    file = source if isinstance(source, FileSource) else None
    while position < stop:
        data, shift = source.data, 0
        if file is not None:
            block, first, _ = file.part(position, min(position + _HEADER, stop))
            data, shift = block.data, position - first
        number, wire, value, start, position = _next_field(message, data, position - shift, stop - shift)
        start, position = start + shift, position + shift
        field = message.FIELDS.get(number)
        if field is None:
            unknown.add("%s field %d" % (message.__name__, number))
        elif field.message is not None and wire == 2:
            inner = None if field.many else values.get(field.name)
            inner = inner if inner is not None else field.message()
            region = file.part(start, position) if file is not None else (source, start, position)
            _decode(inner, *region, depth - 1, unknown, budget)
            _store(values, field, inner)
        elif wire == 0 and field.kind in ("int", "ints"):
            _store(values, field, value - (1 << 64) if value >> 63 else value)
        elif field.kind != "skip":
            _store(values, field, _value(message, field, wire, source, start, position))


def _value(message: Type[Message], field: Field, wire: int, source: Source, start: int, stop: int) -> FieldValue:
    """Return the value of a field whose content is source[start:stop]. `wire`: its wire type.

    `message` is the class of the field's message, for errors. Raises InvalidModelError for a wire type that does not
    fit the kind of the field, and for damaged content.
    """
    read = _READERS.get((field.kind, wire))
    if read is None:
        raise _damaged_error(message, "field '%s' has the wrong wire type (%d)" % (field.name, wire))
    try:
        return read(source, start, stop)
    except UnicodeDecodeError:
        raise _damaged_error(message, "field '%s' is not UTF-8 text" % field.name) from None


def _store(values: Dict[str, FieldValue], field: Field, value: FieldValue) -> None:
    """Set a field in `values`, or append to its list if the field is repeated."""
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


def _scalar_reader(layout: str) -> Callable[[Source, int, int], float]:
    return lambda source, start, stop: float(struct.unpack(layout, source.data[start:stop])[0])


def _packed_varints(source: Source, start: int, stop: int) -> Array:
    """Decode the packed varints in the bytes `start` to `stop` of a source. Return an int64 vector.

    No bytes give an empty vector. Raises InvalidModelError if the last number does not end, or if a number has over 10
    bytes.
    """
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
    values = np.zeros(ends.size, np.uint64)
    for index in range(int(lengths.max())):
        has_byte = lengths > index
        values[has_byte] |= (data[starts[has_byte] + index] & 0x7F).astype(np.uint64) << np.uint64(7 * index)
    return values.view(np.int64)


def _packed_reader(layout: str) -> Callable[[Source, int, int], Array]:
    dtype = np.dtype(layout)

    def read(source: Source, start: int, stop: int) -> Array:
        if (stop - start) % dtype.itemsize:
            raise InvalidModelError(
                "this is no ONNX model, or a damaged one: packed numbers do not end", hint=_NOT_ONNX
            )
        return np.require(source.take(start, stop).view(dtype), requirements=["A"])

    return read


_READERS: Dict[Tuple[str, int], Callable[[Source, int, int], Any]] = {
    ("float", 5): _scalar_reader("<f"),
    ("text", 2): _text,
    ("bytes", 2): _bytes,
    ("payload", 2): _payload,
    ("ints", 2): _packed_varints,
    ("floats", 5): _scalar_reader("<f"),
    ("floats", 2): _packed_reader("<f4"),
    ("doubles", 1): _scalar_reader("<d"),
    ("doubles", 2): _packed_reader("<f8"),
}


def numbers(parts: Sequence[Any], dtype: str) -> Array:
    """Join the parts of a repeated number field, which are numbers and packed arrays, into one array of `dtype`.

    No parts give an empty array. A single packed array is not copied if it has the dtype.
    """
    if len(parts) == 1 and isinstance(parts[0], np.ndarray):
        return parts[0].astype(dtype, copy=False)
    if not any(isinstance(part, np.ndarray) for part in parts):
        return np.array(parts, dtype)
    return np.concatenate([np.atleast_1d(part) for part in parts]).astype(dtype)
