"""A program as a body that is emitted: primitive by primitive, in the back end's own functions."""

import copy
from contextlib import contextmanager
from typing import Any, Iterator, List, Optional, Sequence

from onnx_compat.shim import Emitter, Program, emit
from onnx_compat_keras.arrays.base import Arrays, constants
from onnx_compat_keras.features import back_end, wide
from onnx_compat_keras.running import Body
from onnx_compat_keras.trial_emitter import scratch

__all__ = ["Emitted", "emitter", "executor", "scratched"]

_LARGE = 256  # elements; a smaller constant may be part of what is compiled


def emitter(device: Optional[str] = None) -> Emitter:
    """An emitter for the back end at hand, as a program is compiled with."""
    name = back_end()
    if name == "jax":
        from onnx_compat_keras.on_jax import JaxArrays

        return JaxArrays(concrete=False)
    if name == "torch":
        from onnx_compat_keras.devices import torch_device
        from onnx_compat_keras.on_torch import TorchArrays

        return TorchArrays(torch_device(device))
    from onnx_compat_keras.on_tensorflow import TensorFlowGraph, probed

    return TensorFlowGraph(probed())


def executor(device: Optional[str] = None) -> Emitter:
    """An emitter that executes as it goes."""
    name = back_end()
    if name == "jax":
        from onnx_compat_keras.on_jax import JaxExecutor

        return JaxExecutor(device)
    if name == "torch":
        return emitter(device)
    from onnx_compat_keras.on_tensorflow import TensorFlowExecutor, probed

    return TensorFlowExecutor(probed(), device)


@contextmanager
def scratched() -> Iterator[Emitter]:
    """An emitter to try out what can be emitted."""
    emits = emitter()
    if isinstance(emits, Arrays):
        yield scratch(emits)
    else:
        with emits.tf.Graph().as_default():  # type: ignore[attr-defined]
            yield emits


class Emitted(Body):
    """The program, with its large constants as weights. With `empty` it also takes inputs without elements."""

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

    def weights(self) -> List[Any]:
        return self._weights

    def compute(self, weights: Sequence[Any], inputs: Sequence[Any], entropy: Any) -> List[Any]:
        # An emitter holds the node under way: a run has one of its own. A copy keeps the filters that torch has arranged.
        emits: Any = copy.copy(self._emitter) if self._emitter.concrete else emitter()
        if isinstance(emits, Arrays):
            emits.hold(dict(zip(map(id, self._arrays), weights)))
            emits.entropy = entropy
        elif not self.empty:
            emits.model_inputs = frozenset(self.program.region.inputs)
        return emit(self.program.region, emits, inputs)
