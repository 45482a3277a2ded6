"""The base of the runners, which compile a body for a back end and run it on numpy arrays.

A `Body` is a program, emitted primitive by primitive, or a loaded Keras model. Its weights are arguments of the compiled
function and not constants, so that further training of the model takes effect.
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
    """A computation with weights."""

    @abc.abstractmethod
    def weights(self) -> List[Array]:
        """Return the current weights as tensors of the back end."""

    @abc.abstractmethod
    def compute(self, weights: Sequence[Array], inputs: Sequence[Array], entropy: Array) -> List[Array]:
        """Return the outputs for these weights and inputs. Random numbers without a seed start from `entropy`."""


class Runner(Compiled):
    """A body, compiled for a back end."""

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
        self.counted = 0
        #: Builds the runner for empty inputs, for which some operations of a framework are wrong.
        self.for_empty: Optional[Callable[[], Runner]] = None
        self._empty: Optional[Runner] = None

    @property
    def native(self) -> KerasModel:
        """The Keras model, built at the first read."""
        if self._native is None and self._model is not None:
            self._native = build_on(self.device, self._model)
        return self._native

    @property
    def traces(self) -> int:
        return self.counted + (0 if self._empty is None else self._empty.traces)

    def run(self, arrays: Sequence[np.ndarray]) -> List[np.ndarray]:
        if self.for_empty is None or all(array.size for array in arrays):
            return self.execute(arrays)
        if self._empty is None:
            self._empty = self.for_empty()
        return self._empty.run(arrays)

    @abc.abstractmethod
    def execute(self, arrays: Sequence[np.ndarray]) -> List[np.ndarray]:
        """Run the body on arrays that are not empty, unless the body takes empty arrays."""


def make_runner(
    body: Body,
    model: Optional[Callable[[], KerasModel]],
    inputs: Sequence[Port],
    outputs: Sequence[Port],
    device: Optional[str] = None,
) -> Runner:
    """Return the runner of a body on the back end of Keras."""
    module = importlib.import_module("onnx_compat_keras.run_on_" + back_end())
    runner: Runner = module.RUNNER(body, model, inputs, outputs, device)
    return runner
