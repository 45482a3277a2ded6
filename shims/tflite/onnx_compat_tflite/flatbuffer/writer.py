"""A ModelSpec to a .tflite file.

The tables come first, the constants after them, streamed from the caller's arrays: the memory that writing takes is
that of the tables. The same model always gives the same bytes. A file appears under its name when it is complete, and
when `check` has accepted it; otherwise nothing stays.
"""

import io
import os
import struct
import uuid
from typing import BinaryIO, Callable, List, NamedTuple, Optional, Tuple, Union

import numpy as np

from onnx_compat.shim import ConversionError
from onnx_compat_tflite.flatbuffer.constants import Constants
from onnx_compat_tflite.flatbuffer.encode import Hole, encode
from onnx_compat_tflite.flatbuffer.model import ModelSpec
from onnx_compat_tflite.flatbuffer.serialize import lower

__all__ = ["LIMIT", "oversized", "to_bytes", "write"]

LIMIT = 2**31 - 1
"""How far the offsets inside a flatbuffer reach."""

_ALIGNMENT = 16


def oversized(model: ModelSpec) -> bool:
    """Whether the constants have to lie outside, because a flatbuffer with them would be over the limit."""
    tensors = [tensor for graph in model.subgraphs for tensor in graph.tensors if tensor.buffer is not None]
    if (
        2 * sum(np.asarray(tensor.buffer).nbytes for tensor in tensors) < LIMIT
    ):  # far from it: nothing has to be laid out
        return False
    return _ends(model, Constants(model), False)[0] > LIMIT


def write(
    model: ModelSpec,
    target: "Union[str, os.PathLike[str], BinaryIO]",
    outside: bool = False,
    check: Optional[Callable[[str], None]] = None,
) -> None:
    """Writes to a path or to a binary file that is open.

    `outside` puts the constants behind the flatbuffer instead of into it: for models over 2 GB, on runtimes that know
    it (LiteRT and tflite-runtime 2.14 do, 2.13 and older do not). `check` is called with the path of the finished file before that
    gets its name, and vetoes it by raising.
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
        del layout  # what it holds of the weights is in the file
        if check is not None:
            check(temporary)
        os.replace(temporary, os.path.join(folder, name))
    except BaseException:
        if os.path.exists(temporary):
            os.remove(temporary)
        raise


def to_bytes(model: ModelSpec, outside: bool = False) -> bytes:
    """The file in memory."""
    stream = io.BytesIO()
    write(model, stream, outside)
    return stream.getvalue()


class _Layout(NamedTuple):
    tables: bytearray
    constants: Constants
    starts: List[int]
    counted: bool
    """Whether each constant's length stands before it: it does inside a flatbuffer."""


def _lay_out(model: ModelSpec, outside: bool) -> _Layout:
    constants = Constants(model)
    end, tables, holes, starts = _ends(model, constants, outside)
    prefix = 0 if outside else 4
    if end > LIMIT and not outside:
        raise ConversionError(
            "the model takes %.2f GB, and a flatbuffer ends at 2 GB" % (end / 1e9),
            hint="Put the constants outside the flatbuffer, for runtimes that know this, or store them as float16.",
        )
    for hole in holes:
        start = starts[hole.key - 1]
        if hole.width == 8:
            struct.pack_into("<Q", tables, hole.position, start)
        else:
            struct.pack_into("<I", tables, hole.position, start - prefix - hole.position)
    return _Layout(tables, constants, starts, not outside)


def _ends(model: ModelSpec, constants: Constants, outside: bool) -> Tuple[int, bytearray, List[Hole], List[int]]:
    """Where the file ends; its tables, with holes in them, and where each constant starts."""
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
        length = struct.pack("<I", len(data)) if layout.counted else b""
        file.write(bytes(start - len(length) - position) + length)
        file.write(data)
        position = start + len(data)
