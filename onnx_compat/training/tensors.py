"""Convert stored tensors of a model to arrays of users, and back."""

from typing import TYPE_CHECKING, Any

import numpy as np

from onnx_compat.ir.dtypes import DType, from_public, to_public
from onnx_compat.model.schema import TENSOR
from onnx_compat.model.tensors import read_dense
from onnx_compat.model.wire import BytesSource, parse
from onnx_compat.model.write import tensor_proto

if TYPE_CHECKING:
    import onnx

__all__ = ["array_of", "public_dtype", "stored_tensor"]


def array_of(tensor: "onnx.TensorProto") -> np.ndarray:
    """Return a new array with the elements of a tensor, of the dtype that `Runnable.run` gives.

    Raises InvalidModelError for a damaged tensor.
    """
    stored = read_dense(parse(BytesSource(tensor.SerializeToString()), TENSOR)[0], None)
    return np.array(to_public(stored.array(), stored.dtype))


def public_dtype(tensor: "onnx.TensorProto") -> Any:
    """Return the np.dtype of the arrays that `array_of` returns for a tensor."""
    dtype = DType.of(tensor.data_type)
    return to_public(np.zeros((), dtype.numpy), dtype).dtype


def stored_tensor(name: str, array: np.ndarray, number: int) -> "onnx.TensorProto":
    """Return an array of a user as a tensor. `number`: the element type of the tensor in ONNX."""
    carrier, _ = from_public(array)
    tensor: onnx.TensorProto = tensor_proto(carrier, DType.of(number), name)
    return tensor
