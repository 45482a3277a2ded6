"""Assign a buffer of the file to each constant of a model; equal constants share a buffer.

A constant stays a view of the caller's array. An array that is not contiguous or not little-endian is copied when it is hashed,
and again when it is written. So at most one copy is in memory at a time.
"""

import hashlib
from collections import Counter
from typing import Any, Dict, Iterator, List, Tuple

import numpy as np

from onnx_compat.shim import ConversionError
from onnx_compat_tflite.flatbuffer import strings
from onnx_compat_tflite.flatbuffer.model import ModelSpec, TensorSpec, storage

__all__ = ["Constants", "check_constant", "stored_bytes"]

_STRIP = 32
"""Elements of the last axis that `_contiguous` copies at a time."""
_STRIDE = 1024
"""Stride of the last axis, in bytes, from which on `_contiguous` copies in strips."""


class Constants:
    """The numbered buffers of a model's constants: buffer 0 is empty; 1, 2, ... are in the order of first use.

    Constants of equal bytes share a buffer. The constructor raises ConversionError for a constant that does not match
    its tensor: see `check_constant`.
    """

    def __init__(self, model: ModelSpec) -> None:
        self._items: List[Tuple[int, TensorSpec]] = []
        self._buffers: Dict[int, int] = {}
        tensors = [tensor for graph in model.subgraphs for tensor in graph.tensors if tensor.buffer is not None]
        sizes = [_size(tensor) for tensor in tensors]
        counts = Counter(sizes)
        numbers: Dict[Tuple[int, bytes], int] = {}
        for tensor, size in zip(tensors, sizes):
            if size == 0:
                continue
            digest = hashlib.blake2b(_bytes(tensor)).digest() if counts[size] > 1 else b""
            if (size, digest) not in numbers:
                self._items.append((size, tensor))
                numbers[size, digest] = len(self._items)
            self._buffers[id(tensor)] = numbers[size, digest]

    def buffer_of(self, tensor: TensorSpec) -> int:
        """Return the buffer number of a tensor object of the model.

        Returns 0 for a tensor without a constant, and for a constant of 0 bytes.
        """
        return self._buffers.get(id(tensor), 0)

    def sizes(self) -> List[int]:
        """Return the sizes in bytes of the buffers 1, 2, ..., in this order."""
        return [size for size, _ in self._items]

    def data(self) -> Iterator[memoryview]:
        """Yield the bytes of the buffers 1, 2, ..., in this order."""
        for _, tensor in self._items:
            yield _bytes(tensor)


def check_constant(tensor: TensorSpec) -> None:
    """Raise ConversionError if the array of a constant does not have the dtype or the size that its tensor declares.

    `tensor` must have an array. The byte order and the shape of the array are not compared.

    - The size is compared in bytes. For strings it is compared in elements, and the dtype is not compared.
    - For a dtype that numpy lacks, the array may have any dtype of the width in which the dtype is stored.
    - The array of a sparse tensor may have any dtype and size.

    Raises ConversionError also for the dtypes "resource" and "variant", and for strings of more than 2 GB.
    """
    _size(tensor)


def stored_bytes(tensor: TensorSpec) -> int:
    """Return the size in bytes of a constant in a file, without a check. `tensor` must have an array.

    For strings, this is the size of the packed strings. The array of a tensor of strings holds only pointers.
    """
    array = np.asarray(tensor.buffer)
    return strings.packed_size(array) if tensor.dtype == "string" else int(array.nbytes)


def _size(tensor: TensorSpec) -> int:
    """Return the size in bytes of a constant in a file.

    Raises ConversionError if the constant does not match its tensor, or if it is too large (see `check_constant`).
    """
    buffer, (stored, size) = np.asarray(tensor.buffer), storage(tensor.dtype, tensor.shape)
    if tensor.dtype == "string":
        if buffer.size != int(np.prod(tensor.shape, dtype=np.int64)):
            raise _mismatch(tensor, buffer)
        return len(_bytes(tensor))
    if stored is None:
        raise ConversionError("tensor '%s' of type %s cannot be a constant" % (tensor.name, tensor.dtype))
    if tensor.sparsity is not None:
        return buffer.nbytes
    is_stored_type = buffer.dtype.newbyteorder("<") == stored
    is_substitute = tensor.dtype != stored.name and buffer.itemsize == stored.itemsize
    if not (is_stored_type or is_substitute) or buffer.nbytes != size:
        raise _mismatch(tensor, buffer)
    return size


def _mismatch(tensor: TensorSpec, buffer: "np.ndarray[Any, np.dtype[Any]]") -> ConversionError:
    return ConversionError(
        "the constant of tensor '%s' is %s%s, but the tensor is %s%s"
        % (tensor.name, buffer.dtype, list(buffer.shape), tensor.dtype, list(tensor.shape))
    )


def _bytes(tensor: TensorSpec) -> memoryview:
    array = np.asarray(tensor.buffer)
    if tensor.dtype == "string":
        return memoryview(strings.pack(array))
    if array.dtype.byteorder == ">":
        array = array.astype(array.dtype.newbyteorder("<"))
    flat: Any = _contiguous(array).reshape(-1).view(np.uint8)
    return memoryview(flat)


def _contiguous(array: "np.ndarray[Any, np.dtype[Any]]") -> "np.ndarray[Any, np.dtype[Any]]":
    """Return the array if it is C-contiguous, else a C-contiguous copy.

    An array whose last axis has a large stride, such as transposed weights, is copied in strips, which is faster than a
    copy by numpy.
    """
    if array.ndim < 2 or abs(array.strides[-1]) < _STRIDE:
        return np.ascontiguousarray(array)
    copy = np.empty(array.shape, array.dtype)
    for start in range(0, array.shape[-1], _STRIP):
        strip = slice(start, start + _STRIP)
        copy[..., strip] = array[..., strip]
    return copy
