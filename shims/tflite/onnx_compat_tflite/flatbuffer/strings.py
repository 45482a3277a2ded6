"""Pack and unpack string tensors: the count, the offset of each string, the end of the last string, then the strings."""

import struct
from typing import Any, List, Sequence, Union

import numpy as np

from onnx_compat.shim import ConversionError, InvalidModelError

__all__ = ["LIMIT", "pack", "packed_size", "unpack"]

LIMIT = 2**31 - 1
"""The most bytes of a buffer: its offsets have 32 bits, with a sign."""


def pack(values: Union[Sequence[Any], "np.ndarray[Any, np.dtype[Any]]"]) -> bytes:
    """Return the buffer of a TFLite string tensor with these elements.

    An element of `bytes` is stored unchanged. Any other element is converted by `str` and encoded as UTF-8. Raises
    ConversionError if the buffer would exceed 2 GB, because its offsets have 32 bits.
    """
    encoded = _encode(values)
    ends = np.cumsum([4 * (len(encoded) + 2)] + [len(item) for item in encoded])
    if ends[-1] > LIMIT:
        raise ConversionError(
            "a string tensor takes %.2f GB, and its offsets end at 2 GB" % (ends[-1] / 1e9),
            hint="split the tensor, or pass the strings as an input",
        )
    return struct.pack("<i%di" % len(ends), len(encoded), *ends.tolist()) + b"".join(encoded)


def packed_size(values: Union[Sequence[Any], "np.ndarray[Any, np.dtype[Any]]"]) -> int:
    """Return the size in bytes of the buffer that `pack` returns for these elements, also if it would exceed 2 GB."""
    encoded = _encode(values)
    return 4 * (len(encoded) + 2) + sum(map(len, encoded))


def _encode(values: Union[Sequence[Any], "np.ndarray[Any, np.dtype[Any]]"]) -> List[bytes]:
    """Return a flat list of the elements as bytes: `bytes` unchanged, any other element as the UTF-8 of its `str`."""
    items = np.asarray(values, dtype=object).reshape(-1).tolist()
    return [item if isinstance(item, bytes) else str(item).encode("utf-8", "surrogateescape") for item in items]


def unpack(data: Union[bytes, memoryview]) -> List[bytes]:
    """Return the elements in the buffer of a string tensor; raise InvalidModelError if the buffer is malformed."""
    try:
        (count,) = struct.unpack_from("<i", data, 0)
        if not 0 <= count <= len(data) // 4:
            raise InvalidModelError("a string tensor declares %d strings in %d bytes" % (count, len(data)))
        ends = struct.unpack_from("<%di" % (count + 1), data, 4)
    except struct.error as error:
        raise InvalidModelError("a string tensor is cut short") from error
    if any(not 0 <= begin <= end <= len(data) for begin, end in zip(ends, ends[1:])):
        raise InvalidModelError("a string tensor points outside itself")
    return [bytes(data[begin:end]) for begin, end in zip(ends, ends[1:])]
