"""What there is to see: live where there is a terminal, else lines."""

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

__all__ = ["Screen", "Totals", "span", "table"]

EVERY = 60.0
"""Seconds between lines, where nothing else is to be told."""
WIDE = 180


@dataclass
class Totals:
    """Of those that ended."""

    cells: int
    ended: dict[str, Outcome] = field(default_factory=dict)
    cases: int = 0
    failures: int = 0


class Screen:
    def __init__(self, console: Console, now: Callable[[], float] = time.monotonic) -> None:
        self._console, self._now = console, now
        self._live = Live(console=console, refresh_per_second=2, transient=True) if console.is_terminal else None
        self._told = now()

    @contextmanager
    def shown(self) -> Iterator[None]:
        with self._live or nullcontext():
            yield

    def say(self, text: str, style: str = "") -> None:
        """For good, above what is live."""
        self._console.print(Text(text, style), soft_wrap=True)
        self._told = self._now()

    def look(self, running: list[Running], totals: Totals, left: float) -> None:
        line = _summary(running, totals, left)
        if self._live:
            self._live.update(Group(self._cells(running), Text(line, "bold")))
        elif self._now() - self._told >= EVERY:
            here = ", ".join(f"{each.cell.id} {len(each.tests.outcomes)}/{each.tests.total or '?'}" for each in running)
            self.say(f"{line} | {here}")

    def _cells(self, running: list[Running]) -> Table:
        grid = Table.grid(padding=(0, 2))
        for each in running:
            tests = each.tests
            counts = f"{len(tests.outcomes)}/{tests.total} tests" if tests.total else "installing"
            wrong = Text(f"{len(tests.failures)} failed", "red") if tests.failures else Text("")
            bar = ProgressBar(total=tests.total or None, completed=len(tests.outcomes), width=30)
            grid.add_row(each.cell.id, bar, counts, span(self._now() - each.started), wrong)
        return grid


def table(outcomes: Mapping[str, Outcome], before: Iterable[str]) -> Table:
    """Of all cells: what became of each, and of which it was known before."""
    found = Table(box=None, pad_edge=False, header_style="bold")
    found.add_column("cell", no_wrap=True)
    found.add_column("state", no_wrap=True)
    for name in (*OUTCOMES, "seconds", "native"):
        found.add_column(name, justify="right", no_wrap=True)
    for id, each in outcomes.items():
        counts = [str(each.counts.get(name, "")) for name in OUTCOMES]
        share = "" if each.native is None else f"{int(each.native * 1000) / 10:.1f} %"
        status = f"{each.status}, before" if id in before else each.status
        style = "red" if each.status in BAD else ""
        found.add_row(id, status, *counts, f"{each.seconds:.0f}", share, style=style)
    return found


def span(seconds: float) -> str:
    minutes, rest = divmod(round(seconds), 60)
    return f"{minutes // 60}:{minutes % 60:02}:{rest:02}" if minutes >= 60 else f"{minutes}:{rest:02}"


def _summary(running: list[Running], totals: Totals, left: float) -> str:
    bad = sum(each.status in BAD for each in totals.ended.values())
    cases = totals.cases + sum(each.tests.cases for each in running)
    failures = totals.failures + sum(len(each.tests.failures) for each in running)
    told = f"{len(totals.ended)} of {totals.cells} cells done, {bad} not well; {cases} cases, {failures} failed tests"
    return f"{told}; {span(left)} left" if left else told
