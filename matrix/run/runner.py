"""A run of some cells: what is done, what runs, and what is written of each as it ends."""

from __future__ import annotations

import json
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from rich.console import Console

from matrix.cells import PARTS
from matrix.data import Cell, Matrix
from matrix.results import stored
from matrix.run import done, process
from matrix.run.expect import expected, left
from matrix.run.inputs import digest
from matrix.run.machine import Plan
from matrix.run.outcome import BAD, BROKEN, PASSED, End, Outcome, broken_results, judge
from matrix.run.progress import Progress
from matrix.run.schedule import Running, schedule
from matrix.run.screen import Screen, Totals, span

__all__ = ["Runner"]

TAIL = 25
"""Lines of the log of a cell that is not well."""


class Runner:
    def __init__(
        self,
        matrix: Matrix,
        cells: Sequence[Cell],
        tests: Sequence[str],
        nox: str,
        limit: float,
        fresh: bool = False,
        results: Path | None = None,
    ) -> None:
        """`tests`: what goes to pytest; a run with any is no whole one, and marks nothing as done. `fresh`: what was done
        before is not.
        """
        self.cells, self.tests, self.nox, self.limit, self.fresh = cells, tests, nox, limit, fresh
        self.results = results = results or done.RESULTS
        self._inputs = {cell.id: digest(matrix, cell) for cell in cells}
        self._stored = stored()
        self._seconds = expected(cells, self._stored, results)
        self._ended: dict[str, Outcome] = {}
        self._written: dict[str, int] = {}

    def waiting(self) -> list[Cell]:
        """Those that are not done, the longest first: none is left to run alone at the end."""
        cells = [cell for cell in self.cells if self.fresh or self.tests or not self._done(cell)]
        return sorted(cells, key=lambda cell: -self._seconds[cell.id])

    def run(self, plan: Plan, console: Console) -> None:
        waiting = self.waiting()
        for cell in waiting if self.fresh else ():
            done.forget(cell.id, self.results)
        totals = Totals(len(waiting))
        screen = Screen(console)

        def start(cell: Cell) -> tuple[process.Process, Progress]:
            screen.say(f"{cell.id} started")
            return self._start(cell, plan.workers)

        def look(running: list[Running], rest: list[Cell]) -> None:
            screen.look(running, totals, left(running, rest, self._seconds, plan.jobs, time.monotonic()))

        with screen.shown():
            for cell, tests, end in schedule(waiting, plan.jobs, self.limit, start, look):
                outcome = self._end(cell, tests or Progress(self._tests(cell)), end)
                totals.ended[cell.id] = outcome
                totals.cases += tests.cases if tests else 0
                totals.failures += len(tests.failures) if tests else 0
                self._tell(screen, cell, outcome)
                self._seconds = expected(self.cells, self._stored, self.results)

    def outcomes(self) -> dict[str, Outcome]:
        """Of all cells, also of those that were done before; not of those that a run did not come to."""
        found = {}
        for cell in self.cells:
            if cell.id in self._ended:
                found[cell.id] = self._ended[cell.id]
            elif not self.tests and self._done(cell):
                record = done.read(cell.id, self.results)
                end = End(0, record.seconds if record else 0.0)
                found[cell.id] = judge(end, Progress(Path()), self._found(cell), "", True, self._stored.get(cell.id))
        return found

    def _done(self, cell: Cell) -> bool:
        return done.stands(cell.id, self._inputs[cell.id], PASSED, self.results)

    def _start(self, cell: Cell, workers: int) -> tuple[process.Process, Progress]:
        self._log(cell).parent.mkdir(parents=True, exist_ok=True)
        self._tests(cell).unlink(missing_ok=True)
        self._written[cell.id] = self._time(cell)
        env = process.environment(
            ONNX_COMPAT_PREPARED="1",
            ONNX_COMPAT_PROGRESS=str(self._tests(cell)),
            PYTEST_XDIST_AUTO_NUM_WORKERS=str(workers),
        )
        command = process.command([f"cell({cell.id})"], self.tests, self.nox)
        return process.Nox(command, self._log(cell), env), Progress(self._tests(cell))

    def _end(self, cell: Cell, tests: Progress, end: End) -> Outcome:
        written = self._written.get(cell.id) != self._time(cell)
        whole = not self.tests
        log = self._log(cell).read_text(encoding="utf-8", errors="replace") if self._log(cell).exists() else ""
        found = self._found(cell) if written else None
        outcome = judge(end, tests, found, log, whole, self._stored.get(cell.id))
        self._ended[cell.id] = outcome
        if whole:
            if outcome.status == BROKEN and (found is None or found.get("state") != BROKEN):
                broken = broken_results(cell, outcome.reason)
                self._path(cell).write_text(json.dumps(broken, indent=1) + "\n", encoding="utf-8")
            done.write(cell.id, self._inputs[cell.id], outcome.status, end.seconds, self.results)
        return outcome

    def _tell(self, screen: Screen, cell: Cell, outcome: Outcome) -> None:
        counts = ", ".join(f"{count} {name}" for name, count in outcome.counts.items())
        bad = outcome.status in BAD
        if bad and self._log(cell).exists():
            lines = self._log(cell).read_text(encoding="utf-8", errors="replace").splitlines()[-TAIL:]
            screen.say("\n".join(f"  | {line}" for line in lines))
        told = f"{cell.id} {outcome.status} in {span(outcome.seconds)}"
        screen.say(": ".join(filter(None, [told, counts, outcome.reason])), "red" if bad else "green")

    def _found(self, cell: Cell) -> dict[str, Any] | None:
        try:
            found: dict[str, Any] = json.loads(self._path(cell).read_text(encoding="utf-8"))
        except (OSError, ValueError):
            return None
        return found

    def _time(self, cell: Cell) -> int:
        """When its results were written; 0 for never."""
        return self._path(cell).stat().st_mtime_ns if self._path(cell).exists() else 0

    def _path(self, cell: Cell) -> Path:
        return self.results / (PARTS if self.tests else "") / f"{cell.id}.json"

    def _log(self, cell: Cell) -> Path:
        return self.results / "logs" / f"{cell.id}.log"

    def _tests(self, cell: Cell) -> Path:
        return self.results / "logs" / f"{cell.id}.tests"
