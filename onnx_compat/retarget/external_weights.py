"""Write the large weights of a model beside it: as external data in one file, or as a safetensors file."""

import json
import os
import struct
from typing import TYPE_CHECKING, Any, Dict, Iterator, List, Mapping, NamedTuple, Optional, Tuple

from onnx_compat.errors import ConversionError
from onnx_compat.ir.dtypes import DType
from onnx_compat.model.external import Folder
from onnx_compat.model.names import Names
from onnx_compat.model.schema import TENSOR
from onnx_compat.model.storage import stored_size
from onnx_compat.model.tensors import read_stored
from onnx_compat.model.wire import BytesSource, parse
from onnx_compat.retarget.payloads import MARK, Payload, StrippedTensor, add_mark, is_marked
from onnx_compat.retarget.stand_ins import CONSTANT, INNER, MAIN, element_count, stored_tensors
from onnx_compat.retarget.weightless_model import WeightlessModel

if TYPE_CHECKING:
    import onnx

__all__ = ["KEEP", "SAFETENSORS", "choose_data_file", "embed_small_tensors", "move_weights", "restore_external_data"]

#: The values of `external_data` that are no file names.
KEEP, SAFETENSORS = "keep", "safetensors"
#: The smallest weight that is written beside the model, and the alignment of weights in the file, in bytes.
_SMALLEST, _ALIGNMENT = 1024, 4096
#: The largest number of elements of a tensor with external data that is read, because a rule may need the values.
_SMALL = 4096
#: The key of an entry of `external_data`: the tensor has external data, and its content in the model as well.
_EMBEDDED = MARK + " embedded"
_RAW_DATA = 9
_DTYPES = {
    "float64": "F64", "float32": "F32", "float16": "F16", "bfloat16": "BF16", "int64": "I64", "int32": "I32",
    "int16": "I16", "int8": "I8", "uint64": "U64", "uint32": "U32", "uint16": "U16", "uint8": "U8", "bool": "BOOL",
    "float8e4m3fn": "F8_E4M3", "float8e5m2": "F8_E5M2",
}  # fmt: skip


def _is_external(tensor: "onnx.TensorProto") -> bool:
    """Whether the source has the data of a tensor in another file.

    True also if `embed_small_tensors` has embedded the data. False for a stripped tensor, whose data is in the source.
    """
    if any(entry.key == _EMBEDDED for entry in tensor.external_data):
        return True
    return tensor.data_location == tensor.EXTERNAL and not is_marked(tensor)


def embed_small_tensors(weightless_model: WeightlessModel, only_main: bool = False) -> None:
    """Read the external data that a trace needs into the model, in place. `restore_external_data` undoes this.

    A trace needs tensors of at most 4096 elements, complex tensors, and tensors that no stand-in can replace. Stand-ins
    can replace initializers and the tensors of Constant nodes; with `only_main`, only initializers of the main graph.

    Raises InvalidModelError for external data that cannot be read.
    """
    folder = weightless_model.data_folder
    replaceable = (MAIN,) if only_main else (MAIN, INNER, CONSTANT)
    for tensor, storage in stored_tensors(weightless_model.proto):
        if not _is_external(tensor) or (
            storage in replaceable and element_count(tensor) > _SMALL and not _is_complex(tensor)
        ):
            continue
        tensor.raw_data = b"".join(_raw_blocks(weightless_model, tensor, folder))
        tensor.external_data.add(key=_EMBEDDED)
        tensor.data_location = tensor.DEFAULT


def restore_external_data(proto: "onnx.ModelProto") -> None:
    """Undo `embed_small_tensors`, in place: remove the embedded data, and refer to the external data again."""
    for tensor, _ in stored_tensors(proto):
        if _take_entry(tensor, _EMBEDDED):
            tensor.ClearField("raw_data")
            tensor.data_location = tensor.EXTERNAL


