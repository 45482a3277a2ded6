"""Detect the features of Keras and its back end by small trials; versions are not compared."""

import importlib
from contextlib import nullcontext
from typing import Any, Callable, ContextManager, Dict, Optional, Tuple

from onnx_compat_keras.framework_types import Array

__all__ = ["BACK_ENDS", "back_end", "features", "tensorflow_emitter", "wide"]

#: Supported back end of Keras -> its Python module.
BACK_ENDS = {"tensorflow": "tensorflow", "jax": "jax", "torch": "torch"}


def back_end() -> str:
    """Return the name of Keras' back end: "tensorflow", "jax", "torch" or another. Imports Keras."""
    import keras

    return str(keras.backend.backend())


def wide() -> ContextManager[Any]:
    """Return a context manager that enables JAX's 64-bit dtypes in this thread; on other back ends it does nothing."""
    if back_end() != "jax":
        return nullcontext()
    import jax

    context: ContextManager[Any]
    if hasattr(jax, "enable_x64"):
        context = jax.enable_x64(True)
    else:
        from jax.experimental import enable_x64

        context = enable_x64()
    return context


def tensorflow_emitter() -> Optional[Any]:
    """Return the package onnx_compat_tensorflow, which has the TensorFlow emitters.

    Returns None if the package cannot be imported.
    """
    try:
        return importlib.import_module("onnx_compat_tensorflow")
    except ImportError:
        return None


def features() -> Dict[str, Any]:
    """Return {feature: value} for `onnx_compat.shims()` and `onnx-compat doctor`.

    Example: {"back_end": "jax", "back_end_version": "0.4.30", "text": False, "dynamic_sizes": False}. `text`: whether
    strings are supported.

    Raises KeyError if `BACK_ENDS` lacks the back end.
    """
    name = back_end()
    report: Dict[str, Any] = {"back_end": name, "back_end_version": _version(BACK_ENDS[name])}
    report["text"] = name == "tensorflow"
    report["dynamic_sizes"] = name != "jax"
    return report


def _version(module: str) -> str:
    return str(getattr(importlib.import_module(module), "__version__", "?"))


def find_obstacle() -> Optional[str]:
    """Return the reason why the shim cannot use the imported Keras, as text for the user.

    Returns None if the shim can use it.
    """
    name = back_end()
    if name not in BACK_ENDS:
        return "Keras runs on the back end '%s'; this shim knows %s (set KERAS_BACKEND)" % (name, ", ".join(BACK_ENDS))
    if name == "tensorflow" and tensorflow_emitter() is None:
        return (
            "the TensorFlow back end needs the distribution onnx-compat-tensorflow: pip install onnx-compat-tensorflow"
        )
    return None


def is_exact(name: str, dtype: str) -> bool:
    """Whether keras.ops.<name> computes a 64-bit dtype in 64 bits. The answer is cached.

    The operation is tried on a 2x2 matrix, and, if it does not accept one, on two. It is exact if the result has a
    64-bit dtype or is bool. Returns True without regard to the result for

    - a dtype of fewer bits,
    - an operation that accepts neither one matrix nor two,
    - a name that keras.ops lacks, such as a layer's.

    Exception: for "tile", returns whether `keras.ops.tile` accepts the dtype. float32, int32 and bool always give True.
    """
    if (name, dtype) not in _EXACT:
        _EXACT[name, dtype] = dtype in _PLAIN or _probe(name, dtype)
    return _EXACT[name, dtype]


_EXACT: Dict[Tuple[str, str], bool] = {}
_PLAIN = frozenset(["float32", "int32", "bool"])
#: Name of a function f of keras.ops -> its trial call on a matrix x. Functions that are not listed are called as f(x) or f(x, x).
_CALLS: Dict[str, Callable[[Any, Any], Any]] = {"tile": lambda f, x: f(x, (1, 2))}


def _probe(name: str, dtype: str) -> bool:
    """Return the answer of `is_exact`, which caches it, by a trial of the operation."""
    import keras
    import numpy as np

    with wide():
        x = keras.ops.convert_to_tensor(np.array([[1, 2], [3, 4]], dtype))
        function = getattr(keras.ops, name, None)
        if name in _CALLS:
            return _result_dtype(_CALLS[name], function, x) is not None
        for call in (lambda f, x: f(x), lambda f, x: f(x, x)):
            kind = _result_dtype(call, function, x)
            if kind is not None:
                return "64" in kind or kind == "bool" or "64" not in dtype
    return True  # an operation with other arguments only moves data


