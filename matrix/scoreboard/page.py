"""The page of the scoreboard: an HTML file that contains its style, script and data, and loads no other file."""

from __future__ import annotations

import json
from datetime import datetime, timezone
from typing import Any

from matrix.data import Matrix
from matrix.revision import revision
from matrix.scoreboard.cases import groups
from matrix.scoreboard.fill import asset, fill
from matrix.scoreboard.gather import Board, Run

__all__ = ["render_page"]

SCRIPTS = ("core", "map", "detail", "compare", "history", "main")


def render_page(matrix: Matrix, board: Board) -> str:
    """Return the page as HTML."""
    filled = {
        "style": asset("style.css"),
        "script": "\n".join(asset(f"{name}.js") for name in SCRIPTS),
        # `</` would end the script element.
        "data": json.dumps(_data(matrix, board), separators=(",", ":")).replace("</", "<\\/"),
    }
    return fill(asset("page.html"), filled) + "\n"


def _data(matrix: Matrix, board: Board) -> dict[str, Any]:
    never = [Run({"cell": id_, "state": "none"}) for id_ in matrix.cells if id_ not in board.runs]
    newest = [*board.runs.values(), *never]
    runs = [*newest, *board.older]
    digests = {run.small["cases"]: run.cases for run in runs if run.cases and "cases" in run.small}
    opsets = list(matrix.releases.values())
    return {
        "made": datetime.now(timezone.utc).strftime("%Y-%m-%dT%H:%M:%SZ"),
        "revision": revision(),
        "opsets": [min(opsets), max(opsets)],
        "cells": {
            cell.id: {"shim": cell.shim, "runner": cell.runner, "tier": cell.tier, "pins": cell.pins}
            for cell in matrix.cells.values()
        },
        "cases": {digest: groups(cases) for digest, cases in digests.items()},
        "newest": len(newest),
        "runs": [{**run.small, "source": run.source} for run in runs],
        "history": board.history,
        "notes": board.notes,
    }
