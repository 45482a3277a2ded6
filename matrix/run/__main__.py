"""`nox -s matrix -- [OPTIONS] [CELL ...] [-- PYTEST ARGUMENTS]`."""

from __future__ import annotations

import argparse
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
from matrix.run.screen import WIDE, table
from matrix.run.since import affected

__all__ = ["main"]

PREPARED = ["wheels", "suites", "zoo"]
"""What all cells bring along: made once, before the first."""
SHOWN = 3


def main(arguments: Sequence[str]) -> int:
    told, tests = _split(arguments)
    options = _parser().parse_args(told)
    console = Console(highlight=False, width=None if sys.stdout.isatty() else WIDE)
    # nox tells what it runs to end in this way, too.
    signal.signal(signal.SIGTERM, _interrupted)
    try:
        return _run(options, tests, console)
    except MatrixError as error:
        print(error, file=sys.stderr)
        return 2


def _run(options: argparse.Namespace, tests: list[str], console: Console) -> int:
    matrix = load()
    cells = choose(matrix, options.cells, options.tier, options.shim, options.runner)
    if options.since is not None:
        why = affected(matrix, cells, options.since)
        cells = [cell for cell in cells if cell.id in why]
        for id, reasons in why.items():
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
            _prepare(options.nox)
            runner.run(plan, console)
    except KeyboardInterrupt:
        console.print("interrupted: `nox -s matrix` goes on with what did not end", style="red")
        code = 130
    else:
        code = 0
    outcomes = runner.outcomes()
    console.print(table(outcomes, {cell.id for cell in cells} - {cell.id for cell in waiting}))
    bad = {id: each for id, each in outcomes.items() if each.status in BAD}
    for id, each in bad.items():
        console.print(f"{id}: {each.status}: {each.reason}", style="red", soft_wrap=True, markup=False)
    return code or (1 if bad else 0)


def _prepare(nox: str) -> None:
    done = subprocess.run(process.command(PREPARED, nox=nox), env=process.environment(), check=False)
    if done.returncode:
        raise MatrixError(f"no cell was run: `nox -s {' '.join(PREPARED)}` failed")


def _split(arguments: Sequence[str]) -> tuple[list[str], list[str]]:
    at = arguments.index("--") if "--" in arguments else len(arguments)
    return list(arguments[:at]), list(arguments[at + 1 :])


def _interrupted(_number: int, _frame: FrameType | None) -> NoReturn:
    raise KeyboardInterrupt


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="nox -s matrix --",
        description="Run the cells that are not done: those that did not pass, or whose inputs changed since.",
        epilog="What comes after another `--` goes to pytest; such a run is no whole one, and nothing is done by it.",
    )
    parser.add_argument("cells", nargs="*", metavar="CELL", help="only these")
    parser.add_argument("--tier", action="append", default=[], choices=TIERS, help="only cells of it; may be repeated")
    parser.add_argument("--shim", action="append", default=[], help="only cells of it; may be repeated")
    parser.add_argument("--runner", default=RUNNERS[0], choices=RUNNERS, help="what this machine is (%(default)s)")
    parser.add_argument(
        "--since", metavar="REV", help="only cells that the changes since then can affect, and by which"
    )
    parser.add_argument("--fresh", action="store_true", help="also those that are done")
    parser.add_argument("--jobs", type=int, metavar="N", help="so many cells at once; else by cores and memory")
    parser.add_argument("--minutes", type=float, default=60.0, help="the limit of a cell (%(default).0f)")
    parser.add_argument("--dry-run", action="store_true", help="say what would be run")
    parser.add_argument("--nox", default=sys.executable, help=argparse.SUPPRESS)
    return parser


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
