"""Conversion of carrier arrays to TensorFlow's values and back; TensorFlow holds strings as bytes."""

from typing import List, Optional, Sequence, Union

import numpy as np

from onnx_compat.shim import DType
from onnx_compat_tensorflow.framework_types import TensorFlow, TfDType

__all__ = ["decode", "encode", "static_shape", "tf_dtype"]


def tf_dtype(tf: TensorFlow, dtype: DType) -> TfDType:
    """Return the TensorFlow dtype that carries tensors of this dtype."""
    return tf.string if dtype.kind == "s" else tf.as_dtype(dtype.numpy)


def encode(array: np.ndarray) -> np.ndarray:
    """Convert a carrier array to an array that TensorFlow takes."""
    return np.asarray(_ENCODE(array), object) if array.dtype == object else array


def decode(value: Union[bytes, np.ndarray]) -> np.ndarray:
    """Convert a value of TensorFlow to a carrier array. A scalar string arrives as bytes."""
    if isinstance(value, bytes) or getattr(getattr(value, "dtype", None), "kind", "") == "O":
        return np.asarray(_DECODE(value), object)
    return np.asarray(value)


_ENCODE = np.frompyfunc(lambda text: text.encode("utf-8", "surrogateescape"), 1, 1)
_DECODE = np.frompyfunc(lambda text: text.decode("utf-8", "surrogateescape"), 1, 1)


def static_shape(sizes: Sequence[object]) -> List[Optional[int]]:
    """Return a shape for TensorFlow, with None for each symbolic size."""
    return [int(size) if isinstance(size, (int, np.integer)) else None for size in sizes]
