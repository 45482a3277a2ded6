"""Rewrites of recorded programs and of target graphs, behind one contract.

`contract` declares what a pass is, `schedule` checks the order of passes and selects those that run, `report` counts
their rewrites. `CORE` holds the passes that run for every shim. docs/passes.md lists all passes of this repository.
"""

from typing import TYPE_CHECKING, List

from onnx_compat.passes.contract import EVERY, Pass, ProgramPass, program_pass
from onnx_compat.passes.report import Entry, Report, recording
from onnx_compat.passes.schedule import VARIABLE, Schedule, check_names, leaving_out, run_program_passes
from onnx_compat.passes.weight_folding import weight_folding

__all__ = [
    "CORE",
    "EVERY",
    "VARIABLE",
    "Entry",
    "Pass",
    "ProgramPass",
    "Report",
    "Schedule",
    "check_names",
    "leaving_out",
    "passes_of",
    "program_pass",
    "recording",
    "run_program_passes",
]

if TYPE_CHECKING:
    from onnx_compat.shim.interface import Shim

#: The passes over recorded programs that run for every shim.
CORE = Schedule([weight_folding])


def passes_of(shim: "Shim") -> List[Pass]:
    """The passes of a conversion by a shim, each once, in the order in which they run."""
    return [*CORE.distinct, *shim.passes]
