"""The reference as a shim: part of the core, always available, and used if no framework is."""

from typing import List, Optional, Sequence

import numpy as np

from onnx_compat.reference import Reference
from onnx_compat.shim.emission import check_target, emit
from onnx_compat.shim.interface import Compiled, Emitter, Probe, Program, Shim

__all__ = ["SHIM", "ReferenceShim"]


class Replayed(Compiled):
    """A program that is executed node by node in every run."""

    def __init__(self, program: Program) -> None:
        self.native = program
        self.program = program

    def run(self, arrays: Sequence[np.ndarray]) -> List[np.ndarray]:
        """Execute the program."""
        # Copy, because a result may be a constant of the model, an input, or a view of either.
        return [np.array(output, order="C") for output in emit(self.program.region, Reference(), arrays)]


class ReferenceShim(Shim):
    """The shim of numpy."""

    name = "reference"

    def probe(self) -> Probe:
        """Return that numpy is available."""
        return Probe(True, "embedded in onnx-compat", "numpy", np.__version__)

    def emitter(self) -> Emitter:
        """Return an emitter that executes."""
        return Reference()

    def compile(self, program: Program, device: Optional[str] = None) -> Compiled:
        """Return the program as it is. It is executed node by node."""
        self.resolve_device(device)
        check_target(program.region, self.emitter())
        return Replayed(program)

    def executor(self, device: Optional[str] = None) -> Emitter:
        """Return an emitter that executes."""
        return Reference()


SHIM = ReferenceShim()
