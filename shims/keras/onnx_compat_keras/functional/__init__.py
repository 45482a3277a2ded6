"""Programs as functional Keras models: real layers where the operators are layers, keras.ops between them.

The result is stock Keras throughout: it is saved, loaded, trained and cut up without this library.
"""

from onnx_compat_keras.functional.build import functional
from onnx_compat_keras.functional.emitter import Symbolic

__all__ = ["Symbolic", "functional"]
