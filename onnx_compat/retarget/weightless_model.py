"""Weightless models: models without their large weights, which are copied from the source to the result in blocks.

A weight is never decoded, and memory holds one block of it at a time. A field of more than `LARGE` bytes is a payload
if it has the numbers of an initializer or of a Constant node. See `onnx_compat.retarget.payloads`.
"""

import os
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Callable, ContextManager, Dict, Iterator, List, Optional, Tuple

from onnx_compat.errors import ConversionError, InvalidModelError
from onnx_compat.ir.dtypes import DType
from onnx_compat.model import Model, load
from onnx_compat.model.storage import stored_size
from onnx_compat.retarget.payloads import (
    BLOCK,
    MARK,
    NUMBERS,
    Payload,
    PayloadFolder,
    StrippedTensor,
    add_mark,
    field_header,
    is_marked,
    mark_of,
    remove_mark,
)
from onnx_compat.retarget.proto_stripping import can_be_stripped, strip_proto
from onnx_compat.retarget.stand_ins import element_count, replace_large_tensors, stored_tensors
from onnx_compat.retarget.wire_layout import (
    ATTRIBUTE,
    CHILDREN,
    CONSTANT_ATTRIBUTE,
    GRAPH,
    LARGE,
    MODEL,
    NODE,
    TENSOR,
    Read,
    fields_of,
)

if TYPE_CHECKING:
    import onnx

__all__ = ["LARGE", "WeightlessModel", "read_weightless_model"]

#: The largest message that protobuf reads.
_LIMIT = (1 << 31) - 1


class WeightlessModel:
    """A model without its payloads, which can be loaded, and written with the payloads.

    - proto: the onnx.ModelProto, which may be changed. Stripped tensors are marked.
    - tensors: mark -> stripped tensor.
    - folder: the folder of the external data; None: the model was given without it.
    - path: the path that the model was read from; None if it was not read from a file.
    """

    def __init__(
        self,
        proto: "onnx.ModelProto",
        tensors: Dict[str, StrippedTensor],
        folder: Optional[str] = None,
        path: Optional[str] = None,
    ) -> None:
        self.proto = proto
        self.tensors = tensors
        self.folder = folder
        self.path = path

    @property
    def data_folder(self) -> PayloadFolder:
        """A new reader for the data of stripped tensors, and of tensors with external data."""
        return PayloadFolder(self.tensors, self.folder, self.path)

    def count_weight_bytes(self) -> int:
        """Return the number of bytes of all tensors whose data is not in `proto`: stripped and external tensors."""
        outside = [tensor for tensor, _ in stored_tensors(self.proto) if tensor.data_location == tensor.EXTERNAL]
        return sum(stored_size(DType.of(tensor.data_type), element_count(tensor)) for tensor in outside)

    def payloads_of(self, tensor: "onnx.TensorProto") -> StrippedTensor:
        """Return the payloads of a marked tensor."""
        return self.tensors[mark_of(tensor)]

    def load(self) -> Model:
        """Return the model as a `Model`, as `onnx_compat.load` does. Weights are read when they are needed."""
        return load(self.proto.SerializeToString(), self.data_folder)  # type: ignore[arg-type]

    def copy(self) -> "WeightlessModel":
        """Return a copy, which may be changed. Both read the same weights."""
        proto = type(self.proto)()
        proto.CopyFrom(self.proto)
        return WeightlessModel(proto, dict(self.tensors), self.folder, self.path)

    def without_weights(self) -> "onnx.ModelProto":
        """Return a copy of `proto` in which large tensors are inputs or random numbers, for cheap checks."""
        copy = type(self.proto)()
        copy.CopyFrom(self.proto)
        replace_large_tensors(copy)
        return copy

    def assemble(self) -> "onnx.ModelProto":
        """Put the payloads back into the tensors of `proto`, in place. Return `proto`, which is then the whole model.

        External data stays outside.
        """
        for tensor, _ in stored_tensors(self.proto):
            if is_marked(tensor):
                for payload in self.tensors[remove_mark(tensor)].payloads:
                    tensor.MergeFromString(payload.header + b"".join(payload.blocks()))
        return self.proto

    def strip(self) -> None:
        """Replace `proto` by a copy without the large fields of new tensors, which are added to `tensors`."""
        self.proto = strip_proto(self.proto, self.tensors)

    def write(self, path: str) -> None:
        """Write the model with its payloads to a file. External data stays outside.

        Raises ConversionError if the file would exceed 2 GB.
        """
        length, parts = self._parts(self.proto.SerializeToString(), MODEL)
        if length > _LIMIT:
            raise ConversionError(
                "the model has %.1f GB: a file of ONNX holds at most 2 GB" % (length / 1e9),
                hint="write the weights beside it: external_data='NAME.data' (--external-data NAME.data)",
            )
        with open(path, "wb") as file:
            for part in parts:
                file.writelines(part.blocks() if isinstance(part, StrippedTensor) else [part])

    def _parts(self, data: bytes, message: str) -> Tuple[int, List[Any]]:
        """Return (length of a serialised message with its payloads, its parts: bytes and stripped tensors).

        - data: the serialised message without payloads.
        - message: the kind of the message, a key of `CHILDREN`, or `TENSOR` for a marked tensor.
        """
        if message == TENSOR:
            return self._parts_of_tensor(data)
        parts: List[Any] = []
        length = end = 0
        children = _MARKED_CHILDREN.get(message, {})
        for number, start, content, stop in fields_of(lambda begin, stop: data[begin:stop], 0, len(data)):
            if content is None or number not in children or data.find(_MARK, content, stop) < 0:
                continue
            size, inner = self._parts(data[content:stop], children[number])
            header = field_header(number, size)
            parts += [data[end:start], header, *inner]
            length += start - end + len(header) + size
            end = stop
        return length + len(data) - end, [*parts, data[end:]]

    def _parts_of_tensor(self, data: bytes) -> Tuple[int, List[Any]]:
        """Return (length of a serialised, marked tensor with its payloads, [the tensor as a `StrippedTensor`])."""
        import onnx

        tensor = onnx.TensorProto.FromString(data)
        stripped = self.tensors[remove_mark(tensor)]._replace(fields=tensor.SerializeToString())
        return stripped.length, [stripped]


