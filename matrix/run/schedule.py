"""Schedule of cells, several at once. A cell that hangs or does not start gets an outcome like any other cell."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from matrix.data import Cell
from matrix.run.outcome import End
from matrix.run.process import Process
from matrix.run.progress import Progress

__all__ = ["Running", "schedule"]

TICK = 0.5


@dataclass
class Running:
    """A cell that runs: its process, the tests that have ended, and the time at which it started."""

    cell: Cell
    process: Process
    tests: Progress
    started: float


def schedule(
    cells: Sequence[Cell],
    jobs: int,
    limit: float,
    start: Callable[[Cell], tuple[Process, Progress]],
    update: Callable[[list[Running], list[Cell]], None],
    now: Callable[[], float] = time.monotonic,
    sleep: Callable[[float], None] = time.sleep,
) -> Iterator[tuple[Cell, Progress | None, End]]:
    """Run the cells in this order, `jobs` at a time. Yield (cell, its tests, its end) when a cell ends.

    `start` starts a cell; if it raises OSError, None is yielded for the tests. A cell is ended after `limit` seconds.
    `update` gets the running and the waiting cells twice a second. If the caller stops the iteration early, all running
    processes are ended.
    """
    waiting = deque(cells)
    running: list[Running] = []
    try:
        while waiting or running:
            while waiting and len(running) < jobs:
                cell = waiting.popleft()
                try:
                    running.append(Running(cell, *start(cell), now()))
                except OSError as error:
                    yield cell, None, End(None, 0.0, str(error))
            sleep(TICK)
            for entry in list(running):
                entry.tests.read()
                end = _find_end(entry, now() - entry.started, limit)
                if end is not None:
                    entry.process.end()  # processes that it left behind
                    running.remove(entry)
                    entry.tests.read()
                    yield entry.cell, entry.tests, end
            update(running, list(waiting))
    finally:
        for entry in running:
            entry.process.end()


def _find_end(entry: Running, seconds: float, limit: float) -> End | None:
    """Return how a cell ended. None: it runs and is within the time limit."""
    code = entry.process.poll()
    if code is not None:
        return End(code, seconds)
    if seconds <= limit:
        return None
    return End(None, seconds, f"ended after {limit / 60:.0f} minutes, the limit of a cell")
