"""The runner for torch: the body is executed eagerly, in inference mode."""

from typing import Any, List, Sequence

import numpy as np
import torch

from onnx_compat_keras.devices import torch_device
from onnx_compat_keras.on_torch import TorchArrays
from onnx_compat_keras.runners import Runner

__all__ = ["RUNNER"]


class _TorchRunner(Runner):
    def __init__(self, *args: Any) -> None:
        super().__init__(*args)
        self._io = TorchArrays(torch_device(self.device))
        self.trace_count = 1

    def execute(self, arrays: Sequence[np.ndarray]) -> List[np.ndarray]:
        with torch.inference_mode():
            inputs = [self._io.array(array, port.dtype) for array, port in zip(arrays, self.inputs)]
            outputs = self.body.compute(self.body.weights(), inputs, None)
            return [
                np.array(self._io.values(output, port.dtype), order="C") for output, port in zip(outputs, self.outputs)
            ]


RUNNER = _TorchRunner
