"""Payloads: the large fields of tensors, which stay in the source while its model is rewritten.

They are copied to the result in blocks. A tensor whose payloads were taken out has a mark: an entry of `external_data`
with the key `MARK`. To every other module it is a tensor with external data. The key is random, so no model that is
read has a mark.
"""

import uuid
from typing import TYPE_CHECKING, Any, Callable, Dict, Iterator, NamedTuple, Optional, Sequence

import numpy as np

from onnx_compat.errors import InvalidModelError
from onnx_compat.model.external import Folder
from onnx_compat.model.schema import TENSOR
from onnx_compat.model.tensors import read_stored
from onnx_compat.model.wire import BytesSource, parse
from onnx_compat.retarget.unknown_fields import varint

if TYPE_CHECKING:
    import onnx

__all__ = [
    "BLOCK",
    "MARK",
    "NUMBERS",
    "Payload",
    "PayloadFolder",
    "StrippedTensor",
    "add_mark",
    "field_header",
    "is_marked",
    "mark_of",
    "remove_mark",
]

#: The key of the entry of `external_data` that says which tensor it was.
MARK = "onnx-compat-%s" % uuid.uuid4().hex
#: The number of bytes that are copied at once.
BLOCK = 1 << 20
#: The numbers of the fields of a TensorProto that hold numbers: raw_data, and a list for each kind of numbers.
NUMBERS = (4, 5, 7, 9, 10, 11)
_RAW, _FLOATS, _DOUBLES = 9, 4, 10
#: The element types whose lists hold the bytes of raw_data: float_data of float32 and complex64, and double_data.
_PLAIN_LISTS = {_FLOATS: (1, 14), _DOUBLES: (11, 15)}
#: The end of the mark of a tensor that says where its data is, although it is inside.
_EXPLICIT = "!"
#: The wire type of a field with a length.
_CONTENT = 2
#: A function that yields bytes in blocks.
Blocks = Callable[[], Iterator[Any]]


class Payload(NamedTuple):
    """A large field of a tensor, whose content stays in the source.

    - number: the number of the field in TensorProto.
    - length: the length of the content in bytes.
    - blocks: a function that yields the content in blocks.
    """

    number: int
    length: int
    blocks: Blocks

    @property
    def header(self) -> bytes:
        return field_header(self.number, self.length)


class StrippedTensor(NamedTuple):
    """A tensor whose payloads were taken out. `fields`: the serialised TensorProto without the payloads."""

    fields: bytes
    payloads: Sequence[Payload]

    @property
    def length(self) -> int:
        """The number of bytes of the serialised tensor, with its payloads."""
        return len(self.fields) + sum(len(payload.header) + payload.length for payload in self.payloads)

    def blocks(self) -> Iterator[Any]:
        """Yield the serialised tensor, with its payloads, in blocks of bytes."""
        yield self.fields
        for payload in self.payloads:
            yield payload.header
            yield from payload.blocks()

    def raw_blocks(self, element_type: int) -> Iterator[Any]:
        """Yield the elements of the tensor in blocks of bytes, in the form of `TensorProto.raw_data`.

        `element_type`: the number of the tensor's element type. If a field has another form, such as a list of varints,
        all elements are decoded into a single block.
        """
        numbers = {payload.number for payload in self.payloads}
        if numbers == {_RAW} or (len(numbers) == 1 and element_type in _PLAIN_LISTS.get(min(numbers), ())):
            for payload in self.payloads:
                yield from payload.blocks()
        else:
            record, _ = parse(BytesSource(b"".join(self.blocks())), TENSOR)
            yield memoryview(read_stored(record)).cast("B")


class PayloadFolder(Folder):
    """Read the external data of a model from its folder, and the data of stripped tensors from their payloads.

    - tensors: mark -> stripped tensor.
    - folder: the folder of the model. None: `reader` refuses a tensor with external data.
    - path: the path of the model; None if it has no path.
    """

    def __init__(self, tensors: Dict[str, StrippedTensor], folder: Optional[str], path: Optional[str] = None) -> None:
        super().__init__(folder or "", path)
        self._tensors = tensors
        self._has_folder = folder is not None

    def reader(self, entries: Dict[str, str], needed: int, tensor: str) -> Callable[[], Any]:
        """Return a function that reads the data of a tensor as a uint8 array.

        - entries: key -> value, the `external_data` of the tensor.
        - needed: the number of bytes that the type and the shape of the tensor need.
        - tensor: the name of the tensor, for errors.

        Raises InvalidModelError for external data without a folder, and for a stripped tensor with another number of
        bytes than `needed`. Raises the errors of `Folder.reader` for external data.
        """
        mark = entries.get(MARK, "").rstrip(_EXPLICIT)
        if not mark:
            if not self._has_folder:
                raise InvalidModelError(
                    "tensor '%s' is stored outside of the model, which was given without its folder" % tensor,
                    hint="pass the path of the model file, not its bytes or its ModelProto",
                )
            return super().reader(entries, needed, tensor)
        stripped = self._tensors[mark]
        record, _ = parse(BytesSource(stripped.fields), TENSOR)
        element_type = int(record.data_type)

        def read() -> Any:
            array = np.empty(needed, np.uint8)
            end = 0
            for block in stripped.raw_blocks(element_type):
                begin, end = end, end + len(block)
                if end <= needed:
                    array[begin:end] = np.frombuffer(block, np.uint8)
            if end != needed:
                raise InvalidModelError(
                    "tensor '%s' has %d bytes of data where its type and shape need %d" % (tensor, end, needed),
                    hint="the model is damaged or was written wrongly: export it again",
                )
            return array

        if {payload.number for payload in stripped.payloads} != {_RAW}:
            read()  # refuses a damaged tensor now, as `load` does
        elif sum(payload.length for payload in stripped.payloads) != needed:
            read()
        return read


def field_header(number: int, length: int) -> bytes:
    """Return the header of a length-delimited field of a message: its number, wire type and length."""
    return varint(number << 3 | _CONTENT) + varint(length)


def add_mark(tensor: "onnx.TensorProto", mark: str) -> None:
    """Mark a tensor whose payloads were taken out, in place, as a tensor with external data. `remove_mark` undoes this.

    `mark`: the key of the tensor in the dict of stripped tensors.
    """
    tensor.external_data.add(key=MARK, value=mark + (_EXPLICIT if tensor.HasField("data_location") else ""))
    tensor.data_location = tensor.EXTERNAL


def is_marked(tensor: "onnx.TensorProto") -> bool:
    """Whether a tensor has a mark: its payloads were taken out."""
    return any(entry.key == MARK for entry in tensor.external_data)


def mark_of(tensor: "onnx.TensorProto") -> str:
    """Return the mark of a marked tensor."""
    return str(next(entry.value for entry in tensor.external_data if entry.key == MARK)).rstrip(_EXPLICIT)


def remove_mark(tensor: "onnx.TensorProto") -> str:
    """Remove the mark of a marked tensor, in place, and return it. The caller must put the payloads back."""
    position = next(k for k, entry in enumerate(tensor.external_data) if entry.key == MARK)
    mark = str(tensor.external_data[position].value)
    del tensor.external_data[position]
    tensor.data_location = tensor.DEFAULT
    if not mark.endswith(_EXPLICIT):
        tensor.ClearField("data_location")
    return mark.rstrip(_EXPLICIT)
