"""The emitter of functional Keras models: it creates a layer if Keras has one for the operator, else operations of keras.ops.

The models have only layers and operations of Keras. So they can be saved, loaded, trained and edited without onnx-compat.
"""

from onnx_compat_keras.functional.build import functional, other_errors
from onnx_compat_keras.functional.emitter import Symbolic

__all__ = ["Symbolic", "functional", "other_errors"]