def _take_entry(tensor: "onnx.TensorProto", key: str) -> bool:
    """Remove the entry `key` from `external_data` of `tensor`, in place. Return whether the entry was there."""
    positions = [position for position, entry in enumerate(tensor.external_data) if entry.key == key]
    for position in positions:
        del tensor.external_data[position]
    return bool(positions)


def choose_data_file(external_data: Optional[str], weightless_model: WeightlessModel, target: str) -> Optional[str]:
    """Return the name of the data file to write beside the path `target`. None: the weights stay where they are.

    `external_data` has one of these values:

    - A file name, without a folder.
    - "safetensors": the name of the target, with the suffix .safetensors.
    - "keep": no data file is written.
    - None: a data file is written only if the source has external data in another folder than that of the target. It
      has the suffix .onnx.data.

    Raises ConversionError for a name with a folder, and for the name of the target. Raises it for "keep" too, if the
    source has external data in another folder.
    """
    stem = os.path.splitext(os.path.basename(target))[0]
    has_external_data = any(_is_external(tensor) for tensor, _ in stored_tensors(weightless_model.proto))
    folder = weightless_model.folder
    is_beside = folder is not None and os.path.realpath(folder) == os.path.realpath(os.path.dirname(target))
    if external_data == KEEP and has_external_data and not is_beside:
        raise ConversionError(
            "the external data stays in the folder of the source, and '%s' is in another" % target,
            hint="choose a path beside the source, or a file for the weights: external_data='%s.data'" % stem,
        )
    if external_data == KEEP:
        return None
    if external_data is None:
        return stem + ".onnx.data" if has_external_data and not is_beside else None
    name = stem + ".safetensors" if external_data == SAFETENSORS else external_data
    if os.path.basename(name) != name or name in ("", os.curdir, os.pardir, os.path.basename(target)):
        raise ConversionError(
            "'%s' cannot hold the external data: it is written beside the model" % name,
            hint="give the name of a file, without a folder: '%s.data'" % stem,
        )
    return name


class MovableWeight(NamedTuple):
    """A tensor that is written beside the model, its dtype, and its size in bytes."""

    tensor: "onnx.TensorProto"
    dtype: DType
    size: int


def movable_weights(weightless_model: WeightlessModel, path: str, constants: bool = False) -> List[MovableWeight]:
    """Return the tensors that `move_weights` writes to the file `path`.

    These are the tensors with external data, and the initializers of at least 1024 bytes. With `constants`, the
    stripped tensors of Constant nodes are included. Strings are left out. For a path with the suffix .safetensors, so
    are tensors of a dtype that this format lacks.
    """
    is_safetensors = path.lower().endswith(".safetensors")
    moved: List[MovableWeight] = []
    for tensor, storage in stored_tensors(weightless_model.proto):
        if tensor.data_type in (0, tensor.STRING):
            continue
        dtype, is_external = DType.of(tensor.data_type), _is_external(tensor)
        size = stored_size(dtype, element_count(tensor))
        is_weight = storage in (MAIN, INNER) or (constants and storage == CONSTANT and is_marked(tensor))
        if (is_external or (is_weight and size >= _SMALLEST)) and (not is_safetensors or dtype.name in _DTYPES):
            moved.append(MovableWeight(tensor, dtype, size))
    return moved


def move_weights(weightless_model: WeightlessModel, path: str, constants: bool = False) -> None:
    """Write the large weights of a model to the file `path`, and make `weightless_model` refer to them, in place.

    The large weights are the tensors with external data, and the initializers of at least 1024 bytes. `constants`:
    whether the stripped tensors of Constant nodes are moved too.

    A path with the suffix .safetensors gets that format. A weight of a dtype that the format lacks is stored in the
    model.

    Raises InvalidModelError for external data that cannot be read.
    """
    moved = movable_weights(weightless_model, path, constants)
    is_safetensors = path.lower().endswith(".safetensors")
    offsets, header = _layout(moved, is_safetensors)
    folder = weightless_model.data_folder
    with open(path, "wb") as file:
        file.write(header)
        for (tensor, _, size), offset in zip(moved, offsets):
            file.write(b"\0" * (offset - file.tell()))
            file.writelines(_raw_blocks(weightless_model, tensor, folder))
            _refer(tensor, os.path.basename(path), offset, size)
    for tensor, _ in stored_tensors(weightless_model.proto) if is_safetensors else ():
        location = next((entry.value for entry in tensor.external_data if entry.key == "location"), "")
        if _is_external(tensor) and location != os.path.basename(path):
            _embed(weightless_model, tensor)


