"""Programs that run: the same three moves on every back end. Arrays go in, the back end's own compiled form computes,
arrays come out.

What is computed is a `Body`: the program, emitted primitive by primitive, or a Keras model that was loaded. Its weights
travel beside it, so that a compiled form does not bake them in, and a model that is trained further is followed.
"""

import abc
import importlib
from typing import Any, Callable, List, Optional, Sequence

import numpy as np

from onnx_compat.shim import Compiled, Port
from onnx_compat_keras.devices import build_on
from onnx_compat_keras.features import back_end

__all__ = ["Body", "Running", "running"]


class Body(abc.ABC):
    """Something that can be computed."""

    @abc.abstractmethod
    def weights(self) -> List[Any]:
        """What it reads beside its inputs, now: tensors of the back end."""

    @abc.abstractmethod
    def compute(self, weights: Sequence[Any], inputs: Sequence[Any], entropy: Any) -> List[Any]:
        """The outputs for these weights and inputs. Random numbers come from `entropy`."""


class Running(Compiled):
    """A body in the compiled form of a back end."""

    def __init__(
        self,
        body: Body,
        model: Optional[Callable[[], Any]],
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
        #: What runs instead for inputs without elements, for which not every operation of a framework is right.
        self.for_empty: Optional[Callable[[], Running]] = None
        self._empty: Optional[Running] = None

    @property
    def native(self) -> Any:
        """The Keras model, made when it is asked for."""
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
        """What `run` does."""


def running(
    body: Body,
    model: Optional[Callable[[], Any]],
    inputs: Sequence[Port],
    outputs: Sequence[Port],
    device: Optional[str] = None,
) -> Running:
    """The body in the compiled form of the back end at hand."""
    module = importlib.import_module("onnx_compat_keras.run_on_" + back_end())
    made: Running = module.RUNNING(body, model, inputs, outputs, device)
    return made