_MARK = MARK.encode("ascii")
#: `CHILDREN`, with the tensors of any attribute.
_MARKED_CHILDREN = {**CHILDREN, ATTRIBUTE: {**CHILDREN[ATTRIBUTE], 5: TENSOR}}


def read_weightless_model(source: Any, folder: Optional[str] = None, only_main: bool = False) -> WeightlessModel:
    """Read a model without its large weights, and return it.

    - source: a path, bytes or a ModelProto, which is not changed.
    - folder: the folder of the external data. None: the folder of the path; without a path, external data cannot be
      read.
    - only_main: whether only initializers of the main graph are stripped.

    Raises InvalidModelError for a damaged model; `load` finds more defects. Raises OSError for a file that cannot be
    read.
    """
    if isinstance(source, (bytes, bytearray, memoryview)):
        view = memoryview(source).cast("B")
        proto, tensors = _Scanner(lambda: _open_bytes(view), len(view), only_main).scan()
        return WeightlessModel(proto, tensors, folder)
    if isinstance(source, (str, os.PathLike)):
        path = os.fspath(source)
        proto, tensors = _Scanner(lambda: _open_file(path), os.path.getsize(path), only_main).scan()
        return WeightlessModel(proto, tensors, os.path.dirname(path) or os.curdir if folder is None else folder, path)
    tensors = {}
    return WeightlessModel(strip_proto(source, tensors, only_main), tensors, folder)


@contextmanager
def _open_bytes(view: memoryview) -> Iterator[Read]:
    """Return a context that yields a function: (start, stop) -> the bytes of `view` between them."""
    yield lambda start, stop: view[start:stop]


@contextmanager
def _open_file(path: str) -> Iterator[Read]:
    """Return a context that opens a file and yields a function: (start, stop) -> the bytes of the file between them.

    The function raises InvalidModelError if the file is shorter than `stop`.
    """
    with open(path, "rb") as file:

        def read(start: int, stop: int) -> bytes:
            file.seek(start)
            data = file.read(stop - start)
            if len(data) < stop - start:
                raise InvalidModelError("the model file became shorter while it was read", hint="convert it again")
            return data

        yield read


