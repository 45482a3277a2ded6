"""Convert between the bytes of raw_data and carrier arrays: decode, encode, and pack elements narrower than a byte."""

from typing import Any, Tuple

import numpy as np

from onnx_compat.ir.dtypes import DType

__all__ = ["decode_elements", "encode_elements", "pack_bits", "stored_size"]

Array = Any  # a numpy array: the stubs of numpy 1.16 to 2.x differ


def stored_size(dtype: DType, count: int) -> int:
    """Return the number of bytes that `count` elements take in raw_data; 0 for strings, which raw_data cannot hold.

    Elements narrower than a byte are packed.
    """
    return (count * dtype.bits + 7) // 8


def decode_elements(data: Array, dtype: DType, shape: Tuple[int, ...]) -> Array:
    """Decode raw_data, a uint8 array of the exact size, to a read-only carrier array, if possible a view of the bytes.

    Every dtype but string can be decoded. In a bool, every byte but 0 is True.
    """
    count = int(np.prod(shape, dtype=np.int64))
    if dtype.kind == "b":
        array = data.view(np.bool_) if not data.size or data.max() <= 1 else data != 0
    elif dtype.format is not None:
        codes = data.view("<u2") if dtype.bits == 16 else _unpack_bits(data, dtype.bits, count)
        array = dtype.format.decode(codes)
    elif dtype.native:
        array = np.require(data.view(dtype.numpy.newbyteorder("<")), requirements=["A"])
    else:
        array = _unpack_bits(data, dtype.bits, count)
        array = dtype.round(array) if dtype.kind == "i" else array
    array = array.reshape(shape)
    array.flags.writeable = False
    return array


def encode_elements(array: Array, dtype: DType) -> bytes:
    """Return the bytes of raw_data for a carrier array of any shape: little endian, and packed below 8 bits.

    Every dtype but string can be encoded. Numbers are rounded to the values of a float dtype that numpy lacks.
    """
    if dtype.format is not None:
        codes = dtype.format.encode(array, saturate=False)  # infinity stays infinity
        stored = codes.astype("<u2") if dtype.bits == 16 else pack_bits(codes.ravel(), dtype.bits)
    elif dtype.native:
        stored = np.asarray(array).astype(dtype.numpy.newbyteorder("<"), copy=False)
    else:
        stored = pack_bits(np.asarray(array).astype(dtype.numpy, copy=False).ravel().view(np.uint8), dtype.bits)
    return bytes(stored.tobytes())


def _unpack_bits(data: Array, bits: int, count: int) -> Array:
    """Unpack a uint8 array into `count` elements of 2, 4, 6 or 8 bits, one per byte of the result.

    The first element is in the low bits. Elements of 8 bits are returned as they are.
    """
    if bits == 8:
        return data
    if bits == 6:  # four elements in three bytes
        groups = np.zeros((-(-data.size // 3), 3), np.uint8)
        groups.reshape(-1)[: data.size] = data
        a, b, c = groups.T
        elements = (a, (a >> 6) | (b << 2), (b >> 4) | (c << 4), c >> 2)
    else:
        elements = tuple(data >> shift for shift in range(0, 8, bits))
    return (np.stack(elements, axis=-1) & np.uint8((1 << bits) - 1)).reshape(-1)[:count]


def pack_bits(codes: Array, bits: int) -> Array:
    """Pack elements of 2, 4, 6 or 8 bits into bytes, and return a uint8 vector. The inverse of `_unpack_bits`.

    `codes` is a uint8 vector with one element in each entry. Bits above the width `bits` are dropped. The last byte is
    padded with zeros. For 8 bits, `codes` itself is returned.
    """
    if bits == 8:
        return codes
    per_group = 4 if bits == 6 else 8 // bits
    groups = np.zeros((-(-codes.size // per_group), per_group), np.uint8)
    groups.reshape(-1)[: codes.size] = codes & np.uint8((1 << bits) - 1)
    if bits == 6:
        a, b, c, d = groups.T
        whole = np.stack([a | (b << 6), (b >> 2) | (c << 4), (c >> 4) | (d << 2)], axis=-1)
        return whole.reshape(-1)[: -(-codes.size * 6 // 8)]
    whole = groups[:, 0]
    for index in range(1, per_group):
        whole = whole | (groups[:, index] << (index * bits))
    return whole
