"""Convert carrier arrays (the numpy arrays of the core) to TensorFlow values and back. TensorFlow stores strings as bytes."""

from typing import List, Optional, Sequence, Union

import numpy as np

from onnx_compat.shim import DType
from onnx_compat_tensorflow.framework_types import TensorFlow, TfDType

__all__ = ["decode", "encode", "static_shape", "tf_dtype"]


def tf_dtype(tf: TensorFlow, dtype: DType) -> TfDType:
    """Return the TensorFlow dtype that stores tensors of an ONNX dtype: the carrier's dtype; tf.string for strings."""
    return tf.string if dtype.kind == "s" else tf.as_dtype(dtype.numpy)


def encode(array: np.ndarray) -> np.ndarray:
    """Return a carrier array in a form that TensorFlow accepts: strings as UTF-8 bytes, other arrays unchanged.

    Bytes that are no UTF-8, which `decode` stores as surrogates in a carrier array, are restored.
    """
    return np.asarray(_ENCODE(array), object) if array.dtype == object else array


def decode(value: Union[bytes, np.ndarray]) -> np.ndarray:
    """Convert a numpy value of TensorFlow to a carrier array: decode strings, and return other arrays unchanged.

    An object array of bytes, or a bytes object, becomes an object array of str. Bytes that are no UTF-8 become
    surrogates. Numbers need no conversion, because TensorFlow stores them in the carrier dtype (see `tf_dtype`).
    """
    if isinstance(value, bytes) or getattr(getattr(value, "dtype", None), "kind", "") == "O":
        return np.asarray(_DECODE(value), object)
    return np.asarray(value)


_ENCODE = np.frompyfunc(lambda text: text.encode("utf-8", "surrogateescape"), 1, 1)
_DECODE = np.frompyfunc(lambda text: text.decode("utf-8", "surrogateescape"), 1, 1)


def static_shape(sizes: Sequence[object]) -> List[Optional[int]]:
    """Return the sizes as a list for TensorFlow: an int for a static size, None for a symbolic size."""
    return [int(size) if isinstance(size, (int, np.integer)) else None for size in sizes]
