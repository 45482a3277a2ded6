"""Weightless models: models without large weights, which are copied from the source to the result in blocks.

A weight is never decoded, and memory holds one block of it at a time. A field of an initializer of more than `LARGE`
bytes is a payload: it is not in the weightless model, and is put back behind the other fields of its initializer.
"""

import io
import os
from typing import TYPE_CHECKING, Any, BinaryIO, Callable, Dict, Iterator, List, NamedTuple, Optional, Tuple

from onnx_compat.errors import ConversionError, InvalidModelError
from onnx_compat.retarget.unknown_fields import copy_unknown_fields, varint

if TYPE_CHECKING:
    import onnx

__all__ = ["LARGE", "Payload", "WeightlessModel", "read_weightless_model"]

#: The largest field of an initializer that stays in a weightless model. The trace needs the values of small initializers.
LARGE = 1 << 16
_BLOCK = 1 << 20
#: The largest message that protobuf reads.
_LIMIT = (1 << 31) - 1
#: The numbers of ModelProto.graph, GraphProto.initializer and TensorProto.name, and the wire type of their content.
_GRAPH, _INITIALIZER, _NAME, _CONTENT = 7, 5, 8, 2
#: The numbers of the fields of a TensorProto that hold numbers: raw_data, and a list for each kind of numbers.
_NUMBERS = (4, 5, 7, 9, 10, 11)


class Payload(NamedTuple):
    """A field of an initializer, with its header: its length in bytes, and a function that yields it in blocks."""

    length: int
    blocks: Callable[[], Iterator[bytes]]


class WeightlessModel:
    """A model without payloads.

    - proto: the onnx.ModelProto, which may be changed.
    - payloads: name of an initializer of the main graph -> its payloads.
    """

    def __init__(self, proto: "onnx.ModelProto", payloads: Dict[str, List[Payload]]) -> None:
        self.proto = proto
        self.payloads = payloads

    def without_weights(self) -> "onnx.ModelProto":
        """Return a copy in which an initializer with a payload or with external data is an input. Its checks are cheap."""
        from onnx_compat.retarget.protos import value_info

        copy = type(self.proto)()
        copy.CopyFrom(self.proto)
        declared = {port.name for port in copy.graph.input}
        for position in reversed(range(len(copy.graph.initializer))):
            tensor = copy.graph.initializer[position]
            if tensor.name in self.payloads or tensor.data_location == tensor.EXTERNAL:
                if tensor.name not in declared:
                    copy.graph.input.append(value_info(tensor))
                del copy.graph.initializer[position]
        return copy

    def assemble(self) -> "onnx.ModelProto":
        """Put the payloads back into the initializers, and return the whole model."""
        for tensor in self.proto.graph.initializer:
            for payload in self.payloads.pop(tensor.name, ()):
                tensor.MergeFromString(b"".join(payload.blocks()))
        return self.proto

    def write(self, path: str) -> None:
        """Write the whole model to a file. Raises ConversionError if it is too large for one file."""
        graph = type(self.proto.graph)()
        graph.CopyFrom(self.proto.graph)
        tensors = list(self.proto.graph.initializer)
        del graph.initializer[:]
        model = type(self.proto)()
        model.CopyFrom(self.proto)
        model.ClearField("graph")
        head, body = model.SerializeToString(), graph.SerializeToString()
        entries = [(tensor.SerializeToString(), self.payloads.get(tensor.name, [])) for tensor in tensors]
        sizes = [len(fields) + sum(payload.length for payload in payloads) for fields, payloads in entries]
        headers = [_header(_INITIALIZER, size) for size in sizes]
        length = len(body) + sum(map(len, headers)) + sum(sizes)
        if len(head) + length + 16 > _LIMIT:
            raise ConversionError(
                "the model has %.1f GB: a file of ONNX holds at most 2 GB" % (length / 1e9),
                hint="write the weights beside it: external_data='NAME.data' (--external-data NAME.data)",
            )
        with open(path, "wb") as file:
            file.write(head)
            file.write(_header(_GRAPH, length))
            file.write(body)
            for header, (fields, payloads) in zip(headers, entries):
                file.write(header)
                file.write(fields)
                for payload in payloads:
                    file.writelines(payload.blocks())


def _header(number: int, length: int) -> bytes:
    """Return the header of a field with content: its number, wire type and length."""
    return varint(number << 3 | _CONTENT) + varint(length)


def read_weightless_model(source: Any) -> WeightlessModel:
    """Return the weightless model of a path, bytes or a ModelProto, which `load` has accepted. A ModelProto is not changed.

    Raises InvalidModelError if the file has become shorter since.
    """
    if isinstance(source, (bytes, bytearray, memoryview)):
        return _Scanner(lambda: io.BytesIO(source), len(source)).read_model()
    if isinstance(source, (str, os.PathLike)):
        path = os.fspath(source)
        return _Scanner(lambda: open(path, "rb"), os.path.getsize(path)).read_model()
    return _from_proto(source)


