"""Command line: `nox -s matrix -- [OPTIONS] [CELL ...] [-- PYTEST ARGUMENTS]`."""

from __future__ import annotations

import argparse
import os
import signal
import subprocess
import sys
from collections.abc import Sequence
from types import FrameType
from typing import NoReturn

from rich.console import Console

from matrix.data import RUNNERS, TIERS, MatrixError, load
from matrix.run import machine, process
from matrix.run.choose import choose
from matrix.run.outcome import BAD
from matrix.run.runner import Runner
from matrix.run.screen import WIDE, outcome_table
from matrix.run.since import find_affected

__all__ = ["main", "make_parser", "split"]

PREPARED = ["wheels", "suites", "zoo"]
"""The nox sessions whose results all cells use. They run once, before the first cell; in `.ci/run`, before this command."""
SHOWN = 3


def main(arguments: Sequence[str]) -> int:
    """Run cells. Return 0 if all passed, 1 if a cell did not, 2 after a MatrixError, 130 after an interrupt.

    A wrong request raises a MatrixError, which is printed.
    """
    own_arguments, tests = split(arguments)
    options = make_parser().parse_args(own_arguments)
    console = Console(highlight=False, width=None if sys.stdout.isatty() else WIDE)
    # nox ends its processes with SIGTERM.
    signal.signal(signal.SIGTERM, _interrupt)
    try:
        return _run(options, tests, console)
    except MatrixError as error:
        print(error, file=sys.stderr)
        return 2


def _run(options: argparse.Namespace, tests: list[str], console: Console) -> int:
    """Run the cells that the options choose, print their outcomes, and return the exit code.

    `tests`: arguments of pytest.
    """
    matrix = load()
    cells = choose(matrix, options.cells, options.tier, options.shim, options.runner)
    if options.since is not None:
        reasons_by_cell = find_affected(matrix, cells, options.since)
        cells = [cell for cell in cells if cell.id in reasons_by_cell]
        for id, reasons in reasons_by_cell.items():
            more = f" and {len(reasons) - SHOWN} more" if len(reasons) > SHOWN else ""
            console.print(f"{id}: {', '.join(reasons[:SHOWN])}{more}", soft_wrap=True, markup=False)
    runner = Runner(matrix, cells, tests, options.nox, options.minutes * 60, options.fresh)
    waiting = runner.waiting()
    plan = machine.plan(len(waiting), options.jobs, machine.cores(), machine.memory())
    console.print(
        f"{len(cells)} cells, {len(cells) - len(waiting)} of them done before;"
        f" {plan.jobs} at once, each with {plan.workers} workers"
    )
    if options.dry_run:
        for cell in waiting:
            console.print(cell.id)
        return 0
    try:
        if waiting:
            if "ONNX_COMPAT_PREPARED" not in os.environ:
                _prepare(options.nox)
            runner.run(plan, console)
    except KeyboardInterrupt:
        console.print("interrupted: run `nox -s matrix` again to continue", style="red")
        code = 130
    else:
        code = 0
    outcomes = runner.outcomes()
    console.print(outcome_table(outcomes, {cell.id for cell in cells} - {cell.id for cell in waiting}))
    bad = {id: outcome for id, outcome in outcomes.items() if outcome.status in BAD}
    for id, outcome in bad.items():
        console.print(f"{id}: {outcome.status}: {outcome.reason}", style="red", soft_wrap=True, markup=False)
    return code or (1 if bad else 0)


def _prepare(nox: str) -> None:
    """Run the sessions in `PREPARED`. Raise a MatrixError if they fail. `nox`: a Python that has nox."""
    completed = subprocess.run(process.nox_command(PREPARED, nox=nox), env=process.environment(), check=False)
    if completed.returncode:
        raise MatrixError(f"`nox -s {' '.join(PREPARED)}` failed, so no cell was run.")


def split(arguments: Sequence[str]) -> tuple[list[str], list[str]]:
    """Return (the arguments before `--`, the arguments after it, which are for pytest)."""
    separator = arguments.index("--") if "--" in arguments else len(arguments)
    return list(arguments[:separator]), list(arguments[separator + 1 :])


def _interrupt(_number: int, _frame: FrameType | None) -> NoReturn:
    """Raise KeyboardInterrupt. This is the handler of a signal, so it has arguments, which it ignores."""
    raise KeyboardInterrupt


def make_parser() -> argparse.ArgumentParser:
    """Return the parser of the arguments before `--`."""
    parser = argparse.ArgumentParser(
        prog="nox -s matrix --",
        description="Run the cells that are not done: those that did not pass, or whose inputs have changed.",
        epilog="Arguments after another `--` go to pytest; such a run is partial, and marks no cell as done.",
    )
    parser.add_argument("cells", nargs="*", metavar="CELL", help="only these cells")
    parser.add_argument(
        "--tier", action="append", default=[], choices=TIERS, help="only cells of this tier; repeatable"
    )
    parser.add_argument("--shim", action="append", default=[], help="only cells of this shim; repeatable")
    parser.add_argument("--runner", default=RUNNERS[0], choices=RUNNERS, help="the kind of this machine (%(default)s)")
    parser.add_argument(
        "--since", metavar="REV", help="only cells that changes since this revision can affect, with these changes"
    )
    parser.add_argument("--fresh", action="store_true", help="also cells that are done")
    parser.add_argument("--jobs", type=int, metavar="N", help="cells at once; by default by cores and memory")
    parser.add_argument("--minutes", type=float, default=60.0, help="the time limit of a cell (%(default).0f)")
    parser.add_argument("--dry-run", action="store_true", help="list the cells that would run")
    parser.add_argument("--nox", default=sys.executable, help=argparse.SUPPRESS)
    return parser


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
