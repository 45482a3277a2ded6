"""String tensors: a count, where each string begins (and where the last one ends), then the bytes."""

import struct
from typing import Any, List, Sequence, Union

import numpy as np

from onnx_compat.shim import InvalidModelError

__all__ = ["pack", "unpack"]


def pack(values: Union[Sequence[Any], "np.ndarray[Any, np.dtype[Any]]"]) -> bytes:
    """The bytes of a string tensor; `str` is written as UTF-8, `bytes` as it is."""
    items = np.asarray(values, dtype=object).reshape(-1).tolist()
    encoded = [item if isinstance(item, bytes) else str(item).encode("utf-8", "surrogateescape") for item in items]
    ends = np.cumsum([4 * (len(encoded) + 2)] + [len(item) for item in encoded])
    return struct.pack("<i%di" % len(ends), len(encoded), *ends.tolist()) + b"".join(encoded)


def unpack(data: Union[bytes, memoryview]) -> List[bytes]:
    """The strings of a string tensor's bytes, which are not trusted."""
    try:
        (count,) = struct.unpack_from("<i", data, 0)
        if not 0 <= count <= len(data) // 4:
            raise InvalidModelError("a string tensor says that it holds %d strings in %d bytes" % (count, len(data)))
        ends = struct.unpack_from("<%di" % (count + 1), data, 4)
    except struct.error as error:
        raise InvalidModelError("a string tensor is cut short") from error
    if any(not 0 <= begin <= end <= len(data) for begin, end in zip(ends, ends[1:])):
        raise InvalidModelError("a string tensor points outside itself")
    return [bytes(data[begin:end]) for begin, end in zip(ends, ends[1:])]
