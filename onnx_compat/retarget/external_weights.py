"""Write the large weights of a model beside it: as external data in one file, or as a safetensors file."""

import json
import os
import struct
from typing import TYPE_CHECKING, Dict, List, Mapping, Optional, Tuple

from onnx_compat.errors import ConversionError
from onnx_compat.ir.dtypes import DType
from onnx_compat.model import Model
from onnx_compat.model.storage import encode_elements
from onnx_compat.retarget.weightless_model import WeightlessModel

if TYPE_CHECKING:
    import onnx

__all__ = ["KEEP", "SAFETENSORS", "choose_data_file", "has_external_data", "move_weights"]

#: The values of `external_data` that are no file names.
KEEP, SAFETENSORS = "keep", "safetensors"
#: The smallest weight that is written beside the model, and the alignment of weights in the file, in bytes.
_SMALLEST, _ALIGNMENT = 1024, 4096
_DTYPES = {
    "float64": "F64", "float32": "F32", "float16": "F16", "bfloat16": "BF16", "int64": "I64", "int32": "I32",
    "int16": "I16", "int8": "I8", "uint64": "U64", "uint32": "U32", "uint16": "U16", "uint8": "U8", "bool": "BOOL",
    "float8e4m3fn": "F8_E4M3", "float8e5m2": "F8_E5M2",
}  # fmt: skip


def has_external_data(proto: "onnx.ModelProto") -> bool:
    """Whether an initializer of the main graph has external data."""
    return any(tensor.data_location == tensor.EXTERNAL for tensor in proto.graph.initializer)


def choose_data_file(
    external_data: Optional[str], proto: "onnx.ModelProto", model: Model, target: str
) -> Optional[str]:
    """Return the name of the data file to write beside the path `target`. None: weights stay where they are.

    `external_data`: a file name, "safetensors", "keep", or None. None keeps the data files of a source in the same
    folder, and writes one for a source elsewhere. Raises ConversionError for a name with a folder, for the name of the
    target, and for "keep" if the source is in another folder.
    """
    stem = os.path.splitext(os.path.basename(target))[0]
    folder = os.path.dirname(os.path.abspath(model.path)) if model.path else None
    is_beside = folder is not None and os.path.realpath(folder) == os.path.realpath(os.path.dirname(target))
    if external_data == KEEP and has_external_data(proto) and not is_beside:
        raise ConversionError(
            "the external data stays in the folder of the source, and '%s' is in another" % target,
            hint="choose a path beside the source, or a file for the weights: external_data='%s.data'" % stem,
        )
    if external_data == KEEP:
        return None
    if external_data is None:
        return stem + ".onnx.data" if has_external_data(proto) and not is_beside else None
    name = stem + ".safetensors" if external_data == SAFETENSORS else external_data
    if os.path.basename(name) != name or name in ("", os.curdir, os.pardir, os.path.basename(target)):
        raise ConversionError(
            "'%s' cannot hold the external data: it is written beside the model" % name,
            hint="give the name of a file, without a folder: '%s.data'" % stem,
        )
    return name


def move_weights(weightless_model: WeightlessModel, model: Model, path: str) -> int:
    """Write the large initializers of the main graph to `path`, and let `weightless_model` refer to them. Return their number.

    A path with the suffix .safetensors gets that format; a weight of a dtype that it lacks stays in the model. `model`
    has the weights.
    """
    is_safetensors = path.lower().endswith(".safetensors")
    moved: List[Tuple[onnx.TensorProto, DType, int]] = []
    for tensor in weightless_model.proto.graph.initializer:
        stored = model.graph.initializers.get(tensor.name)
        if stored is None or stored.dtype.kind == "s" or (is_safetensors and stored.dtype.name not in _DTYPES):
            continue
        size = _stored_size(stored.shape, stored.dtype)
        is_external = tensor.data_location == tensor.EXTERNAL
        if size >= _SMALLEST or tensor.name in weightless_model.payloads or is_external:
            moved.append((tensor, stored.dtype, size))
    offsets, header = _layout(moved, is_safetensors)
    with open(path, "wb") as file:
        file.write(header)
        for (tensor, dtype, size), offset in zip(moved, offsets):
            file.write(b"\0" * (offset - file.tell()))
            file.write(encode_elements(model.graph.initializers[tensor.name].array(), dtype))
            _refer(tensor, os.path.basename(path), offset, size)
            weightless_model.payloads.pop(tensor.name, None)
    return len(moved)


def _stored_size(shape: Tuple[int, ...], dtype: DType) -> int:
    count = 1
    for size in shape:
        count *= size
    return -(-count * dtype.bits // 8) if dtype.kind != "b" else count


def _layout(moved: "List[Tuple[onnx.TensorProto, DType, int]]", is_safetensors: bool) -> Tuple[List[int], bytes]:
    """Return the offset of each weight in the file, and the bytes before the first.

    `is_safetensors`: whether a header comes first and no gaps follow. Else each offset is aligned.
    """
    offsets: List[int] = []
    if not is_safetensors:
        end = 0
        for _, _, size in moved:
            offsets.append(-(-end // _ALIGNMENT) * _ALIGNMENT)
            end = offsets[-1] + size
        return offsets, b""
    entries: Dict[str, Mapping[str, object]] = {}
    end = 0
    for tensor, dtype, size in moved:  # the format allows no gaps
        offsets.append(end)
        entries[tensor.name] = {
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
    """Let the initializer `tensor` refer to external data. Its own data is removed."""
    for field in ("raw_data", "float_data", "int32_data", "int64_data", "double_data", "uint64_data", "external_data"):
        tensor.ClearField(field)
    tensor.data_location = tensor.EXTERNAL
    for key, value in (("location", location), ("offset", str(offset)), ("length", str(size))):
        tensor.external_data.add(key=key, value=value)
