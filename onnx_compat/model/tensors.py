"""Read a tensor message as an `Initializer`, from the field that holds the data, and check its size."""

from typing import Any, Callable, Optional, Sequence, Tuple

import numpy as np

from onnx_compat import limits
from onnx_compat.errors import InvalidModelError, UnsupportedError
from onnx_compat.ir import dtypes
from onnx_compat.ir.dtypes import DType
from onnx_compat.model.external import Folder
from onnx_compat.model.initializer import Initializer
from onnx_compat.model.storage import decode_elements, pack_bits, stored_size
from onnx_compat.model.wire import Message, numbers

__all__ = ["read_dense", "read_sparse", "read_stored"]

Array = Any  # a numpy array: the stubs of numpy 1.16 to 2.x differ
Reader = Callable[[], Array]

#: The largest number of dimensions of numpy 1.x.
RANK = 32


def read_dense(record: Message, folder: Optional[Folder], name: str = "") -> Initializer:
    """Return a dense tensor as an `Initializer`, whose elements are decoded on demand.

    `name` "": the name in the message is used. `folder`: the folder of external data, or None. Raises InvalidModelError
    in these cases:

    - The shape is impossible, or the data does not fit the shape.
    - The dtype is missing.
    - The data is external, and is damaged (see `Folder.reader`) or has no `folder`.
    - The elements are strings, and are stored as raw or external data.

    Raises UnsupportedError for an unknown dtype, more than 32 dimensions, and segments.

    Two defects raise InvalidModelError later, when the elements are decoded: a number that does not fit its dtype, and
    external data that has changed.
    """
    name = name or record.name
    where = "tensor '%s'" % name
    dtype = _dtype(record.data_type, where)
    shape, count = _shape(record.dims, dtype, where)
    if record.segment is not None:
        raise UnsupportedError("%s is stored in segments, which no version of ONNX reads" % where)
    if dtype.kind == "s":
        return Initializer(name, dtype, shape, _string_reader(record, shape, count, where))
    needed = stored_size(dtype, count)
    if record.data_location == 1:
        if folder is None:
            raise InvalidModelError(
                "%s is stored outside of the model, which was given without its folder" % where,
                hint="pass the path of the model file to load(), not its bytes or its ModelProto",
            )
        entries = {entry.key: entry.value for entry in record.external_data}
        fetch = folder.reader(entries, needed, name)
        return Initializer(name, dtype, shape, lambda: decode_elements(fetch(), dtype, shape))
    data = record.raw_data
    if data is None or (data.size == 0 and needed):
        read_typed = _typed_reader(record, dtype, count, where)
        return Initializer(name, dtype, shape, lambda: decode_elements(read_typed().view(np.uint8), dtype, shape))
    _check_count(where, data.size, needed, "bytes of data")
    return Initializer(name, dtype, shape, lambda: decode_elements(data, dtype, shape))


def read_stored(record: Message) -> Array:
    """Return the data of a dense tensor inside of the model as an array, whose bytes are those that raw_data would hold.

    Raises InvalidModelError if the count of numbers does not fit the shape, or a number does not fit its dtype.
    """
    where = "tensor '%s'" % record.name
    dtype = _dtype(record.data_type, where)
    _, count = _shape(record.dims, dtype, where)
    if record.raw_data is not None and record.raw_data.size:
        return record.raw_data
    return np.ascontiguousarray(_typed_reader(record, dtype, count, where)())


def _dtype(number: int, where: str) -> DType:
    if not number:
        raise InvalidModelError("%s has no element type" % where, hint="export the model again")
    try:
        return DType.of(number)
    except UnsupportedError as error:
        raise UnsupportedError("%s: %s" % (where, error.reason), hint=error.hint) from None


def _shape(dims: Sequence[Any], dtype: DType, where: str) -> Tuple[Tuple[int, ...], int]:
    """Return (shape, number of elements) for the sizes `dims`. `where`: a text that names the tensor in errors.

    Raises InvalidModelError for a negative size or more bytes than an address can count, and UnsupportedError for more
    dimensions than numpy takes.
    """
    shape = tuple(int(size) for size in numbers(dims, "int64"))
    count, extent = 1, 1
    for size in shape:
        if size < 0:
            raise InvalidModelError("%s has the negative size %d" % (where, size), hint="export the model again")
        count *= size
        extent *= max(size, 1)
    if len(shape) > RANK:
        raise UnsupportedError("%s has %d dimensions, numpy takes %d" % (where, len(shape), RANK))
    if extent * dtype.numpy.itemsize >= 1 << 63:
        raise InvalidModelError("%s has the impossible shape %s" % (where, list(shape)), hint="export the model again")
    return shape, count


def _check_count(where: str, actual: int, needed: int, unit: str) -> None:
    """Raise InvalidModelError unless a tensor has as much data as its shape needs. `unit` names what is counted."""
    if actual != needed:
        raise InvalidModelError(
            "%s has %d %s where its type and shape need %d" % (where, actual, unit, needed),
            hint="the model is damaged or was written wrongly: export it again",
        )


