"""Estimates of the duration of cells, from earlier runs."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from pathlib import Path
from statistics import median
from typing import Any

from matrix.data import Cell
from matrix.run import done
from matrix.run.outcome import BROKEN, NO_GPU
from matrix.run.schedule import Running

__all__ = ["estimate_remaining", "estimate_seconds"]


def estimate_seconds(
    cells: Iterable[Cell],
    stored: dict[str, Any],
    results: Path = done.RESULTS,
    sampled: Mapping[str, float] | None = None,
) -> dict[str, float]:
    """Return cell -> seconds: as `sampled`, else measured on this machine, else as `stored`, else the median of its
    shim, else of all cells.

    - stored: cell -> stored results.
    - results: the folder of this machine's results.
    - sampled: cell -> seconds of a sample of its tests, for a run of such samples. None: the cells run whole.

    0: no duration is known.
    """
    cells = list(cells)
    known = {cell.id: seconds for cell in cells if (seconds := _measured_seconds(cell.id, stored, results))}
    known.update((cell.id, sampled[cell.id]) for cell in cells if sampled and cell.id in sampled)
    everywhere = median(known.values()) if known else 0.0
    alike: dict[str, list[float]] = {}
    for cell in cells:
        if cell.id in known:
            alike.setdefault(cell.shim, []).append(known[cell.id])
    return {cell.id: known.get(cell.id, median(alike.get(cell.shim, [everywhere]))) for cell in cells}


def estimate_remaining(
    running: Iterable[Running], waiting: Iterable[Cell], seconds: dict[str, float], jobs: int, now: float
) -> float:
    """Return the seconds until all cells have ended; 0 if no duration is known.

    `seconds`: cell -> its estimated duration, or 0. `jobs`: the number of cells at once. A waiting cell of unknown
    duration counts as the median of the running cells.
    """
    rest, durations = 0.0, []
    for entry in running:
        elapsed, ended = now - entry.started, len(entry.tests.outcomes)
        duration = seconds[entry.cell.id] or (elapsed * entry.tests.total / ended if ended else 0.0)
        durations += [duration] if duration else []
        # Once tests run, the remaining time follows from the number of missing tests; before that, from the clock.
        rest += duration * entry.tests.missing / entry.tests.total if ended else max(0.0, duration - elapsed)
    typical = median(durations) if durations else 0.0
    return (rest + sum(seconds[cell.id] or typical for cell in waiting)) / jobs


def _measured_seconds(cell: str, stored: dict[str, Any], results: Path) -> float:
    """Return the duration of the last run of a cell on this machine, else the stored duration, else 0.

    A record of a run that was broken or had no GPU does not count.
    """
    record = done.read(cell, results)
    if record is not None and record.status not in {BROKEN, NO_GPU}:
        return record.seconds
    try:
        content = json.loads((results / f"{cell}.json").read_text(encoding="utf-8"))
    except (OSError, ValueError):
        content = {}
    return float(content.get("seconds") or stored.get(cell, {}).get("seconds") or 0.0)
