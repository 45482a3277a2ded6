"""Runner of cells: it skips cells that are done, runs the others, and records their outcomes."""

from __future__ import annotations

import json
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from rich.console import Console

from matrix.cells import PARTS
from matrix.data import Cell, Matrix
from matrix.results import load_results
from matrix.run import done, process
from matrix.run.expect import estimate_remaining, estimate_seconds
from matrix.run.inputs import digest
from matrix.run.machine import Plan
from matrix.run.outcome import BAD, BROKEN, PASSED, End, Outcome, broken_results, judge
from matrix.run.progress import Progress
from matrix.run.schedule import Running, schedule
from matrix.run.screen import Screen, Totals, format_span

__all__ = ["Runner"]

TAIL = 25
"""The last lines of the log that are shown for a cell that failed."""


class Runner:
    """Runs the cells that are not done, and records their outcomes. A cell is done if it passed with the same inputs."""

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
        """Prepare a run of `cells`. `limit`: the seconds after which a cell is ended.

        - tests: arguments of pytest. With them the run is partial: cells that are done run too, and no cell is marked
          as done.
        - fresh: run cells that are done too. `run` deletes the records of the cells first.
        - nox: a Python that has nox.
        - results: the folder of results; None: that of the repository.
        """
        self.cells, self.tests, self.nox, self.limit, self.fresh = cells, tests, nox, limit, fresh
        self.results = results = results or done.RESULTS
        self._inputs = {cell.id: digest(matrix, cell) for cell in cells}
        self._stored = load_results()
        self._sampled = matrix.gate_seconds if "--sample" in tests else None
        self._seconds = self._estimate_seconds()
        self._ended: dict[str, Outcome] = {}
        self._written: dict[str, int] = {}

    def waiting(self) -> list[Cell]:
        """Return the cells to run, the one with the longest estimate first, so that no long cell runs alone at the end."""
        cells = [cell for cell in self.cells if self.fresh or self.tests or not self._is_done(cell)]
        return sorted(cells, key=lambda cell: -self._seconds[cell.id])

    def run(self, plan: Plan, console: Console) -> None:
        """Run the cells that are not done, and print their progress and outcomes to the console.

        With `fresh`, the records of the cells are deleted first.
        """
        waiting = self.waiting()
        for cell in waiting if self.fresh else ():
            done.forget(cell.id, self.results)
        totals = Totals(len(waiting))
        screen = Screen(console)

        def start(cell: Cell) -> tuple[process.Process, Progress]:
            screen.print_line(f"{cell.id} started")
            return self._start(cell, plan.workers)

        def update(running: list[Running], rest: list[Cell]) -> None:
            screen.update(
                running, totals, estimate_remaining(running, rest, self._seconds, plan.jobs, time.monotonic())
            )

        with screen.live():
            for cell, tests, end in schedule(waiting, plan.jobs, self.limit, start, update):
                outcome = self._end(cell, tests or Progress(self._tests(cell)), end)
                totals.ended[cell.id] = outcome
                totals.cases += tests.cases if tests else 0
                totals.failures += len(tests.failures) if tests else 0
                self._report(screen, cell, outcome)
                self._seconds = self._estimate_seconds()

    def outcomes(self) -> dict[str, Outcome]:
        """Return cell -> outcome, of this run and of cells that were done before. Cells that did not run are absent."""
        by_cell = {}
        for cell in self.cells:
            if cell.id in self._ended:
                by_cell[cell.id] = self._ended[cell.id]
            elif not self.tests and self._is_done(cell):
                record = done.read(cell.id, self.results)
                end = End(0, record.seconds if record else 0.0)
                by_cell[cell.id] = judge(
                    end, Progress(Path()), self._read_results(cell), "", True, self._stored.get(cell.id)
                )
        return by_cell

    def _estimate_seconds(self) -> dict[str, float]:
        """Return cell -> the estimate of its duration, or 0."""
        return estimate_seconds(self.cells, self._stored, self.results, self._sampled)

    def _is_done(self, cell: Cell) -> bool:
        """Whether the last run of the cell passed with the same inputs, and its results file has not changed since."""
        return done.is_current(cell.id, self._inputs[cell.id], PASSED, self.results)

    def _start(self, cell: Cell, workers: int) -> tuple[process.Process, Progress]:
        """Start nox for a cell. Return (its process, its progress)."""
        self._log(cell).parent.mkdir(parents=True, exist_ok=True)
        self._tests(cell).unlink(missing_ok=True)
        self._written[cell.id] = self._time(cell)
        env = process.environment(
            ONNX_COMPAT_PREPARED="1",
            ONNX_COMPAT_PROGRESS=str(self._tests(cell)),
            PYTEST_XDIST_AUTO_NUM_WORKERS=str(workers),
        )
        command = process.nox_command([f"cell({cell.id})"], self.tests, self.nox)
        return process.Nox(command, self._log(cell), env), Progress(self._tests(cell))

    def _end(self, cell: Cell, tests: Progress, end: End) -> Outcome:
        """Judge the ended run of a cell, store its record unless the run is partial, and return the outcome.

        A cell that broke before it wrote results gets a results file that says why.
        """
        is_written = self._written.get(cell.id) != self._time(cell)
        whole = not self.tests
        log = self._log(cell).read_text(encoding="utf-8", errors="replace") if self._log(cell).exists() else ""
        results = self._read_results(cell) if is_written else None
        outcome = judge(end, tests, results, log, whole, self._stored.get(cell.id))
        self._ended[cell.id] = outcome
        if whole:
            if outcome.status == BROKEN and (results is None or results.get("state") != BROKEN):
                broken = broken_results(cell, outcome.reason)
                self._path(cell).write_text(json.dumps(broken, indent=1) + "\n", encoding="utf-8")
            done.write(cell.id, self._inputs[cell.id], outcome.status, end.seconds, self.results)
        return outcome

    def _report(self, screen: Screen, cell: Cell, outcome: Outcome) -> None:
        """Print the outcome of a cell, below the end of its log if it is bad."""
        counts = ", ".join(f"{count} {name}" for name, count in outcome.counts.items())
        bad = outcome.status in BAD
        if bad and self._log(cell).exists():
            lines = self._log(cell).read_text(encoding="utf-8", errors="replace").splitlines()[-TAIL:]
            screen.print_line("\n".join(f"  | {line}" for line in lines))
        summary = f"{cell.id} {outcome.status} in {format_span(outcome.seconds)}"
        screen.print_line(": ".join(filter(None, [summary, counts, outcome.reason])), "red" if bad else "green")

    def _read_results(self, cell: Cell) -> dict[str, Any] | None:
        """Return the content of the results file of a cell; None if it is missing or no JSON."""
        try:
            content: dict[str, Any] = json.loads(self._path(cell).read_text(encoding="utf-8"))
        except (OSError, ValueError):
            return None
        return content

    def _time(self, cell: Cell) -> int:
        """Return the modification time of the results file of a cell, in nanoseconds; 0 if there is no file."""
        return self._path(cell).stat().st_mtime_ns if self._path(cell).exists() else 0

    def _path(self, cell: Cell) -> Path:
        """Return the path of the results file of a cell; a partial run has a subfolder of its own."""
        return self.results / (PARTS if self.tests else "") / f"{cell.id}.json"

    def _log(self, cell: Cell) -> Path:
        """Return the path of the output of nox for a cell."""
        return self.results / "logs" / f"{cell.id}.log"

    def _tests(self, cell: Cell) -> Path:
        """Return the path of the file to which the tests of a cell append their outcomes."""
        return self.results / "logs" / f"{cell.id}.tests"
