"""Stored elements and carried ones: how raw_data packs each type, in both directions."""

from typing import Any, Tuple

import numpy as np

from onnx_compat.ir.dtypes import DType

__all__ = ["decode_elements", "encode_elements", "join", "stored_size"]

Array = Any


def stored_size(dtype: DType, count: int) -> int:
    """The bytes that `count` elements take in raw_data."""
    return (count * dtype.bits + 7) // 8


def decode_elements(data: Array, dtype: DType, shape: Tuple[int, ...]) -> Array:
    """The carrier array of stored bytes (a uint8 array of exactly the right size); a read-only view of them if it can be."""
    count = int(np.prod(shape, dtype=np.int64))
    if dtype.kind == "b":
        array = data.view(np.bool_) if not data.size or data.max() <= 1 else data != 0
    elif dtype.format is not None:
        codes = data.view("<u2") if dtype.bits == 16 else _split(data, dtype.bits, count)
        array = dtype.format.decode(codes)
    elif dtype.native:
        array = np.require(data.view(dtype.numpy.newbyteorder("<")), requirements=["A"])
    else:
        array = _split(data, dtype.bits, count)
        array = dtype.round(array) if dtype.kind == "i" else array
    array = array.reshape(shape)
    array.flags.writeable = False
    return array


def encode_elements(array: Array, dtype: DType) -> bytes:
    """The raw_data of a carrier array (of any type but strings)."""
    if dtype.format is not None:
        codes = dtype.format.encode(array, saturate=False)  # a carried infinity stays one
        stored = codes.astype("<u2") if dtype.bits == 16 else join(codes.ravel(), dtype.bits)
    elif dtype.native:
        stored = np.asarray(array).astype(dtype.numpy.newbyteorder("<"), copy=False)
    else:
        stored = join(np.asarray(array).astype(dtype.numpy, copy=False).ravel().view(np.uint8), dtype.bits)
    return bytes(stored.tobytes())


def _split(data: Array, bits: int, count: int) -> Array:
    """Elements of 2, 4, 6 or 8 bits from a stream of bytes, the first in the low bits."""
    if bits == 8:
        return data
    if bits == 6:  # four elements in three bytes
        groups = np.zeros((-(-data.size // 3), 3), np.uint8)
        groups.reshape(-1)[: data.size] = data
        a, b, c = groups.T
        four = (a, (a >> 6) | (b << 2), (b >> 4) | (c << 4), c >> 2)
    else:
        four = tuple(data >> shift for shift in range(0, 8, bits))
    return (np.stack(four, axis=-1) & np.uint8((1 << bits) - 1)).reshape(-1)[:count]


def join(codes: Array, bits: int) -> Array:
    """The inverse of `_split`: elements put together into bytes; the last byte is filled with zeros."""
    if bits == 8:
        return codes
    each = 4 if bits == 6 else 8 // bits
    groups = np.zeros((-(-codes.size // each), each), np.uint8)
    groups.reshape(-1)[: codes.size] = codes & np.uint8((1 << bits) - 1)
    if bits == 6:
        a, b, c, d = groups.T
        whole = np.stack([a | (b << 6), (b >> 2) | (c << 4), (c >> 4) | (d << 2)], axis=-1)
        return whole.reshape(-1)[: -(-codes.size * 6 // 8)]
    whole = groups[:, 0]
    for place in range(1, each):
        whole = whole | (groups[:, place] << (place * bits))
    return whole
