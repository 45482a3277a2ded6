"""Arrays going into TensorFlow and coming out of it: carriers of the library's element types, strings as bytes there."""

from typing import Any

import numpy as np

from onnx_compat.shim import DType

__all__ = ["decoded", "encoded", "static_shape", "tf_dtype"]


def tf_dtype(tf: Any, dtype: DType) -> Any:
    """The TensorFlow type that a tensor of this type is held in: the one of its carrier."""
    return tf.string if dtype.kind == "s" else tf.as_dtype(dtype.numpy)


def encoded(array: np.ndarray) -> np.ndarray:
    """An array as TensorFlow takes it."""
    return np.asarray(_ENCODE(array), object) if array.dtype == object else array


def decoded(value: Any) -> np.ndarray:
    """An array as the library carries it, of what TensorFlow gave (for one string: bytes)."""
    if isinstance(value, bytes) or getattr(getattr(value, "dtype", None), "kind", "") == "O":
        return np.asarray(_DECODE(value), object)
    return np.asarray(value)


_ENCODE = np.frompyfunc(lambda text: text.encode("utf-8", "surrogateescape"), 1, 1)
_DECODE = np.frompyfunc(lambda text: text.decode("utf-8", "surrogateescape"), 1, 1)


def static_shape(sizes: Any) -> Any:
    """A shape for TensorFlow: None for what is only known at run time."""
    return [int(size) if isinstance(size, (int, np.integer)) else None for size in sizes]
