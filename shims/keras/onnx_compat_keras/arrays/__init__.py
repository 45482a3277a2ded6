"""The common part of the emitters for JAX and torch: methods that call functions of a namespace `xp` with numpy's names.

`on_jax` and `on_torch` set `xp` and add methods. The emitters do not call keras.ops: on JAX and torch, it computes many
operations on int64 and float64 in 32 bits.
"""

from onnx_compat_keras.arrays.base import Arrays, numbers

__all__ = ["Arrays", "numbers"]
