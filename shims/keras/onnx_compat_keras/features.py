"""Feature detection of Keras and its back end, by probes and never by version."""

import importlib
from contextlib import nullcontext
from typing import Any, Callable, ContextManager, Dict, Optional, Tuple

from onnx_compat_keras.framework_types import Array

__all__ = ["BACK_ENDS", "back_end", "features", "tensorflow_emitter", "wide"]

#: The back ends that this shim knows -> the module of each.
BACK_ENDS = {"tensorflow": "tensorflow", "jax": "jax", "torch": "torch"}


def back_end() -> str:
    """Return the back end of Keras, which the user chose before Keras was imported."""
    import keras

    return str(keras.backend.backend())


def wide() -> ContextManager[Any]:
    """Return a context in which JAX has 64-bit types, for this thread only; a null context on another back end."""
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
    """Return the package of the TensorFlow emitters, which the TensorFlow shims share; None if it is not installed."""
    try:
        return importlib.import_module("onnx_compat_tensorflow")
    except ImportError:
        return None


def features() -> Dict[str, Any]:
    """Return the features that `shims()` and the doctor report."""
    name = back_end()
    report: Dict[str, Any] = {"back_end": name, "back_end_version": _version(BACK_ENDS[name])}
    report["text"] = name == "tensorflow"
    report["dynamic_sizes"] = name != "jax"
    return report


def _version(module: str) -> str:
    return str(getattr(importlib.import_module(module), "__version__", "?"))


def missing() -> Optional[str]:
    """Return why the shim cannot use this Keras, in words; None if it can."""
    name = back_end()
    if name not in BACK_ENDS:
        return "Keras runs on the back end '%s'; this shim knows %s (set KERAS_BACKEND)" % (name, ", ".join(BACK_ENDS))
    if name == "tensorflow" and tensorflow_emitter() is None:
        return (
            "the TensorFlow back end needs the distribution onnx-compat-tensorflow: pip install onnx-compat-tensorflow"
        )
    return None


def keeps(name: str, dtype: str) -> bool:
    """Return whether keras.ops.<name> takes a dtype and keeps 64 bits; probed once, on a 2x2 matrix."""
    if (name, dtype) not in _KEEPS:
        _KEEPS[name, dtype] = dtype in _PLAIN or _probe(name, dtype)
    return _KEEPS[name, dtype]


_KEEPS: Dict[Tuple[str, str], bool] = {}
_PLAIN = frozenset(["float32", "int32", "bool"])
#: Operation -> its call with a matrix x, where that is not f(x) or f(x, x).
_CALLS: Dict[str, Callable[[Any, Any], Any]] = {"tile": lambda f, x: f(x, (1, 2))}


def _probe(name: str, dtype: str) -> bool:
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
    """Return the dtype of the result; None if the call fails."""
    import keras

    try:
        result = call(function, x)
        return str(keras.backend.standardize_dtype(result.dtype))
    except Exception:  # noqa: BLE001  (a back end raises any error for a dtype that it lacks)
        return None


def has_type(dtype: str) -> bool:
    """Return whether Keras has tensors of this dtype, without a conversion to another."""
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
    """Return whether a model with a GetItem can be loaded: a file converts its key, a tuple, to a list."""
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
