"""The cells one after the other, or several at once; one that hangs or does not start is an end as any other."""

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
    cell: Cell
    process: Process
    tests: Progress
    started: float


def schedule(
    cells: Sequence[Cell],
    jobs: int,
    limit: float,
    start: Callable[[Cell], tuple[Process, Progress]],
    look: Callable[[list[Running], list[Cell]], None],
    now: Callable[[], float] = time.monotonic,
    sleep: Callable[[float], None] = time.sleep,
) -> Iterator[tuple[Cell, Progress | None, End]]:
    """Run `jobs` of these at a time, in this order; gives each as it ends. `look` sees what is running, and what waits.

    Whatever ends the run before that ends what it started.
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
            for each in list(running):
                each.tests.read()
                end = _end(each, now() - each.started, limit)
                if end is not None:
                    each.process.end()  # what it may have left behind
                    running.remove(each)
                    each.tests.read()
                    yield each.cell, each.tests, end
            look(running, list(waiting))
    finally:
        for each in running:
            each.process.end()


def _end(each: Running, seconds: float, limit: float) -> End | None:
    code = each.process.poll()
    if code is not None:
        return End(code, seconds)
    if seconds <= limit:
        return None
    return End(None, seconds, f"ended after {limit / 60:.0f} minutes, the limit of a cell")
