"""The page: its style, script and data in one file, which asks for nothing else wherever it is opened from."""

from __future__ import annotations

import json
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

from matrix.data import Matrix
from matrix.revision import revision
from matrix.scoreboard.cases import groups
from matrix.scoreboard.gather import Board, Run

__all__ = ["page"]

ASSETS = Path(__file__).parent / "assets"
SCRIPTS = ("core", "map", "detail", "compare", "history", "main")


def page(matrix: Matrix, board: Board) -> str:
    filled = {
        "style": _asset("style.css"),
        "script": "\n".join(_asset(f"{name}.js") for name in SCRIPTS),
        # In a script element only this ends it.
        "data": json.dumps(_data(matrix, board), separators=(",", ":")).replace("</", "<\\/"),
    }
    text = _asset("page.html")
    for name, content in filled.items():
        before, mark, after = text.partition("{{%s}}" % name)
        assert mark, name
        text = before + content + after
    return text


def _data(matrix: Matrix, board: Board) -> dict[str, Any]:
    never = [Run({"cell": id_, "state": "none"}) for id_ in matrix.cells if id_ not in board.runs]
    newest = [*board.runs.values(), *never]
    runs = [*newest, *board.older]
    digests = {run.small["cases"]: run.cases for run in runs if run.cases}
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


def _asset(name: str) -> str:
    return (ASSETS / name).read_text(encoding="utf-8").rstrip("\n")
