"""Display of a run: on a terminal, lines above a live display of the running cells; elsewhere, lines only."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, field

from rich.console import Console, Group
from rich.live import Live
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from matrix.results import OUTCOMES
from matrix.run.outcome import BAD, Outcome
from matrix.run.schedule import Running

__all__ = ["Screen", "Totals", "format_span", "outcome_table"]

EVERY = 60.0
"""Without a terminal, a line of progress is printed if no line was printed for this many seconds."""
WIDE = 180


@dataclass
class Totals:
    """Sums over the cells of a run that have ended. `cells`: the number of all cells of the run."""

    cells: int
    ended: dict[str, Outcome] = field(default_factory=dict)
    cases: int = 0
    failures: int = 0


class Screen:
    """Prints lines to a console and, on a terminal, a live display of the running cells below them."""

    def __init__(self, console: Console, now: Callable[[], float] = time.monotonic) -> None:
        self._console, self._now = console, now
        self._live = Live(console=console, refresh_per_second=2, transient=True) if console.is_terminal else None
        self._last_line = now()

    @contextmanager
    def live(self) -> Iterator[None]:
        """Show the live display while the block runs. Without a terminal, do nothing."""
        with self._live or nullcontext():
            yield

    def print_line(self, text: str, style: str = "") -> None:
        """Print a line above the live display."""
        self._console.print(Text(text, style), soft_wrap=True)
        self._last_line = self._now()

    def update(self, running: list[Running], totals: Totals, left: float) -> None:
        """Update the live display. Without a terminal, print a line of progress once a minute.

        `left`: estimated seconds to the end.
        """
        line = _format_summary(running, totals, left)
        if self._live:
            self._live.update(Group(self._cells(running), Text(line, "bold")))
        elif self._now() - self._last_line >= EVERY:
            progress = ", ".join(
                f"{entry.cell.id} {len(entry.tests.outcomes)}/{entry.tests.total or '?'}" for entry in running
            )
            self.print_line(f"{line} | {progress}")

    def _cells(self, running: list[Running]) -> Table:
        """Return the live display: a row for each running cell, with its progress, its duration and its failures."""
        grid = Table.grid(padding=(0, 2))
        for entry in running:
            tests = entry.tests
            counts = f"{len(tests.outcomes)}/{tests.total} tests" if tests.total else "installing"
            failures = Text(f"{len(tests.failures)} failed", "red") if tests.failures else Text("")
            bar = ProgressBar(total=tests.total or None, completed=len(tests.outcomes), width=30)
            grid.add_row(entry.cell.id, bar, counts, format_span(self._now() - entry.started), failures)
        return grid


def outcome_table(outcomes: Mapping[str, Outcome], before: Iterable[str]) -> Table:
    """Return the table of the outcomes of all cells. `before`: the cells that were done before this run."""
    grid = Table(box=None, pad_edge=False, header_style="bold")
    grid.add_column("cell", no_wrap=True)
    grid.add_column("state", no_wrap=True)
    for name in (*OUTCOMES, "seconds", "native"):
        grid.add_column(name, justify="right", no_wrap=True)
    for id, outcome in outcomes.items():
        counts = [str(outcome.counts.get(name, "")) for name in OUTCOMES]
        share = "" if outcome.native is None else f"{int(outcome.native * 1000) / 10:.1f} %"
        status = f"{outcome.status}, before" if id in before else outcome.status
        style = "red" if outcome.status in BAD else ""
        grid.add_row(id, status, *counts, f"{outcome.seconds:.0f}", share, style=style)
    return grid


def format_span(seconds: float) -> str:
    """Format a duration as [h:]mm:ss."""
    minutes, rest = divmod(round(seconds), 60)
    return f"{minutes // 60}:{minutes % 60:02}:{rest:02}" if minutes >= 60 else f"{minutes}:{rest:02}"


def _format_summary(running: list[Running], totals: Totals, left: float) -> str:
    """Return the line below the running cells: sums over the run, and the estimated seconds `left` if not 0."""
    bad = sum(outcome.status in BAD for outcome in totals.ended.values())
    cases = totals.cases + sum(entry.tests.cases for entry in running)
    failures = totals.failures + sum(len(entry.tests.failures) for entry in running)
    summary = (
        f"{len(totals.ended)} of {totals.cells} cells done, {bad} not well; {cases} cases, {failures} failed tests"
    )
    return f"{summary}; {format_span(left)} left" if left else summary
