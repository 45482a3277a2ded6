"""Run a program by emitting its primitives as functions of Keras' back end (TensorFlow, JAX or torch)."""

import copy
from contextlib import contextmanager
from typing import Any, Iterator, List, Optional, Sequence

from onnx_compat.shim import Emitter, Program, emit
from onnx_compat_keras.arrays.base import Arrays, constants
from onnx_compat_keras.features import back_end, wide
from onnx_compat_keras.framework_types import Array
from onnx_compat_keras.runners import Body
from onnx_compat_keras.trial_emitter import trial_emitter

__all__ = ["Emitted", "emitter", "executor", "open_scratch"]

_LARGE = 256  # elements; a smaller constant is part of the compiled function


def emitter(device: Optional[str] = None) -> Emitter:
    """Return a new emitter for compiled programs, whose handles are tracers (JAX), tensors (torch) or graph tensors.

    `device` has an effect on torch only. On torch, None means the device on which Keras creates its variables.
    """
    name = back_end()
    if name == "jax":
        from onnx_compat_keras.on_jax import JaxArrays

        return JaxArrays(concrete=False)
    if name == "torch":
        from onnx_compat_keras.devices import torch_device
        from onnx_compat_keras.on_torch import TorchArrays

        return TorchArrays(torch_device(device))
    from onnx_compat_keras.on_tensorflow import TensorFlowGraph, tensorflow_features

    return TensorFlowGraph(tensorflow_features())


def executor(device: Optional[str] = None) -> Emitter:
    """Return a new emitter that executes each primitive eagerly on `device`; None: the back end's default device."""
    name = back_end()
    if name == "jax":
        from onnx_compat_keras.on_jax import JaxExecutor

        return JaxExecutor(device)
    if name == "torch":
        return emitter(device)
    from onnx_compat_keras.on_tensorflow import TensorFlowExecutor, tensorflow_features

    return TensorFlowExecutor(tensorflow_features(), device)


@contextmanager
def open_scratch() -> Iterator[Emitter]:
    """Return a context manager that yields an emitter for trials, which tell whether nodes are supported.

    A method of the emitter raises UnsupportedError if a node is not supported. On JAX and torch, the handles are specs.
    On TensorFlow, the handles are tensors of a new graph, which is the default graph in the block.
    """
    emits = emitter()
    if isinstance(emits, Arrays):
        yield trial_emitter(emits)
    else:
        from onnx_compat_keras.on_tensorflow import tensorflow_features

        with tensorflow_features().tf.Graph().as_default():
            yield emits


class Emitted(Body):
    """The body of a recorded program. `compute` emits the program's primitives.

    On JAX and torch, `weights()` has the constants of 256 elements or more that are no strings. On TensorFlow, it is
    empty.

    `empty`: the body must accept inputs without elements. It matters on TensorFlow only, because every body on JAX and
    torch accepts them.
    """

    def __init__(self, program: Program, device: Optional[str] = None, empty: bool = False) -> None:
        self.program = program
        self.empty = empty
        self._emitter = emitter(device)
        known = [
            const for const in constants(program.region).values()
            if const.array.size >= _LARGE and const.spec.dtype.kind != "s"
        ]  # fmt: skip
        if not isinstance(self._emitter, Arrays):
            known = []  # TensorFlow optimises the constants of a graph best
        self._arrays = [const.array for const in known]
        with wide():
            self._weights = [self._emitter.constant(const.array, const.spec.dtype) for const in known]
        if isinstance(self._emitter, Arrays):
            self._emitter.hold(dict(zip(map(id, self._arrays), self._weights)))

    def weights(self) -> List[Array]:
        return self._weights

    def compute(self, weights: Sequence[Array], inputs: Sequence[Array], entropy: Array) -> List[Array]:
        # An emitter stores the current node, so concurrent runs need separate emitters. A copy shares the cache of filters
        # that torch has permuted.
        emits: Any = copy.copy(self._emitter) if self._emitter.concrete else emitter()
        if isinstance(emits, Arrays):
            emits.hold(dict(zip(map(id, self._arrays), weights)))
            emits.entropy = entropy
        elif not self.empty:
            emits.model_inputs = frozenset(self.program.region.inputs)
        return emit(self.program.region, emits, inputs)
