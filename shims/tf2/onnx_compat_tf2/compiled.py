"""Compiled models of TensorFlow 2 that run on numpy arrays: a program as a tf.Module, or a signature of a SavedModel."""

import functools
import threading
from typing import Any, Callable, List, Optional, Sequence

import numpy as np
from onnx_compat_tensorflow.features import Features
from onnx_compat_tensorflow.framework_types import TensorFlow, TfFunction, TfModule
from onnx_compat_tensorflow.run_errors import run_errors
from onnx_compat_tensorflow.tensors import decode, encode
from tensorflow.python.eager.context import eager_mode

from onnx_compat.shim import Compiled, Program, ShimError
from onnx_compat_tf2.module import OnnxModule

__all__ = ["CompiledModule", "CompiledSignature"]


class CompiledModule(Compiled):
    """A compiled program. `run` computes the model as it was given, also after a training of `native`.

    - The module of `run` has the weights as constants, because TensorFlow computes convolutions of constants faster.
      If a graph cannot hold all of them, it has large weights as variables that are not trainable.
    - The first run with an empty input builds a module for such runs.
    - The first use of `native` builds the module with trainable variables.
    """

    def __init__(self, program: Program, features: Features, device: Optional[str]) -> None:
        self._tf = features.tf
        self._build: Callable[..., OnnxModule] = functools.partial(OnnxModule, program, features, device)
        self._lock = threading.Lock()
        self._native: Optional[OnnxModule] = None
        self._for_empty: Optional[OnnxModule] = None
        self._for_run = self._build_for_run()
        self._function = self._for_run.function

    @property
    def native(self) -> Any:
        """The tf.Module of the program, with the weights as trainable variables: an `OnnxModule`."""
        with self._lock:
            if self._native is None:
                self._native = self._build()
            return self._native

    def run(self, arrays: Sequence[np.ndarray]) -> List[np.ndarray]:
        _check_eager(self._tf)
        constant = self._tf.constant
        function = self._function if all(array.size for array in arrays) else self._empty_function()
        with run_errors(self._tf):
            outputs = function(*[constant(encode(array)) for array in arrays])
        return [decode(output.numpy()) for output in outputs]

    def _build_for_run(self, empty: bool = False) -> OnnxModule:
        """Build a module without trainable variables. A graph that the caller builds does not get its functions.

        `empty`: the module is for runs with an empty input.

        TensorFlow 2.0 registers a function in the graph in which it is traced, and later runs do not find it.
        """
        with eager_mode():
            return self._build(trainable=False, empty=empty)

    def _empty_function(self) -> TfFunction:
        """Return the tf.function for inputs of which at least one is empty; build its module at the first call."""
        if self._for_empty is None:
            self._for_empty = self._build_for_run(empty=True)
        return self._for_empty.function

    @property
    def traces(self) -> int:
        modules = (self._for_run, self._for_empty, self._native)
        return sum(int(module.traces) for module in modules if module is not None)


def _check_eager(tf: TensorFlow) -> None:
    """Raise ShimError if the caller builds a graph: TensorFlow then returns tensors without values."""
    if not tf.executing_eagerly():
        raise ShimError(
            "TensorFlow builds a graph here, and a run needs values",
            hint="call `run` outside of tf.function and of `with tf.Graph().as_default()`, or call `native` inside",
            shim="tf2",
        )


class CompiledSignature(Compiled):
    """A signature of a SavedModel as a compiled model. `native` is the object that tf.saved_model.load returned.

    `inputs` and `outputs`: the keys of the signature, in the order of the arrays of `run`.
    """

    def __init__(
        self, tf: TensorFlow, native: TfModule, signature: TfFunction, inputs: Sequence[str], outputs: Sequence[str]
    ) -> None:
        self.native = native
        self._tf = tf
        self._signature = signature
        self._inputs = tuple(inputs)
        self._outputs = tuple(outputs)

    def run(self, arrays: Sequence[np.ndarray]) -> List[np.ndarray]:
        _check_eager(self._tf)
        feeds = {key: self._tf.constant(encode(array)) for key, array in zip(self._inputs, arrays)}
        with run_errors(self._tf):
            results = self._signature(**feeds)
        return [decode(results[key].numpy()) for key in self._outputs]
