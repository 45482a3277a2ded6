"""The base classes `Body` and `Runner`: a runner compiles a body for a back end, and runs it on numpy arrays.

A body is a recorded program (`Emitted`) or a loaded Keras model (`Functional`). The variables of a Keras model are read at each
run, so training the model later changes the results of the runner.
"""

import abc
import importlib
from typing import Any, Callable, List, Optional, Sequence

import numpy as np

from onnx_compat.shim import Compiled, Port
from onnx_compat_keras.devices import build_on
from onnx_compat_keras.features import back_end
from onnx_compat_keras.framework_types import Array, KerasModel

__all__ = ["Body", "Runner", "make_runner"]


class Body(abc.ABC):
    """A computation that a runner compiles: a function of weights and inputs."""

    @abc.abstractmethod
    def weights(self) -> List[Array]:
        """Return the current weights as tensors of the back end: values of variables, or constants of a program."""

    @abc.abstractmethod
    def compute(self, weights: Sequence[Array], inputs: Sequence[Array], entropy: Array) -> List[Array]:
        """Return the outputs for these inputs. Weights, inputs and outputs are tensors of the back end.

        Only JAX reads `weights` and `entropy`. On TensorFlow and torch, a body uses its own constants or variables, and
        the back end chooses the seed.

        weights: the result of `weights()`, or tracers in its place.
        inputs: a tensor for each input, in order.
        entropy: the seed for the random primitives of a program that have no seed. None: draw a new seed. A Keras model
        ignores it.
        """


class Runner(Compiled):
    """A body compiled for a back end: the base class of the runners for TensorFlow, JAX and torch.

    model: a function that builds the Keras model of the body, for `native`. None: there is no model.
    device: the device of the runner. None: Keras chooses it.
    """

    def __init__(
        self,
        body: Body,
        model: Optional[Callable[[], KerasModel]],
        inputs: Sequence[Port],
        outputs: Sequence[Port],
        device: Optional[str],
    ) -> None:
        self.body = body
        self._model = model
        self._native: Any = None
        self.inputs = tuple(inputs)
        self.outputs = tuple(outputs)
        self.device = device
        self.trace_count = 0
        #: Builds another runner for inputs without elements, for which some kernels are wrong; None: use this runner.
        self.for_empty: Optional[Callable[[], Runner]] = None
        self._empty: Optional[Runner] = None

    @property
    def native(self) -> KerasModel:
        """The Keras model of the body, built when it is first read. None if the argument `model` was None."""
        if self._native is None and self._model is not None:
            self._native = build_on(self.device, self._model)
        return self._native

    @property
    def traces(self) -> int:
        return self.trace_count + (0 if self._empty is None else self._empty.traces)

    def run(self, arrays: Sequence[np.ndarray]) -> List[np.ndarray]:
        if self.for_empty is None or all(array.size for array in arrays):
            return self.execute(arrays)
        if self._empty is None:
            self._empty = self.for_empty()
        return self._empty.run(arrays)

    @abc.abstractmethod
    def execute(self, arrays: Sequence[np.ndarray]) -> List[np.ndarray]:
        """Run the body on numpy arrays, and return its outputs as numpy arrays.

        `run` calls this method. If `for_empty` is set, `run` calls it only if no array is empty.
        """


def make_runner(
    body: Body,
    model: Optional[Callable[[], KerasModel]],
    inputs: Sequence[Port],
    outputs: Sequence[Port],
    device: Optional[str] = None,
) -> Runner:
    """Return a runner of a body on Keras' back end.

    model: a function that builds the Keras model for `Runner.native`, or None.
    inputs, outputs: the ports of the body.
    device: the device of the runner. None: Keras chooses it.
    """
    module = importlib.import_module("onnx_compat_keras.run_on_" + back_end())
    runner: Runner = module.RUNNER(body, model, inputs, outputs, device)
    return runner