class _Scanner:
    """Scan the fields of a serialised model, and copy them without the payloads.

    - open_source: returns a context that yields a `Read` function of the source.
    - size: the number of bytes of the source.
    - only_main: whether only initializers of the main graph are stripped.
    """

    def __init__(self, open_source: "Callable[[], ContextManager[Read]]", size: int, only_main: bool) -> None:
        self._open_source = open_source
        self._size = size
        self._only_main = only_main
        self._tensors: Dict[str, StrippedTensor] = {}
        self._read: Read = lambda start, stop: b""

    def scan(self) -> "Tuple[onnx.ModelProto, Dict[str, StrippedTensor]]":
        """Return (the model, in which stripped tensors are marked; dict of mark -> stripped tensor).

        Raises InvalidModelError for a damaged model.
        """
        import onnx

        with self._open_source() as self._read:
            data = b"".join(self._copy(MODEL, 0, self._size))
        try:
            return onnx.ModelProto.FromString(data), self._tensors
        except Exception as error:  # the errors of protobuf differ between its versions
            raise InvalidModelError("the model is damaged: %s" % error) from error

    def _copy(self, message: str, start: int, stop: int) -> List[Any]:
        """Return the bytes of a message without payloads, in parts. Stripped tensors are marked.

        `message`: the kind of the message, a key of `CHILDREN`. It lies from `start` to `stop` in the source.
        """
        children = CHILDREN[message]
        if message == NODE and self._is_constant(start, stop):
            children = {5: CONSTANT_ATTRIBUTE}
        parts: List[Any] = []
        end = start
        for number, field_start, content, field_stop in fields_of(self._read, start, stop):
            if content is None or number not in children or field_stop - content <= LARGE:
                continue
            child = children[number]
            if self._only_main and (message, child) not in _MAIN_PATH:
                continue
            inner = self._tensor(content, field_stop) if child == TENSOR else self._copy(child, content, field_stop)
            header = field_header(number, sum(map(len, inner)))
            parts += [self._read(end, field_start), header, *inner]
            end = field_stop
        return [*parts, self._read(end, stop)]

    def _is_constant(self, start: int, stop: int) -> bool:
        """Whether the NodeProto that lies from `start` to `stop` in the source is a Constant of ai.onnx."""
        texts = {4: b"", 7: b""}  # op_type and domain
        for number, _, content, field_stop in fields_of(self._read, start, stop):
            if number in texts and content is not None and field_stop - content <= LARGE:
                texts[number] = bytes(self._read(content, field_stop))
        return texts[4] == b"Constant" and texts[7] in (b"", b"ai.onnx")

    def _tensor(self, start: int, stop: int) -> List[Any]:
        """Return the bytes of the TensorProto that lies from `start` to `stop` in the source, in parts.

        If the tensor has payloads and can be stripped, it is marked and stored. Otherwise its bytes are unchanged.
        Raises InvalidModelError for a damaged tensor.
        """
        import onnx

        parts: List[Any] = []
        payloads: List[Payload] = []
        for number, field_start, content, field_stop in fields_of(self._read, start, stop):
            if number in NUMBERS and content is not None and field_stop - content > LARGE:
                payloads.append(Payload(number, field_stop - content, self._blocks(content, field_stop)))
            else:
                parts.append(self._read(field_start, field_stop))
        fields = b"".join(parts)
        try:
            tensor = onnx.TensorProto.FromString(fields)
        except Exception as error:  # the errors of protobuf differ between its versions
            raise InvalidModelError("a tensor of the model is damaged: %s" % error) from error
        if not payloads or not can_be_stripped(tensor):
            return [self._read(start, stop)]
        mark = str(len(self._tensors))
        self._tensors[mark] = StrippedTensor(fields, payloads)
        add_mark(tensor, mark)
        return [tensor.SerializeToString()]

    def _blocks(self, start: int, stop: int) -> Callable[[], Iterator[Any]]:
        """Return a function that opens the source again, and yields the bytes from `start` to `stop` in blocks."""

        def read() -> Iterator[Any]:
            with self._open_source() as read_bytes:
                for position in range(start, stop, BLOCK):
                    yield read_bytes(position, min(position + BLOCK, stop))

        return read


#: The (message, message in it) on the way to the initializers of the main graph.
_MAIN_PATH = ((MODEL, GRAPH), (GRAPH, TENSOR))
