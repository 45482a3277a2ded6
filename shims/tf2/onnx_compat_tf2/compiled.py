"""Running a module, or a loaded signature, with numpy on both sides."""

from typing import Any, Callable, List, Optional, Sequence

import numpy as np
from onnx_compat_tensorflow.features import Features
from onnx_compat_tensorflow.running import run_errors
from onnx_compat_tensorflow.tensors import decoded, encoded

from onnx_compat.shim import Compiled, Program

__all__ = ["CompiledModule", "CompiledSignature"]


class CompiledModule(Compiled):
    """`native` is the tf.Module."""

    def __init__(self, program: Program, features: Features, device: Optional[str]) -> None:
        from onnx_compat_tf2.module import OnnxModule

        self.native = OnnxModule(program, features, device)
        self._tf = features.tf
        self._function = self.native.function
        self._for_empty: Any = None
        self._build_for_empty: Callable[[], Any] = lambda: OnnxModule(program, features, device, empty=True)

    def run(self, arrays: Sequence[np.ndarray]) -> List[np.ndarray]:
        constant = self._tf.constant
        function = self._function if all(array.size for array in arrays) else self._careful()
        with run_errors(self._tf):
            outputs = function(*[constant(encoded(array)) for array in arrays])
        return [decoded(output.numpy()) for output in outputs]

    def _careful(self) -> Any:
        """For inputs of size zero: built when the first one comes."""
        if self._for_empty is None:
            self._for_empty = self._build_for_empty()
        return self._for_empty.function

    @property
    def traces(self) -> int:
        return int(self.native.traces) + (int(self._for_empty.traces) if self._for_empty is not None else 0)


class CompiledSignature(Compiled):
    """A signature of a loaded SavedModel; `native` is what was loaded."""

    def __init__(self, tf: Any, native: Any, signature: Any, inputs: Sequence[str], outputs: Sequence[str]) -> None:
        self.native = native
        self._tf = tf
        self._signature = signature
        self._inputs = tuple(inputs)
        self._outputs = tuple(outputs)

    def run(self, arrays: Sequence[np.ndarray]) -> List[np.ndarray]:
        feeds = {key: self._tf.constant(encoded(array)) for key, array in zip(self._inputs, arrays)}
        with run_errors(self._tf):
            found = self._signature(**feeds)
        return [decoded(found[key].numpy()) for key in self._outputs]
