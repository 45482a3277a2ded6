"""How long cells will take: as long as they took."""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path
from statistics import median
from typing import Any

from matrix.data import Cell
from matrix.run import done
from matrix.run.outcome import BROKEN, NO_GPU
from matrix.run.schedule import Running

__all__ = ["expected", "left"]


def expected(cells: Iterable[Cell], stored: dict[str, Any], results: Path = done.RESULTS) -> dict[str, float]:
    """By what was measured here, else by what is stored, else like the cells of the same shim, else like all."""
    cells = list(cells)
    known = {cell.id: seconds for cell in cells if (seconds := _known(cell.id, stored, results))}
    everywhere = median(known.values()) if known else 0.0
    alike: dict[str, list[float]] = {}
    for cell in cells:
        if cell.id in known:
            alike.setdefault(cell.shim, []).append(known[cell.id])
    return {cell.id: known.get(cell.id, median(alike.get(cell.shim, [everywhere]))) for cell in cells}


def left(
    running: Iterable[Running], waiting: Iterable[Cell], seconds: dict[str, float], jobs: int, now: float
) -> float:
    """Seconds until all ended; 0 where nothing is known. What was never measured takes as long as what runs now will."""
    rest, wholes = 0.0, []
    for each in running:
        elapsed, ended = now - each.started, len(each.tests.outcomes)
        whole = seconds[each.cell.id] or (elapsed * each.tests.total / ended if ended else 0.0)
        wholes += [whole] if whole else []
        # By the tests that are left, once they run; before that, by the clock.
        rest += whole * each.tests.missing / each.tests.total if ended else max(0.0, whole - elapsed)
    typical = median(wholes) if wholes else 0.0
    return (rest + sum(seconds[cell.id] or typical for cell in waiting)) / jobs


def _known(cell: str, stored: dict[str, Any], results: Path) -> float:
    record = done.read(cell, results)
    if record is not None and record.status not in {BROKEN, NO_GPU}:
        return record.seconds
    try:
        found = json.loads((results / f"{cell}.json").read_text(encoding="utf-8"))
    except (OSError, ValueError):
        found = {}
    return float(found.get("seconds") or stored.get(cell, {}).get("seconds") or 0.0)
