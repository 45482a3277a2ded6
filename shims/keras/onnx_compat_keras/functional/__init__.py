"""The emitter of functional Keras models: it creates a layer if Keras has one for the operator, else operations of keras.ops.

The models have only layers and operations of Keras. So they can be saved, loaded, trained and edited without onnx-compat.
"""

from onnx_compat_keras.functional.build import build_functional, functional, other_errors
from onnx_compat_keras.functional.emitter import Symbolic
from onnx_compat_keras.functional.preview import operation_name, preview_model

__all__ = ["Symbolic", "build_functional", "functional", "operation_name", "other_errors", "preview_model"]
