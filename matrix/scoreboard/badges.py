"""Badges: an SVG for each shim, with the share of the cases of all its cells that pass without the fallback."""

from __future__ import annotations

from xml.sax.saxutils import escape

from matrix.results import OUTCOMES, RAN
from matrix.scoreboard.fill import asset, fill
from matrix.scoreboard.gather import Board, Run
from matrix.scoreboard.scale import MARKS, find_worst

__all__ = ["draw_badges"]

CHARACTER, MARGIN = 6.6, 7


def draw_badges(board: Board) -> dict[str, str]:
    """Return shim -> SVG, for each shim with a cell that ran. Peers get no badge."""
    shims: dict[str, list[Run]] = {}
    for run in board.runs.values():
        if run.small["state"] == RAN and run.small.get("opsets") and run.shim != "peer":
            shims.setdefault(run.shim, []).append(run)
    return {shim: _draw_badge(shim, runs) for shim, runs in shims.items()}


def _draw_badge(shim: str, runs: list[Run]) -> str:
    """Return the badge of a shim as SVG: the share of the cases of all `runs` that pass. Its title has all counts."""
    rows = [row for run in runs for row in run.small["opsets"].values()]
    counts = [sum(column) for column in zip(*rows, strict=True)][: len(OUTCOMES)]
    total, passed = sum(counts), counts[0]
    tenths = 1000 * passed // total  # rounded down: 100 means all cases
    value = f"{tenths // 10}.{tenths % 10} % of {total:,}" if passed < total else f"100 % of {total:,}"
    summary = ", ".join(f"{count:,} {name}" for count, name in zip(counts, OUTCOMES, strict=True) if count)
    title = f"{shim}: {summary}, in {len(runs)} {'cell' if len(runs) == 1 else 'cells'}"
    left, right = (round(len(text) * CHARACTER) for text in (shim, value))
    marks = {
        "label": shim,
        "value": value,
        "title": title,
        "colour": MARKS["light"][find_worst(counts)],
        "width": left + right + 4 * MARGIN,
        "left": left + 2 * MARGIN,
        "right": right + 2 * MARGIN,
        "text_left": left,
        "text_right": right,
        "middle_left": left / 2 + MARGIN,
        "middle_right": left + 3 * MARGIN + right / 2,
    }
    return fill(asset("badge.svg"), {name: escape(str(text), {'"': "&quot;"}) for name, text in marks.items()}) + "\n"
