"""The keras shim: convert ONNX models to Keras 3 models, and run them on Keras' back end: TensorFlow, JAX or torch.

The core finds `SHIM` by the entry point. Importing this package imports neither Keras nor a back end.
"""

from onnx_compat_keras.shim import SHIM

__version__ = "0.1.0"
__all__ = ["SHIM"]
