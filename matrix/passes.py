"""docs/passes.md, rendered from the registered passes."""

from __future__ import annotations

import sys
from typing import Any, List

from matrix.data import ROOT

__all__ = ["PAGE", "page"]

PAGE = "docs/passes.md"

_HEAD = """\
# Passes

A pass is a rewrite that keeps the results. Program passes rewrite a recorded program, graph passes the operators of a
TFLite subgraph, model passes an ONNX model. This page is rendered from the registered passes by `python -m matrix
render`. CONTRIBUTING.md tells how to add a pass.

## The contract

A pass is a registered object (`onnx_compat/passes/contract.py`, `shims/tflite/onnx_compat_tflite/passes/contract.py`)
with

- a `name`, which reports and `ONNX_COMPAT_PASSES` use;
- a `summary`: before => after. The docstring of its module states the conditions;
- `after` and `before`: the passes that must run earlier or later. A schedule that breaks a constraint is refused on
  import;
- an `example`: a small program or graph on which the pass acts. A test runs each pass alone on its example and
  compares the results;
- `apply`, which returns the number of rewrites. Graph passes edit through `GraphRewriter` only; a test finds other
  assignments;
- `legalizes`: whether some runtime refuses or misreads a file without the pass. Other passes make files smaller or
  faster.

Readers of an intermediate value are counted: a value that another operator reads, or that is an output, stays.
`dead_code` runs several times, since a dead operator counts as a reader.

## Find out what passes do

- `onnx-compat convert MODEL PATH --explain` lists each pass with the number of its rewrites.
- `ONNX_COMPAT_PASSES=-name,-other` leaves passes out. An unknown name is refused.
- `onnx-compat verify MODEL --converted FILE --bisect-passes` names the pass that makes a file wrong. It converts the
  model again with fewer passes, by binary search over the order below. Passes that legalize always run, and are tried
  last.
- `ONNX_COMPAT_VERIFY=1` verifies the program or the graph behind every pass, and names the pass that leaves a defect.
  It checks dtypes, shapes and the structure, not numbers: a wrong number is found by `--bisect-passes`.
- A pass that fails is named, with the value of `ONNX_COMPAT_PASSES` that leaves it out.
"""

_PROGRAM = """\
The first pass runs for every shim; its module is in `onnx_compat/passes`. The others run for TFLite; their modules, and
those of the graph passes, are in `shims/tflite/onnx_compat_tflite/passes`.\
"""

_MODEL = """\
`onnx_compat.simplify` runs these passes until a round rewrites nothing: see [Simplification](how/simplification.md).
Their modules are in `onnx_compat/simplify/rewrites`.\
"""


def page() -> str:
    """Return the text of docs/passes.md."""
    core, program, graph, models = _schedules()
    lines = [_HEAD, "## Program passes", "", _PROGRAM, ""]
    lines += _table([*core.passes, *program.passes])
    lines += ["", "## Graph passes of TFLite", ""]
    lines += [*_table(graph.passes), "", "## Model passes of ONNX", "", _MODEL, "", *_table(models.passes)]
    return "\n".join(lines) + "\n"


def _schedules() -> Any:
    """Return (passes of the core, program passes and graph passes of the tflite shim, model passes), each as a
    schedule.

    Their modules need numpy and no framework.
    """
    shim = str(ROOT / "shims" / "tflite")
    if shim not in sys.path:
        sys.path.append(shim)
    from onnx_compat_tflite.passes import GRAPH, PROGRAM

    from onnx_compat.passes import CORE
    from onnx_compat.simplify import SCHEDULE

    return CORE, PROGRAM, GRAPH, SCHEDULE


def _table(passes: Any) -> List[str]:
    """Return the lines of a Markdown table with a row for each pass, in the order in which the passes first run."""
    lines = ["| runs | pass | module | before => after | runs after |", "|---|---|---|---|---|"]
    for pass_ in {entry.name: entry for entry in passes}.values():
        runs = ", ".join(str(position) for position, later in enumerate(passes, 1) if later is pass_)
        earlier = [*pass_.after, *(later.name for later in dict.fromkeys(passes) if pass_.name in later.before)]
        names = ", ".join("every other pass" if name == "*" else name for name in dict.fromkeys(earlier))
        name = pass_.name + " (legalizes)" * pass_.legalizes
        lines.append(f"| {runs} | {name} | {_module(pass_)} | `{pass_.summary}` | {names} |")
    return lines


def _module(pass_: Any) -> str:
    """Return, in backquotes, the last name of the module that declares a pass: of `onnx_compat.passes` or
    `onnx_compat_tflite.passes`.
    """
    return f"`{pass_.apply.__module__.rpartition('.')[2]}`"
