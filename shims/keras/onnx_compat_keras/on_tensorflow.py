"""The primitives on TensorFlow: those of the distribution that the TensorFlow shims share, and the fast paths of this one."""

import functools
from typing import Any, Callable, List, Sequence, Tuple

import numpy as np
from onnx_compat_tensorflow.emitter import EagerEmitter, GraphEmitter
from onnx_compat_tensorflow.features import Features
from onnx_compat_tensorflow.importing import import_tensorflow

from onnx_compat_keras.arrays.normalization import Normalization
from onnx_compat_keras.arrays.recurrent import Recurrent
from onnx_compat_keras.arrays.resampling import Resampling

__all__ = ["TensorFlowExecutor", "TensorFlowGraph", "probed"]


@functools.lru_cache(maxsize=None)
def probed() -> Features:
    """What the TensorFlow under Keras can do, asked once."""
    return Features(import_tensorflow())


class _FastPaths(Normalization, Resampling, Recurrent):
    """What the fast paths leave to each back end."""

    tf: Any
    raw: Any

    def over_time(
        self, step: Callable[..., Tuple[List[Any], List[Any]]], state: List[Any], xs: List[Any], backwards: bool
    ) -> Tuple[List[Any], List[Any]]:
        tf = self.tf
        rounds = tf.shape(xs[0])[0]
        shape = state[0].shape
        collected = tf.TensorArray(state[0].dtype, rounds, element_shape=shape)

        def advance(done: Any, values: Any, ys: Any) -> Any:
            place = rounds - 1 - done if backwards else done
            values, (y,) = step(values, [x[place] for x in xs])
            for value in values:
                value.set_shape(shape)
            return done + 1, list(values), ys.write(place, y)

        if self.concrete:  # type: ignore[attr-defined]
            done = 0
            while done < int(rounds):
                done, state, collected = advance(done, state, collected)
            return state, [collected.stack()]
        _, state, collected = tf.while_loop(lambda done, *_: done < rounds, advance, (0, state, collected))
        return state, [collected.stack()]

    def upsampled(self, x: Any, factors: Sequence[int], mode: str) -> Any:
        tf = self.tf
        if mode == "bilinear":
            sizes = tf.shape(x)[1:-1] * np.asarray(factors, np.int32)
            return self.raw.ResizeBilinear(images=x, size=sizes, half_pixel_centers=True)
        for axis, factor in enumerate(factors, 1):
            x = tf.repeat(x, factor, axis)
        return x

    def expanded(self, x: Any, axis: int) -> Any:
        return self.tf.expand_dims(x, axis)

    def states(self, x: Any, hidden: int, dtype: Any) -> Any:
        batch = x.shape[1] if x.shape[1] is not None else self.tf.shape(x)[1]
        zeros = self.tf.zeros([batch, hidden], np.dtype(dtype.numpy).name)
        zeros.set_shape([x.shape[1], hidden])
        return zeros


class TensorFlowGraph(_FastPaths, GraphEmitter):
    """Builds operations in the default graph."""


class TensorFlowExecutor(_FastPaths, EagerEmitter):
    """Executes as it goes."""
