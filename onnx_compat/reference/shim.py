"""The reference as a shim: part of the core, always available, and the default if no framework is installed."""

from typing import List, Optional, Sequence

import numpy as np

from onnx_compat.reference import Reference
from onnx_compat.shim.emission import check_target, emit
from onnx_compat.shim.interface import Compiled, Emitter, Probe, Program, Shim

__all__ = ["SHIM", "ReferenceShim"]


class Replayed(Compiled):
    """A compiled program of the reference. Each run executes the program node by node in numpy."""

    def __init__(self, program: Program) -> None:
        self.native = program
        self.program = program

    def run(self, arrays: Sequence[np.ndarray]) -> List[np.ndarray]:
        """Execute the program on the input arrays. Return its outputs, in order, as C-contiguous copies."""
        # Copy, because a result may be a constant of the model, an input, or a view of either.
        return [np.array(output, order="C") for output in emit(self.program.region, Reference(), arrays)]


class ReferenceShim(Shim):
    """The shim of the reference: it executes programs in numpy."""

    name = "reference"

    def probe(self) -> Probe:
        """Return a probe that is always available, with the version of numpy."""
        return Probe(True, "embedded in onnx-compat", "numpy", np.__version__)

    def emitter(self) -> Emitter:
        """Return an emitter that computes each primitive when it is called."""
        return Reference()

    def compile(self, program: Program, device: Optional[str] = None) -> Compiled:
        """Return the program in a form that runs node by node.

        Raises TargetError if the program was recorded for another target, and ShimError for an unknown device.
        """
        self.resolve_device(device)
        check_target(program.region, self.emitter())
        return Replayed(program)

    def executor(self, device: Optional[str] = None) -> Emitter:
        """Return an emitter that computes each primitive when it is called. `device` has no effect."""
        return Reference()


SHIM = ReferenceShim()
