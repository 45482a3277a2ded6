"""The emitter over arrays of JAX and torch, concrete or traced, in functions with numpy's names.

keras.ops is not exact: on JAX and torch it computes many operations on int64 and float64 in 32 bits. A compiled program
therefore calls the back end's own functions. This package has the common part, over a namespace `xp`; `on_jax` and
`on_torch` add the rest.
"""

from onnx_compat_keras.arrays.base import Arrays, numbers

__all__ = ["Arrays", "numbers"]