def _string_reader(record: Message, shape: Tuple[int, ...], count: int, where: str) -> Reader:
    """Return a function that decodes the strings of a tensor to an object array of str.

    `count`: the number of elements that `shape` needs. `where`: a text that names the tensor in errors. A byte that is
    not UTF-8 is decoded to a surrogate.

    Raises InvalidModelError at once if the tensor has raw or external data, or another number of strings than `count`.
    """
    if record.raw_data is not None or record.data_location == 1:
        raise InvalidModelError("%s holds strings as raw data, which ONNX does not allow" % where)
    _check_count(where, len(record.string_data), count, "strings")

    def read() -> Array:
        array = np.empty(count, object)
        # "surrogateescape" keeps bytes that are no UTF-8: encoding the text in the same way restores them
        array[:] = [item.decode("utf-8", "surrogateescape") for item in record.string_data]
        return array.reshape(shape)

    return read


def _typed_reader(record: Message, dtype: DType, count: int, where: str) -> Reader:
    """Return a function that reads the typed field of a tensor (`int32_data`, …).

    The function returns an array whose bytes are those that raw_data would hold.

    Raises InvalidModelError at once if the field has the wrong count of numbers. The returned function raises
    InvalidModelError for a number that is too wide (see `_check_width`).
    """
    if dtype in (dtypes.float32, dtypes.complex64):
        parts, kind = record.float_data, "<f4"
    elif dtype in (dtypes.float64, dtypes.complex128):
        parts, kind = record.double_data, "<f8"
    elif dtype in (dtypes.uint32, dtypes.uint64):
        parts, kind = record.uint64_data, "<i8"
    else:
        parts, kind = (record.int64_data if dtype is dtypes.int64 else record.int32_data), "<i8"
    per_number = 8 // dtype.bits if dtype.bits in (2, 4) else 1  # elements in one number of int32_data
    needed = count * 2 if dtype.kind == "c" else -(-count // per_number)
    _check_count(where, sum(np.size(part) for part in parts), needed, "numbers")
    small = "<u%d" % max(1, dtype.bits // 8)

    def read() -> Array:
        data = numbers(parts, kind)
        if kind == "<i8" and dtype.bits < 64:
            _check_width(data, dtype, where)
        if dtype.bits == 6:  # a number holds one element; raw_data holds four elements in three bytes
            return pack_bits(data.astype(np.uint8), 6)
        return data if kind != "<i8" or dtype.bits == 64 else data.astype(small)

    return read


def _check_width(data: Array, dtype: DType, where: str) -> None:
    """Raise InvalidModelError if a number in `data` does not fit into an element of type `dtype`. Otherwise do nothing.

    `data` has the numbers of int32_data or uint64_data.

    - An integer or bool may be stored with its sign or as its bits: 255 and -1 both fit uint8, as in onnxruntime.
    - A float is stored as its bits, which may not be negative.
    - A number of a 2-bit or 4-bit dtype is a byte with several packed elements: the limits are those of a byte.
    """
    bits = 8 if dtype.bits in (2, 4) else dtype.bits
    least, most = 0 if dtype.kind == "f" else -(1 << (bits - 1)), (1 << bits) - 1
    if data.size and (data.min() < least or data.max() > most):
        wrong = data[(data < least) | (data > most)][0]
        raise InvalidModelError(
            "%s stores the number %d, which does not fit into %s" % (where, wrong, dtype.name),
            hint="the model is damaged or was written wrongly: export it again",
        )


def read_sparse(record: Message, folder: Optional[Folder], name: str = "", before: int = 0) -> Initializer:
    """Return a sparse tensor as an `Initializer` whose `array` is dense. `name` "": the name of the tensor of values.

    The indices are decoded at once, the values on demand. Elements without an entry are 0, False or "". `folder`: the
    folder of external data, or None.

    Indices are [count], positions in the flattened dense array, or [count, rank], coordinates.

    Raises InvalidModelError at once in these cases:

    - The values or the indices are missing, or their shapes do not match.
    - The dtype of the indices is not int64.
    - The indices are out of range, repeated, or not in ascending (row-major) order.

    Raises LimitError if the bytes of the dense array exceed the limit `sparse_bytes`, together with `before`: the bytes
    of the sparse tensors that were read before. Raises the errors of `read_dense` for the values and the indices.
    """
    if record.values is None or record.indices is None:
        raise InvalidModelError("a sparse tensor lacks its values or its indices")
    values, indices = read_dense(record.values, folder, name), read_dense(record.indices, folder, name)
    where = "sparse tensor '%s'" % values.name
    shape, count = _shape(record.dims, values.dtype, where)
    limits.check("sparse_bytes", before + count * values.dtype.numpy.itemsize, "the model with its " + where)
    is_flat = len(indices.shape) == 1
    if (
        indices.dtype is not dtypes.int64
        or len(values.shape) != 1
        or (indices.shape != values.shape if is_flat else indices.shape != (values.shape[0], len(shape)))
    ):
        raise InvalidModelError(
            "%s has values %s and indices %s that do not belong together" % (where, values, indices)
        )
    positions = indices.array()
    if not is_flat:
        if ((positions < 0) | (positions >= np.array(shape, np.int64))).any():
            raise InvalidModelError("%s has an index outside of its shape %s" % (where, list(shape)))
        positions = np.ravel_multi_index(tuple(positions.T), shape) if shape else np.zeros(len(positions), np.int64)
    if positions.size and (positions.min() < 0 or positions.max() >= count or (np.diff(positions) <= 0).any()):
        raise InvalidModelError("%s has indices that are outside of its shape or not in rising order" % where)

    def read() -> Array:
        array = np.full(count, "" if values.dtype.kind == "s" else 0, values.dtype.numpy)
        array[positions] = values.array()
        array.flags.writeable = False
        return array.reshape(shape)

    return Initializer(values.name, values.dtype, shape, read)
