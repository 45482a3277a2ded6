"""One ONNX model, any TensorFlow-family runtime, any version of it.

    import onnx_compat

    model = onnx_compat.prepare("model.onnx")           # on the best framework that works here
    outputs = model.run({"image": array})               # numpy arrays, in the model's order and by name
    onnx_compat.convert("model.onnx", "model.tflite")   # or a SavedModel folder, .pb, .keras
    onnx_compat.load_converted("model.tflite").run({"image": array})
    onnx_compat.verify("model.onnx").ok                 # beside onnxruntime, at a stated tolerance

Importing this package imports no framework, and nothing that is not used.
"""

from typing import TYPE_CHECKING, Any, List

__version__ = "0.1.0"

if TYPE_CHECKING:
    from onnx_compat.conversion.convert import convert, load_converted
    from onnx_compat.conversion.join import join
    from onnx_compat.discovery.selection import shims
    from onnx_compat.errors import OnnxCompatError
    from onnx_compat.execution.runnable import Runnable, prepare, run
    from onnx_compat.execution.support import support
    from onnx_compat.model import Model, load
    from onnx_compat.ops import op
    from onnx_compat.verification import verify

__all__ = [
    "Model",
    "OnnxCompatError",
    "Runnable",
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

_WHERE = {
    "Model": "onnx_compat.model",
    "OnnxCompatError": "onnx_compat.errors",
    "Runnable": "onnx_compat.execution.runnable",
    "convert": "onnx_compat.conversion.convert",
    "join": "onnx_compat.conversion.join",
    "load": "onnx_compat.model",
    "load_converted": "onnx_compat.conversion.convert",
    "op": "onnx_compat.ops",
    "prepare": "onnx_compat.execution.runnable",
    "run": "onnx_compat.execution.runnable",
    "shims": "onnx_compat.discovery.selection",
    "support": "onnx_compat.execution.support",
    "verify": "onnx_compat.verification",
}


def __getattr__(name: str) -> Any:
    """Each name is imported when it is first used."""
    if name not in _WHERE:
        raise AttributeError("module 'onnx_compat' has no attribute '%s'" % name)
    from importlib import import_module

    value = globals()[name] = getattr(import_module(_WHERE[name]), name)
    return value


def __dir__() -> List[str]:
    return sorted(set(globals()) | set(_WHERE))
