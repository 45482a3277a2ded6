"""Passes: rewrites of recorded programs and of target graphs that keep the results, all with one contract.

`contract` defines a pass, `schedule` checks the order of passes and selects those that run, `report` counts their
rewrites. `CORE` holds the passes that run for every shim. docs/passes.md lists all passes of this repository. A shim
imports from this package alone for its own passes.
"""

from typing import TYPE_CHECKING, List

from onnx_compat.ir.rewriter import Replacement, rewrite_region
from onnx_compat.passes.channels import ChannelMap, channel_map, channel_vector, scale_channels
from onnx_compat.passes.contract import EVERY, Pass, ProgramPass, program_pass
from onnx_compat.passes.report import Entry, PassReport, count_rewrites, recording
from onnx_compat.passes.rewriting import count_uses
from onnx_compat.passes.schedule import VARIABLE, Schedule, check_names, leaving_out, naming, run_program_passes
from onnx_compat.passes.weight_folding import weight_folding
from onnx_compat.tracing.recording import record_program

__all__ = [
    "CORE",
    "EVERY",
    "VARIABLE",
    "ChannelMap",
    "Entry",
    "Pass",
    "PassReport",
    "ProgramPass",
    "Replacement",
    "Schedule",
    "channel_map",
    "channel_vector",
    "check_names",
    "count_rewrites",
    "count_uses",
    "leaving_out",
    "naming",
    "passes_of",
    "program_pass",
    "record_program",
    "recording",
    "rewrite_region",
    "run_program_passes",
    "scale_channels",
]

if TYPE_CHECKING:
    from onnx_compat.shim.interface import Shim

#: The passes over recorded programs that run for every shim.
CORE = Schedule([weight_folding])


def passes_of(shim: "Shim") -> List[Pass]:
    """Return the distinct passes of a conversion by a shim, in running order: first the core's, then the shim's."""
    return [*CORE.distinct, *shim.passes]
