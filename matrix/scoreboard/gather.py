"""All runs that are known: what is stored of each cell, and full results of runs beside it."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from matrix.data import MatrixError
from matrix.results import HISTORY, PEER, RAN, STORED, history_line, outcomes, read_results, summary
from matrix.scoreboard.cases import Known, Spans, load_cases

__all__ = ["Board", "Run", "gather"]


#: A run of less than this share of what another run of the cell is of was given tests to choose from.
PART = 0.9


@dataclass
class Run:
    """One run of one cell: its summary, and the cases that it is of."""

    small: dict[str, Any]
    cases: dict[str, Known] = field(default_factory=dict)
    source: str = "stored"

    @property
    def cell(self) -> str:
        return str(self.small["cell"])

    @property
    def date(self) -> str:
        return str(self.small.get("date", ""))

    @property
    def shim(self) -> str:
        return "peer" if self.cell.startswith(PEER) else str(self.small.get("shim", ""))

    def found(self) -> dict[str, str]:
        """What became of each of its cases, by id."""
        return outcomes(self.small, self.cases) if "missed" in self.small else {}


@dataclass
class Board:
    runs: dict[str, Run]
    """The newest of each cell."""
    older: list[Run]
    """The others, the newest first."""
    history: list[dict[str, Any]]
    notes: list[str]
    """What a reader of the page should know of how it came together."""


def gather(paths: list[Path], folder: Path = STORED) -> Board:
    """What is stored, and what the named files hold; of a folder, every file of results in it."""
    board = Board({}, [], _history(folder / HISTORY), [])
    known = load_cases(folder)
    runs = [_stored(path, known) for path in sorted(folder.glob("*.json"))]
    for named in paths:
        if named.is_dir():
            known.update(load_cases(named))
            runs += filter(None, (_given(path, known, board.notes) for path in sorted(named.rglob("*.json"))))
        elif run := _given(named, known, board.notes):
            runs.append(run)
        else:
            raise MatrixError(f"{named}: no results of a cell")
    whole: dict[str, int] = {}
    for run in runs:
        whole[run.cell] = max(whole.get(run.cell, 0), len(run.found()))
    for run in sorted(runs, key=lambda run: run.date, reverse=True):  # of the same run, the stored one stays
        if run.small["state"] == RAN and len(run.found()) < PART * whole[run.cell]:
            board.notes.append(f"{run.cell}: not the run of {run.date} ({run.source}), which is of a part of the cases")
            continue
        newest = board.runs.setdefault(run.cell, run)
        if newest.date != run.date:
            board.older.append(run)
            board.notes.append(f"{run.cell}: the run of {newest.date} ({newest.source}), not that of {run.date}")
        elif newest.small != run.small:
            board.notes.append(f"{run.cell}: two runs of {run.date}: {newest.source}, not {run.source}")
    board.runs = {cell: board.runs[cell] for cell in sorted(board.runs)}
    _complete(board)
    return board


def _stored(path: Path, known: dict[str, dict[str, Known]]) -> Run:
    small = {"state": RAN, **json.loads(path.read_text(encoding="utf-8"))}
    return Run(small, known.get(small.get("cases", ""), {}))


def _given(path: Path, known: dict[str, dict[str, Known]], notes: list[str]) -> Run | None:
    """Results or a summary of them; None for what is neither. Without the cache, what is known of a case is what is stored."""
    try:
        results = read_results(path)
    except (OSError, ValueError, TypeError) as error:
        raise MatrixError(f"{path}: {error}") from error
    if "shim" not in results:
        return None
    if "results" not in results:
        return Run(results, known.get(results.get("cases", ""), {}), path.name)
    ids = {result["id"].partition("@")[0] for result in results["results"]}
    digest = max(known, key=lambda digest: len(ids & known[digest].keys()), default="")
    run = Run(summary(results, digest, known.get(digest, {})), known.get(digest, {}), path.name)
    spans = Spans(run.cases)
    found = {id.rpartition("/")[0] for id in ids if spans.find(id)}
    if unknown := sorted({id.rpartition("/")[0] for id in ids} - found):
        notes.append(f"{run.cell}: not shown, because nothing is stored of their cases: {', '.join(unknown)}")
    return run


def _history(path: Path) -> list[dict[str, Any]]:
    lines = path.read_text(encoding="utf-8").splitlines() if path.exists() else []
    return [json.loads(line) for line in lines]


def _complete(board: Board) -> None:
    """Runs that were given, and not recorded, are part of the history that the page shows."""
    there = {(line["cell"], line["date"]) for line in board.history}
    for run in [*board.runs.values(), *board.older]:
        if run.date and (run.cell, run.date) not in there:
            board.history.append(history_line(run.small))
    board.history.sort(key=lambda line: (line["date"], line["cell"]))
