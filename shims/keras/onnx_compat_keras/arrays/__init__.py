"""The primitives over arrays that hold values (or are traced) under JAX and torch, in numpy's spelling.

keras.ops is what a functional model is made of, but it is no exact arithmetic: on JAX and torch it computes many
operations on int64 and float64 in 32 bits. Programs that run therefore speak to the back end's own functions. What the two
back ends have in common is said here once, over a namespace `xp`; `on_jax` and `on_torch` add what is their own.
"""

from onnx_compat_keras.arrays.base import Arrays, numbers

__all__ = ["Arrays", "numbers"]
