"""Write a ModelSpec to a .tflite file.

The tables come first, then the constants. These are streamed from the caller's arrays, so they take no further memory. Equal
models have equal bytes. The file is written under a temporary name, and renamed when it is complete and checked.
"""

import io
import os
import struct
import uuid
from typing import BinaryIO, Callable, List, NamedTuple, Optional, Tuple, Union

from onnx_compat.shim import ConversionError
from onnx_compat_tflite.flatbuffer.constants import Constants, stored_bytes
from onnx_compat_tflite.flatbuffer.encode import Hole, encode
from onnx_compat_tflite.flatbuffer.model import ModelSpec
from onnx_compat_tflite.flatbuffer.serialize import lower

__all__ = ["LIMIT", "is_oversized", "to_bytes", "write"]

LIMIT = 2**31 - 1
"""The largest size of a flatbuffer, whose offsets are signed 32-bit numbers."""

_ALIGNMENT = 16


def is_oversized(model: ModelSpec) -> bool:
    """Whether the model with its constants exceeds `LIMIT` (2 GB), the largest size of a flatbuffer.

    The constants must then be stored after the flatbuffer: see `outside` of `write`.

    If the constants take less than half of `LIMIT`, returns False and does not check the model. For larger constants,
    raises ConversionError if the model is invalid.
    """
    tensors = [tensor for graph in model.subgraphs for tensor in graph.tensors if tensor.buffer is not None]
    constant_bytes = sum(map(stored_bytes, tensors))
    if 2 * constant_bytes < LIMIT:  # far below the limit: skip the costly layout
        return False
    return _layout_ends(model, Constants(model), False)[0] > LIMIT


def write(
    model: ModelSpec,
    target: "Union[str, os.PathLike[str], BinaryIO]",
    outside: bool = False,
    check: Optional[Callable[[str], None]] = None,
) -> None:
    """Write a model to `target`: a path or an open binary file. At a path, the complete file replaces an older file.

    outside: store the constants after the flatbuffer, for models over 2 GB. tflite-runtime 2.14 and LiteRT read these
    files.
    check: a function that is called with the path of the temporary file, before it replaces `target`. If `check`
    raises, the temporary file is removed and `target` is unchanged. It is not called if `target` is an open file.

    Raises ConversionError if the model is invalid, or if it exceeds 2 GB without `outside`. Raises OSError if the file
    cannot be written. Passes on the exception of `check`.
    """
    layout = _lay_out(model, outside)
    if not isinstance(target, (str, os.PathLike)):
        _stream(layout, target)
        return
    folder, name = os.path.split(os.path.abspath(os.fspath(target)))
    temporary = os.path.join(folder, ".%s.%s.tmp" % (name, uuid.uuid4().hex))
    try:
        with open(temporary, "xb") as file:
            _stream(layout, file)
        del layout  # release the weights, which are in the file
        if check is not None:
            check(temporary)
        os.replace(temporary, os.path.join(folder, name))
    except BaseException:
        if os.path.exists(temporary):
            os.remove(temporary)
        raise


def to_bytes(model: ModelSpec, outside: bool = False) -> bytes:
    """Return the bytes of a .tflite file with this model.

    `outside`: store the constants after the flatbuffer, for models over 2 GB. Raises ConversionError if the model is
    invalid, or if it exceeds 2 GB without `outside`.
    """
    stream = io.BytesIO()
    write(model, stream, outside)
    return stream.getvalue()


class _Layout(NamedTuple):
    """The content of a file: the encoded `tables`, then each of `constants` at its byte position in `starts`.

    `has_lengths`: whether the constants are flatbuffer vectors. If so, the length of each is in the 4 bytes before it.
    """

    tables: bytearray
    constants: Constants
    starts: List[int]
    has_lengths: bool


def _lay_out(model: ModelSpec, outside: bool) -> _Layout:
    constants = Constants(model)
    end, tables, holes, starts = _layout_ends(model, constants, outside)
    prefix = 0 if outside else 4
    if end > LIMIT and not outside:
        raise ConversionError(
            "the model takes %.2f GB, and a flatbuffer ends at 2 GB" % (end / 1e9),
            hint="Put the constants outside the flatbuffer, for runtimes that support this, or store them as float16.",
        )
    for hole in holes:
        start = starts[hole.key - 1]
        if hole.width == 8:
            struct.pack_into("<Q", tables, hole.position, start)
        else:
            struct.pack_into("<I", tables, hole.position, start - prefix - hole.position)
    return _Layout(tables, constants, starts, not outside)


def _layout_ends(model: ModelSpec, constants: Constants, outside: bool) -> Tuple[int, bytearray, List[Hole], List[int]]:
    """Return (file size in bytes, encoded tables, holes in the tables, byte position of the data of each constant).

    With `outside`, the data of the constants is after the flatbuffer, without lengths. Otherwise the data is in the
    flatbuffer, and the 4 bytes before each constant have its length.
    """
    tables, holes = encode("Model", lower(model, constants, outside), b"TFL3")
    prefix = 0 if outside else 4
    starts, end = [], len(tables)
    for size in constants.sizes():
        start = end + prefix
        starts.append(start + -start % _ALIGNMENT)
        end = starts[-1] + size
    return end, tables, holes, starts


def _stream(layout: _Layout, file: BinaryIO) -> None:
    file.write(layout.tables)
    position = len(layout.tables)
    for start, data in zip(layout.starts, layout.constants.data()):
        length = struct.pack("<I", len(data)) if layout.has_lengths else b""
        file.write(bytes(start - len(length) - position) + length)
        file.write(data)
        position = start + len(data)