def _is_complex(tensor: "onnx.TensorProto") -> bool:
    return tensor.data_type in (tensor.COMPLEX64, tensor.COMPLEX128)


def _raw_blocks(weightless_model: WeightlessModel, tensor: "onnx.TensorProto", folder: Folder) -> Iterator[Any]:
    """Yield the data of a tensor in blocks of bytes, in the form of `TensorProto.raw_data`.

    `folder` reads external data. Raises InvalidModelError for external data that cannot be read.
    """
    if tensor.data_location == tensor.EXTERNAL and not is_marked(tensor):
        entries = {entry.key: entry.value for entry in tensor.external_data}
        needed = stored_size(DType.of(tensor.data_type), element_count(tensor))
        yield memoryview(folder.reader(entries, needed, tensor.name)())
    elif is_marked(tensor):
        yield from weightless_model.payloads_of(tensor).raw_blocks(tensor.data_type)
    else:
        record, _ = parse(BytesSource(tensor.SerializeToString()), TENSOR)
        yield memoryview(read_stored(record)).cast("B")


def _embed(weightless_model: WeightlessModel, tensor: "onnx.TensorProto") -> None:
    """Make the external data of a tensor a payload, in place, so that `WeightlessModel.write` stores it in the model.

    `tensor` is a tensor of `weightless_model`.
    """
    source = type(tensor)()
    source.CopyFrom(tensor)
    tensor.ClearField("external_data")
    tensor.ClearField("data_location")
    folder = weightless_model.data_folder
    size = stored_size(DType.of(tensor.data_type), element_count(tensor))
    payload = Payload(_RAW_DATA, size, lambda: _raw_blocks(weightless_model, source, folder))
    mark = str(len(weightless_model.tensors))
    weightless_model.tensors[mark] = StrippedTensor(tensor.SerializeToString(), [payload])
    add_mark(tensor, mark)


def _layout(moved: List[MovableWeight], is_safetensors: bool) -> Tuple[List[int], bytes]:
    """Return (offset of each weight in the file, bytes of the header).

    With `is_safetensors`, the file has a header and no gaps. Otherwise the header is empty, and each offset is a
    multiple of 4096.
    """
    offsets: List[int] = []
    if not is_safetensors:
        end = 0
        for entry in moved:
            offsets.append(-(-end // _ALIGNMENT) * _ALIGNMENT)
            end = offsets[-1] + entry.size
        return offsets, b""
    entries: Dict[str, Mapping[str, object]] = {}
    names = Names([])
    end = 0
    for tensor, dtype, size in moved:  # the format allows no gaps
        offsets.append(end)
        entries[names.fresh(tensor.name or "constant")] = {
            "dtype": _DTYPES[dtype.name],
            "shape": list(tensor.dims),
            "data_offsets": [end, end + size],
        }
        end += size
    text = json.dumps(entries, separators=(",", ":")).encode("utf-8")
    text += b" " * (-len(text) % 8)
    header = struct.pack("<Q", len(text)) + text
    return [offset + len(header) for offset in offsets], header


def _refer(tensor: "onnx.TensorProto", location: str, offset: int, size: int) -> None:
    """Make a tensor refer to `size` bytes at `offset` of the file `location`, in place. Its own data is removed."""
    for field in ("raw_data", "float_data", "int32_data", "int64_data", "double_data", "uint64_data", "external_data"):
        tensor.ClearField(field)
    tensor.data_location = tensor.EXTERNAL
    for key, value in (("location", location), ("offset", str(offset)), ("length", str(size))):
        tensor.external_data.add(key=key, value=value)