def _result_dtype(call: Callable[[Any, Any], Any], function: Optional[Callable[..., Any]], x: Array) -> Optional[str]:
    """Return the name of the dtype of `call(function, x)`. Returns None if the call raises."""
    import keras

    try:
        result = call(function, x)
        return str(keras.backend.standardize_dtype(result.dtype))
    except Exception:  # noqa: BLE001  (a back end raises any error for a dtype that it lacks)
        return None


def multiplies_integers(dtype: str) -> bool:
    """Whether `keras.ops.matmul` multiplies matrices of an integer dtype exactly, also beyond float32. Cached.

    The matrices are large enough for vector instructions: Keras 3.15 on TensorFlow multiplies uint8 in float32, and
    TensorFlow 2.20 then converts single numbers modulo 256, but vectors with saturation.
    """
    if dtype not in _PRODUCTS:
        import keras
        import numpy as np

        limits = np.iinfo(dtype)
        number = 2**24 + 1 if limits.max > 2**24 else int(limits.max)
        matrix = np.full((16, 16), number, dtype)
        matrix[::2, 1::3] = 1
        with wide():
            product = keras.ops.convert_to_numpy(keras.ops.matmul(matrix, matrix))
        with np.errstate(over="ignore"):
            expected = matrix @ matrix
        _PRODUCTS[dtype] = bool(product.dtype == dtype and np.array_equal(product, expected))
    return _PRODUCTS[dtype]


_PRODUCTS: Dict[str, bool] = {}


def pools_volumes(dtype: str) -> bool:
    """Whether the average pooling layer of Keras has a kernel for three spatial axes and a float dtype. Cached."""
    if dtype not in _VOLUMES:
        import keras
        import numpy as np

        try:
            with wide():
                keras.ops.average_pool(np.ones((1, 2, 2, 2, 1), dtype), 2, data_format="channels_last")
            _VOLUMES[dtype] = True
        except Exception:  # noqa: BLE001 (each back end has errors of its own)
            _VOLUMES[dtype] = False
    return _VOLUMES[dtype]


_VOLUMES: Dict[str, bool] = {}


def has_type(dtype: str) -> bool:
    """Whether Keras keeps a dtype of numpy: `convert_to_tensor` accepts an array, and the tensor has the same dtype.

    The answer is cached.
    """
    if dtype not in _TYPES:
        import keras
        import numpy as np

        try:
            with wide():
                tensor = keras.ops.convert_to_tensor(np.zeros(1, dtype))
                _TYPES[dtype] = keras.backend.standardize_dtype(tensor.dtype) == dtype
        except (TypeError, ValueError):
            _TYPES[dtype] = False
    return _TYPES[dtype]


_TYPES: Dict[str, bool] = {}


def keeps_keys() -> bool:
    """Whether this Keras can load a saved model with `ops.get_item`.

    A file stores the key, a tuple, as a list, and some releases do not accept a list as the key. The answer is cached.
    """
    if "list" not in _KEYS:
        import keras

        x = keras.KerasTensor((2, 3))
        operation = keras.ops.get_item(x, (slice(0, 1),))._keras_history.operation
        try:
            _KEYS["list"] = operation.compute_output_spec(x, [slice(0, 1)]).shape == (1, 3)
        except ValueError:
            _KEYS["list"] = False
    return _KEYS["list"]


_KEYS: Dict[str, bool] = {}


def loads_while_loops() -> bool:
    """Whether this Keras can save and load a while loop. The answer is cached.

    A saved loop is an `ops.switch` whose only branch is `ops.while_loop`. Its operands contain the models of the
    condition and of the body. True if keras.ops has both operations, except on JAX: there, `ops.switch` accepts no
    model as an operand.
    """
    if "while" not in _LOOPS:
        import keras

        _LOOPS["while"] = back_end() != "jax" and hasattr(keras.ops, "switch") and hasattr(keras.ops, "while_loop")
    return _LOOPS["while"]


_LOOPS: Dict[str, bool] = {}


def loads_scans() -> bool:
    """Whether files hold loops as `keras.ops.scan`: on JAX, where they hold no while loop, if this Keras has `scan`."""
    import keras

    return back_end() == "jax" and hasattr(keras.ops, "scan")