def _from_proto(source: "onnx.ModelProto") -> WeightlessModel:
    proto = type(source)()
    copy_unknown_fields(source, proto)
    copy_unknown_fields(source.graph, proto.graph)
    for field, value in source.ListFields():
        if field.name != "graph":
            _copy_field(proto, field.name, value)
    for field, value in source.graph.ListFields():
        if field.name != "initializer":
            _copy_field(proto.graph, field.name, value)
    payloads: Dict[str, List[Payload]] = {}
    for tensor in source.graph.initializer:
        copy = proto.graph.initializer.add()
        copy_unknown_fields(tensor, copy)
        for field, value in tensor.ListFields():
            size = len(value) if isinstance(value, bytes) else 10 * len(value) if hasattr(value, "__len__") else 0
            if size <= LARGE or field.name in ("dims", "string_data"):
                _copy_field(copy, field.name, value)
                continue
            payloads.setdefault(tensor.name, []).append(_field_payload(tensor, field.name))
    return WeightlessModel(proto, payloads)


def _copy_field(target: Any, name: str, value: Any) -> None:
    """Copy a field of a message: a scalar, a message, or a list of either."""
    field = getattr(target, name)
    if hasattr(field, "extend"):
        field.extend(value)
    elif hasattr(field, "CopyFrom"):
        field.CopyFrom(value)
    else:
        setattr(target, name, value)


def _field_payload(tensor: "onnx.TensorProto", name: str) -> Payload:
    def content() -> bytes:
        part = type(tensor)()
        _copy_field(part, name, getattr(tensor, name))
        return bytes(part.SerializeToString())

    return Payload(len(content()), lambda: iter([content()]))


class _Scanner:
    """Scans the fields of a serialised model. It reads headers, and copies the content of what is no payload."""

    def __init__(self, open_file: Callable[[], BinaryIO], size: int) -> None:
        self.open_file = open_file
        self.size = size

    def read_model(self) -> WeightlessModel:
        import onnx

        payloads: Dict[str, List[Payload]] = {}
        with self.open_file() as file:
            parts: List[bytes] = []
            for number, start, content, stop in _fields(file, 0, self.size):
                if number == _GRAPH and content is not None:
                    graph = self.graph(file, content, stop, payloads)
                    parts += [_header(_GRAPH, len(graph)), graph]
                else:
                    parts.append(_read(file, start, stop))
        return WeightlessModel(onnx.ModelProto.FromString(b"".join(parts)), payloads)

    def graph(self, file: BinaryIO, start: int, stop: int, payloads: Dict[str, List[Payload]]) -> bytes:
        parts: List[bytes] = []
        for number, field_start, content, field_stop in _fields(file, start, stop):
            if number == _INITIALIZER and content is not None and field_stop - content > LARGE:
                tensor = self.tensor(file, content, field_stop, payloads)
                parts += [_header(_INITIALIZER, len(tensor)), tensor]
            else:
                parts.append(_read(file, field_start, field_stop))
        return b"".join(parts)

    def tensor(self, file: BinaryIO, start: int, stop: int, payloads: Dict[str, List[Payload]]) -> bytes:
        parts: List[bytes] = []
        large: List[Payload] = []
        name = ""
        for number, field_start, content, field_stop in _fields(file, start, stop):
            if number in _NUMBERS and content is not None and field_stop - content > LARGE:
                large.append(Payload(field_stop - field_start, self.blocks(field_start, field_stop)))
                continue
            field = _read(file, field_start, field_stop)
            parts.append(field)
            if number == _NAME and content is not None:
                name = field[content - field_start :].decode("utf-8", "replace")
        if large:
            payloads[name] = large
        return b"".join(parts)

    def blocks(self, start: int, stop: int) -> Callable[[], Iterator[bytes]]:
        def read() -> Iterator[bytes]:
            with self.open_file() as file:
                for position in range(start, stop, _BLOCK):
                    yield _read(file, position, min(position + _BLOCK, stop))

        return read


def _fields(file: BinaryIO, position: int, stop: int) -> Iterator[Tuple[int, int, Optional[int], int]]:
    """Yield (number, start, start of the content, stop) of each field; None for a field that has no length."""
    while position < stop:
        file.seek(position)
        header = file.read(20)
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
        yield key >> 3, position, content, end
        position = end


def _read_varint(data: bytes, position: int) -> Tuple[int, int]:
    value = shift = 0
    while position < len(data):
        byte = data[position]
        position += 1
        value |= (byte & 0x7F) << shift
        shift += 7
        if byte < 0x80:
            return value, position
    raise InvalidModelError("the model file changed while it was read", hint="convert it again")


def _read(file: BinaryIO, start: int, stop: int) -> bytes:
    file.seek(start)
    data = file.read(stop - start)
    if len(data) < stop - start:
        raise InvalidModelError("the model file became shorter while it was read", hint="convert it again")
    return data
