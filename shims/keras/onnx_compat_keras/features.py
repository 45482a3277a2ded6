"""What this Keras and its back end can do: looked for, never deduced from a version."""

import importlib
from contextlib import nullcontext
from typing import Any, Callable, ContextManager, Dict, Optional, Tuple

__all__ = ["BACK_ENDS", "back_end", "features", "tensorflow_emitter", "wide"]

#: The back ends that this shim knows, and the module that each is.
BACK_ENDS = {"tensorflow": "tensorflow", "jax": "jax", "torch": "torch"}


def back_end() -> str:
    """The back end that Keras runs on here: the user's choice, made before Keras was imported."""
    import keras

    return str(keras.backend.backend())


def wide() -> ContextManager[Any]:
    """A context in which JAX has 64-bit types, for this thread only; nothing on the other back ends."""
    if back_end() != "jax":
        return nullcontext()
    import jax

    if hasattr(jax, "enable_x64"):
        return jax.enable_x64(True)  # type: ignore[no-any-return]
    from jax.experimental import enable_x64

    return enable_x64()  # type: ignore[no-any-return]


def tensorflow_emitter() -> Optional[Any]:
    """The module of the primitives on TensorFlow, from the distribution that the TensorFlow shims share."""
    try:
        return importlib.import_module("onnx_compat_tensorflow")
    except ImportError:
        return None


def features() -> Dict[str, Any]:
    """What was found, for `shims()` and the doctor."""
    name = back_end()
    found: Dict[str, Any] = {"back_end": name, "back_end_version": _version(BACK_ENDS[name])}
    found["text"] = name == "tensorflow"
    found["dynamic_sizes"] = name != "jax"
    return found


def _version(module: str) -> str:
    return str(getattr(importlib.import_module(module), "__version__", "?"))


def missing() -> Optional[str]:
    """Why this Keras cannot be used, in words; None if it can."""
    name = back_end()
    if name not in BACK_ENDS:
        return "Keras runs on the back end '%s'; this shim knows %s (set KERAS_BACKEND)" % (name, ", ".join(BACK_ENDS))
    if name == "tensorflow" and tensorflow_emitter() is None:
        return "on the TensorFlow back end the distribution onnx-compat-tensorflow is needed: pip install it"
    return None


def keeps(name: str, dtype: str) -> bool:
    """Whether keras.ops.<name> takes a type here, and gives 64 bits for 64 bits; tried once, on four numbers."""
    if (name, dtype) not in _KEEPS:
        _KEEPS[name, dtype] = dtype in _PLAIN or _tried(name, dtype)
    return _KEEPS[name, dtype]


_KEEPS: Dict[Tuple[str, str], bool] = {}
_PLAIN = frozenset(["float32", "int32", "bool"])
#: How an operation is called with a matrix x, where that is not f(x) or f(x, x).
_CALLS: Dict[str, Callable[[Any, Any], Any]] = {"tile": lambda f, x: f(x, (1, 2))}


def _tried(name: str, dtype: str) -> bool:
    import keras
    import numpy as np

    with wide():
        x = keras.ops.convert_to_tensor(np.array([[1, 2], [3, 4]], dtype))
        function = getattr(keras.ops, name, None)
        if name in _CALLS:
            return _given(_CALLS[name], function, x) is not None
        for call in (lambda f, x: f(x), lambda f, x: f(x, x)):
            kind = _given(call, function, x)
            if kind is not None:
                return "64" in kind or kind == "bool" or "64" not in dtype
    return True  # it takes other arguments, and moves data only


def _given(call: Callable[[Any, Any], Any], function: Any, x: Any) -> Optional[str]:
    """The type of the result; None if there is none."""
    import keras

    try:
        result = call(function, x)
        return str(keras.backend.standardize_dtype(result.dtype))
    except Exception:  # noqa: BLE001  (whatever a back end raises for what it does not do)
        return None


def has_type(dtype: str) -> bool:
    """Whether Keras has tensors of this type here, as themselves."""
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
    """Whether a model with a cut in it can be loaded again: a file turns the key, a tuple, into a list."""
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
