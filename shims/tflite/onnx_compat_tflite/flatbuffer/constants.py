"""The constants of a model as the bytes that the file will hold, equal ones once.

Nothing is copied: a constant is a view of the caller's array. Only an array that is not contiguous, or not
little-endian, is laid out again, by itself, when it is compared and when it is written.
"""

import hashlib
from collections import Counter
from typing import Any, Dict, Iterator, List, Tuple

import numpy as np

from onnx_compat.shim import ConversionError
from onnx_compat_tflite.flatbuffer import strings
from onnx_compat_tflite.flatbuffer.model import ModelSpec, TensorSpec, storage

__all__ = ["Constants", "check_constant"]

_STRIP = 32
"""Elements of a row that are laid out at a time, where they lie"""
_FAR = 1024
"""bytes apart or more."""


class Constants:
    """Gives every constant its buffer: 0 is the empty one, the others are numbered by their first use."""

    def __init__(self, model: ModelSpec) -> None:
        self._items: List[Tuple[int, TensorSpec]] = []
        self._places: Dict[int, int] = {}
        tensors = [tensor for graph in model.subgraphs for tensor in graph.tensors if tensor.buffer is not None]
        sizes = [_size(tensor) for tensor in tensors]
        counts = Counter(sizes)
        seen: Dict[Tuple[int, bytes], int] = {}
        for tensor, size in zip(tensors, sizes):
            if size == 0:
                continue
            twin = hashlib.blake2b(_bytes(tensor)).digest() if counts[size] > 1 else b""
            if (size, twin) not in seen:
                self._items.append((size, tensor))
                seen[size, twin] = len(self._items)
            self._places[id(tensor)] = seen[size, twin]

    def buffer_of(self, tensor: TensorSpec) -> int:
        return self._places.get(id(tensor), 0)

    def sizes(self) -> List[int]:
        """How many bytes each buffer has, from number 1."""
        return [size for size, _ in self._items]

    def data(self) -> Iterator[memoryview]:
        """The bytes of each buffer, from number 1."""
        for _, tensor in self._items:
            yield _bytes(tensor)


def check_constant(tensor: TensorSpec) -> None:
    """Raise ConversionError if the array of a constant does not have the type and size of its tensor."""
    _size(tensor)


def _size(tensor: TensorSpec) -> int:
    """How many bytes the constant takes, or an error if it is not what the tensor says."""
    buffer, (held, size) = np.asarray(tensor.buffer), storage(tensor.dtype, tensor.shape)
    if tensor.dtype == "string":
        if buffer.size != int(np.prod(tensor.shape, dtype=np.int64)):
            raise _mismatch(tensor, buffer)
        return len(_bytes(tensor))
    if held is None:
        raise ConversionError("tensor '%s' of type %s cannot be a constant" % (tensor.name, tensor.dtype))
    if tensor.sparsity is not None:
        return buffer.nbytes
    same = buffer.dtype.newbyteorder("<") == held or (tensor.dtype != held.name and buffer.itemsize == held.itemsize)
    if not same or buffer.nbytes != size:
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
    flat: Any = _laid_out(array).reshape(-1).view(np.uint8)
    return memoryview(flat)


def _laid_out(array: "np.ndarray[Any, np.dtype[Any]]") -> "np.ndarray[Any, np.dtype[Any]]":
    """Contiguous. Transposed weights in strips: numpy by itself goes down whole columns, of which no cache holds a row."""
    if array.ndim < 2 or abs(array.strides[-1]) < _FAR:
        return np.ascontiguousarray(array)
    made = np.empty(array.shape, array.dtype)
    for start in range(0, array.shape[-1], _STRIP):
        strip = slice(start, start + _STRIP)
        made[..., strip] = array[..., strip]
    return made
