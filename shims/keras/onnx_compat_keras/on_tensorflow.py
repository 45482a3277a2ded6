"""The emitters for TensorFlow as Keras' back end: the shared TensorFlow emitters with this shim's native operators."""

import functools
from typing import Callable, List, Sequence, Tuple

import numpy as np
from onnx_compat_tensorflow.emitter import EagerEmitter, GraphEmitter
from onnx_compat_tensorflow.features import Features
from onnx_compat_tensorflow.framework_types import RawOps, TensorFlow
from onnx_compat_tensorflow.importing import import_tensorflow

from onnx_compat.shim import DType
from onnx_compat_keras.arrays.normalization import Normalization
from onnx_compat_keras.arrays.recurrent import Recurrent
from onnx_compat_keras.arrays.resampling import Resampling
from onnx_compat_keras.framework_types import Array, Scalar

__all__ = ["TensorFlowExecutor", "TensorFlowGraph", "tensorflow_features"]


@functools.lru_cache(maxsize=None)
def tensorflow_features() -> Features:
    """Return the `Features` of the TensorFlow that Keras uses; the object is created once."""
    return Features(import_tensorflow())


class _FastPaths(Normalization, Resampling, Recurrent):
    """Native normalization, up-sampling and recurrent operators, with their helper methods for TensorFlow."""

    tf: TensorFlow
    raw: RawOps
    concrete: bool

    def over_time(
        self, step: Callable[..., Tuple[List[Array], List[Array]]], state: List[Array], xs: List[Array], backwards: bool
    ) -> Tuple[List[Array], List[Array]]:
        tf = self.tf
        rounds = tf.shape(xs[0])[0]
        shape = state[0].shape
        collected = tf.TensorArray(state[0].dtype, rounds, element_shape=shape)

        def advance(done: Scalar, values: List[Array], ys: Array) -> Tuple[Scalar, List[Array], Array]:
            index = rounds - 1 - done if backwards else done
            values, (y,) = step(values, [x[index] for x in xs])
            for value in values:
                value.set_shape(shape)
            return done + 1, list(values), ys.write(index, y)

        if self.concrete:
            done = 0
            while done < int(rounds):
                done, state, collected = advance(done, state, collected)
            return state, [collected.stack()]
        _, state, collected = tf.while_loop(lambda done, *_: done < rounds, advance, (0, state, collected))
        return state, [collected.stack()]

    def upsample(self, x: Array, factors: Sequence[int], mode: str) -> Array:
        tf = self.tf
        if mode == "bilinear":
            sizes = tf.shape(x)[1:-1] * np.asarray(factors, np.int32)
            return self.raw.ResizeBilinear(images=x, size=sizes, half_pixel_centers=True)
        for axis, factor in enumerate(factors, 1):
            x = tf.repeat(x, factor, axis)
        return x

    def insert_axis(self, x: Array, axis: int) -> Array:
        return self.tf.expand_dims(x, axis)

    def states(self, x: Array, hidden: int, dtype: DType) -> Array:
        batch = x.shape[1] if x.shape[1] is not None else self.tf.shape(x)[1]
        zeros = self.tf.zeros([batch, hidden], np.dtype(dtype.numpy).name)
        zeros.set_shape([x.shape[1], hidden])
        return zeros


class TensorFlowGraph(_FastPaths, GraphEmitter):
    """An emitter that adds operations to the default TensorFlow graph."""


class TensorFlowExecutor(_FastPaths, EagerEmitter):
    """An emitter that executes each primitive eagerly on TensorFlow."""
