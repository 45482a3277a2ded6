"""The page of the scoreboard: an HTML file that contains its style, script and data, and loads no other file.

Its first view needs only the summary. The results of all cases are parsed when another view needs them.
"""

from __future__ import annotations

import json
from datetime import datetime, timezone
from typing import Any

from matrix.data import Matrix
from matrix.revision import revision
from matrix.scoreboard.age import Moved, find_moved
from matrix.scoreboard.fill import asset, fill
from matrix.scoreboard.gather import Board, Run
from matrix.scoreboard.pack import Packer
from matrix.scoreboard.scale import render_scale
from matrix.scoreboard.summary import summarise

__all__ = ["render_page"]

SCRIPTS = ("core", "cases", "cards", "operators", "map", "detail", "compare", "history", "main")
ABOUT = ("cell", "state", "reason", "date", "revision", "sample", "python", "versions")


def render_page(matrix: Matrix, board: Board) -> str:
    """Return the page as HTML."""
    never = [Run({"cell": id_, "state": "none"}) for id_ in matrix.cells if id_ not in board.runs]
    newest = [*board.runs.values(), *never]
    runs = [*newest, *board.older]
    moved = find_moved(matrix, [run for run in runs if run.outcomes()])
    packer = Packer()
    packed = [packer.pack(run) for run in runs]
    summary = {
        "made": datetime.now(timezone.utc).strftime("%Y-%m-%dT%H:%M:%SZ"),
        "revision": revision(),
        "releases": matrix.releases,
        "cells": {
            cell.id: {"shim": cell.shim, "runner": cell.runner, "tier": cell.tier, "pins": cell.pins}
            for cell in matrix.cells.values()
        },
        "newest": len(newest),
        "runs": [_describe(run, moved.get(id(run))) for run in runs],
        **summarise(matrix, newest),
        "notes": board.notes,
    }
    styles = {scheme: render_scale(scheme) for scheme in ("light", "dark")}
    filled = {
        "style": fill(asset("style.css"), styles),
        "script": "\n".join(asset(f"{name}.js") for name in SCRIPTS),
        "summary": _format_json(summary),
        "results": _format_json({"cases": packer.cases, "runs": packed, "history": board.history}),
    }
    return fill(asset("page.html"), filled) + "\n"


def _describe(run: Run, moved: Moved | None) -> dict[str, Any]:
    """Return the properties of a run that the page shows, without its cases.

    `moved`: why its result is older than the code, or None.
    """
    about = {name: run.small[name] for name in ABOUT if run.small.get(name)}
    if run.source != "stored":
        about["source"] = run.source
    if moved:
        about["moved"] = [moved.reason, *moved.examples]
    return {**about, "shim": run.shim}


def _format_json(content: Any) -> str:
    """Return JSON that may stand in a script element of HTML."""
    return json.dumps(content, separators=(",", ":")).replace("</", "<\\/")  # `</` would end the script element
