"""The size budget: how many bytes a simplified model may have; the sizes and digests of its tensors."""

import hashlib
from typing import Any

from onnx_compat.errors import OnnxCompatError
from onnx_compat.ir.dtypes import DType
from onnx_compat.model.storage import stored_size

__all__ = ["SLACK", "SizeBudget", "digest_of_elements", "stored_bytes"]

#: A message of onnx: its classes are generated at run time, and `onnx` is imported late.
Proto = Any

#: The number of bytes by which a model may grow, whatever its size.
SLACK = 64 * 2**10


def stored_bytes(tensor: Proto) -> int:
    """Return the bytes that a TensorProto takes. Its data in another file counts, unless its dtype is not known."""
    size = int(tensor.ByteSize())
    if tensor.data_location != 1:
        return size
    count = 1
    for extent in tensor.dims:
        count *= extent
    try:
        return size + stored_size(DType.of(tensor.data_type), count)
    except OnnxCompatError:
        return size


class SizeBudget:
    """The bytes of a model while it is simplified, and their limit.

    - used: the bytes of the model now.
    - limit: `growth` times the bytes at the beginning, but at least `SLACK` more than the bytes at the beginning.
    """

    def __init__(self, used: int, growth: float) -> None:
        self.used = used
        self.limit = max(used * growth, used + SLACK)

    def allows(self, added: int) -> bool:
        """Whether the model may grow by `added` bytes. A model that does not grow is allowed always."""
        return added <= 0 or self.used + added <= self.limit

    def change(self, added: int) -> None:
        """Count added bytes; a negative number for removed bytes."""
        self.used += added


def digest_of_elements(tensor: Any) -> bytes:
    """Return a digest of the dtype, the shape and the elements of a TensorProto.

    Equal elements that are stored in different fields have different digests.
    """
    digest = hashlib.sha256()
    for field, value in tensor.ListFields():
        if field.name not in ("name", "doc_string", "metadata_props"):
            digest.update(field.name.encode())
            digest.update(
                value
                if isinstance(value, bytes)
                else repr(list(value) if field.name.endswith("data") or field.name == "dims" else value).encode()
            )
    return digest.digest()
