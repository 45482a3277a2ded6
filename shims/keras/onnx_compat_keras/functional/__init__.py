"""The emitter of functional Keras models: a layer where the operator is a layer, and keras.ops between layers.

The model is stock Keras: it is saved, loaded, trained and taken apart without this library.
"""

from onnx_compat_keras.functional.build import functional
from onnx_compat_keras.functional.emitter import Symbolic

__all__ = ["Symbolic", "functional"]
