"""Programs of the shim `onnx` that run in a child process first, because onnxruntime may end the process."""

from typing import Any, List, Optional, Sequence

import numpy as np

from onnx_compat.execution.onnxruntime_child import run_in_child
from onnx_compat.onnx_shim.shim import OnnxShim, as_carriers, carrier_dtypes, is_optimisable, name_inputs
from onnx_compat.shim.interface import Compiled, Program

__all__ = ["GuardedProgram", "GuardedShim"]


class GuardedShim(OnnxShim):
    """The shim `onnx` for parts of the fallback. Its programs run on the CPU, and are `GuardedProgram`s.

    `trusted`: whether a program runs in this process at once, unless an input is empty.
    """

    def __init__(self, trusted: bool) -> None:
        super().__init__()
        self._trusted = trusted

    def compile(self, program: Program, device: Optional[str] = None) -> Compiled:
        """Return a `GuardedProgram`, which runs on the CPU. `device`: None, or "cpu".

        Raises UnsupportedError for a node that onnxruntime cannot run. A trusted program is opened at once:
        UnsupportedError is raised if onnxruntime does not load it. Otherwise the first run raises this error.
        """
        if not self._trusted:
            self.write_carriers(program)
        return GuardedProgram(self, program, self._trusted)

    def open(self, program: Program) -> Compiled:
        """Return the program with a session in this process, on the CPU.

        Raises UnsupportedError for a program that onnxruntime cannot run or load. Raises TargetError for a program that
        was recorded for another target.
        """
        return super().compile(program)


class GuardedProgram(Compiled):
    """A program that runs in a child process until a run has succeeded, and in this process afterwards.

    Runs with an empty input and runs without one count separately: each kind must succeed in a child process first.

    - shim: writes and opens the program.
    - trusted: whether runs without an empty input are in this process from the first one on.
    """

    def __init__(self, shim: GuardedShim, program: Program, trusted: bool) -> None:
        self._shim = shim
        self._program = program
        self._is_trusted = {False: trusted, True: False}
        self._opened = shim.open(program) if trusted else None

    @property
    def native(self) -> Any:
        """The session of onnxruntime in this process; None before it is opened.

        It is opened at once if the program is trusted, else by the first run in this process.
        """
        return None if self._opened is None else self._opened.native

    def run(self, arrays: Sequence[np.ndarray]) -> List[np.ndarray]:
        """Run the program on the carrier arrays of the inputs. Return the carrier arrays of the outputs, in order.

        Raises UnsupportedError for an error of onnxruntime, also if it ends the child process.
        """
        is_empty = any(not array.size for array in arrays)
        if not self._is_trusted[is_empty]:
            results = self._run_in_child(arrays)
            self._is_trusted[is_empty] = True
            if results is not None:
                return results
        if self._opened is None:
            self._opened = self._shim.open(self._program)
        return self._opened.run(arrays)

    def _run_in_child(self, arrays: Sequence[np.ndarray]) -> Optional[List[np.ndarray]]:
        """Return the results of a run in a child process; None if no child process can be started."""
        proto = self._shim.write_carriers(self._program)
        inputs = name_inputs([port.name for port in proto.graph.input], arrays)
        result = run_in_child(proto.SerializeToString(), inputs, optimised=is_optimisable(proto))
        return None if result is None else as_carriers(result.outputs, carrier_dtypes(self._program))
