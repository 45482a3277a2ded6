"""Convert and run ONNX models on TensorFlow 1 and 2, TF Lite, Keras and numpy.

    import onnx_compat

    model = onnx_compat.prepare("model.onnx")           # on the best framework that works here
    outputs = model.run({"image": array})               # numpy arrays, in the model's order and by name
    onnx_compat.convert("model.onnx", "model.tflite")   # or a SavedModel folder, .pb, .keras
    onnx_compat.load_converted("model.tflite").run({"image": array})
    onnx_compat.verify("model.onnx").ok                 # compared with onnxruntime, at a stated tolerance

Importing this package imports no framework. Each name of the API is imported when it is first used.
"""

from typing import TYPE_CHECKING, Any, List

__version__ = "0.1.0"

if TYPE_CHECKING:
    from onnx_compat.conversion.convert import convert, load_converted
    from onnx_compat.conversion.join import join
    from onnx_compat.discovery.selection import shims
    from onnx_compat.errors import (
        ConversionError,
        InputError,
        InvalidModelError,
        LimitError,
        MissingDependencyError,
        NeedsKnownError,
        NonFiniteError,
        OnnxCompatError,
        ShimError,
        TargetError,
        UnexpectedError,
        UnsupportedError,
        VerificationError,
    )
    from onnx_compat.execution.prepare import prepare, run
    from onnx_compat.execution.runnable import Runnable
    from onnx_compat.execution.support import support
    from onnx_compat.model import Model, load
    from onnx_compat.ops import op
    from onnx_compat.verification import verify

__all__ = [
    "ConversionError",
    "InputError",
    "InvalidModelError",
    "LimitError",
    "MissingDependencyError",
    "Model",
    "NeedsKnownError",
    "NonFiniteError",
    "OnnxCompatError",
    "Runnable",
    "ShimError",
    "TargetError",
    "UnexpectedError",
    "UnsupportedError",
    "VerificationError",
    "convert",
    "join",
    "load",
    "load_converted",
    "op",
    "prepare",
    "run",
    "shims",
    "support",
    "verify",
]

#: Name of the API -> the module that defines it.
_MODULES = {
    "ConversionError": "onnx_compat.errors",
    "InputError": "onnx_compat.errors",
    "InvalidModelError": "onnx_compat.errors",
    "LimitError": "onnx_compat.errors",
    "MissingDependencyError": "onnx_compat.errors",
    "Model": "onnx_compat.model",
    "NeedsKnownError": "onnx_compat.errors",
    "NonFiniteError": "onnx_compat.errors",
    "OnnxCompatError": "onnx_compat.errors",
    "Runnable": "onnx_compat.execution.runnable",
    "ShimError": "onnx_compat.errors",
    "TargetError": "onnx_compat.errors",
    "UnexpectedError": "onnx_compat.errors",
    "UnsupportedError": "onnx_compat.errors",
    "VerificationError": "onnx_compat.errors",
    "convert": "onnx_compat.conversion.convert",
    "join": "onnx_compat.conversion.join",
    "load": "onnx_compat.model",
    "load_converted": "onnx_compat.conversion.convert",
    "op": "onnx_compat.ops",
    "prepare": "onnx_compat.execution.prepare",
    "run": "onnx_compat.execution.prepare",
    "shims": "onnx_compat.discovery.selection",
    "support": "onnx_compat.execution.support",
    "verify": "onnx_compat.verification",
}


def __getattr__(name: str) -> Any:
    """Import a name of the API when it is first used, and return the object of that name.

    Raises AttributeError for a name that is not in the API. The object is stored in this module, and later uses of the
    name do not call this function.
    """
    if name not in _MODULES:
        raise AttributeError("module 'onnx_compat' has no attribute '%s'" % name)
    from importlib import import_module

    value = globals()[name] = getattr(import_module(_MODULES[name]), name)
    return value


def __dir__() -> List[str]:
    """Return the names of the API, without submodules and helpers."""
    return list(__all__)
