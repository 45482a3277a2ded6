"""Gather the runs that the scoreboard shows: the stored results of each cell, and results files of other runs."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from matrix.data import MatrixError
from matrix.results import HISTORY, PEER, RAN, STORED, history_line, outcomes, read_results, summary
from matrix.scoreboard.cases import Known, Spans, load_cases
from matrix.scoreboard.check import find_contradictions

__all__ = ["Board", "Run", "gather"]


#: A run is partial if it has less than this share of the cases of the largest run of its cell: its tests were selected.
PART = 0.9


@dataclass
class Run:
    """A run of a cell. `small`: its results in stored form. `cases`: id -> properties of all cases.

    `source`: the name of its results file, or "stored".
    """

    small: dict[str, Any]
    cases: dict[str, Known] = field(default_factory=dict)
    source: str = "stored"
    _outcomes: dict[str, str] | None = field(default=None, init=False, repr=False)

    @property
    def cell(self) -> str:
        """Return the cell of the run."""
        return str(self.small["cell"])

    @property
    def date(self) -> str:
        """Return the date of the run; "" if it is unknown."""
        return str(self.small.get("date", ""))

    @property
    def shim(self) -> str:
        """Return the shim of the run, or `peer` for a run of a peer."""
        return "peer" if self.cell.startswith(PEER) else str(self.small.get("shim", ""))

    def outcomes(self) -> dict[str, str]:
        """Return id -> outcome of each case that the run ran. Empty: the run has no cases."""
        if self._outcomes is None:
            self._outcomes = outcomes(self.small, self.cases) if "missed" in self.small else {}
        return self._outcomes


@dataclass
class Board:
    """The runs that the page shows, and the history of all cells."""

    runs: dict[str, Run]
    """Cell -> the newest run of the cell, sorted by cell."""
    older: list[Run]
    """The older runs, the newest first."""
    history: list[dict[str, Any]]
    notes: list[str]
    """A text for each run that is left out or older, with the reason."""


def gather(paths: list[Path], folder: Path = STORED) -> Board:
    """Return the board of the stored results, and of the results in the files and folders `paths`.

    `folder`: the folder of the stored results. Runs that are older, partial or contradictory have a note. Raise a
    MatrixError if a file in `paths` holds no results of a cell.
    """
    board = Board({}, [], _read_history(folder / HISTORY), [])
    known = load_cases(folder)
    runs = [_load_run(path, known) for path in sorted(folder.glob("*.json"))]
    for path_given in paths:
        if path_given.is_dir():
            known.update(load_cases(path_given))
            runs += filter(None, (_read_run(path, known, board.notes) for path in sorted(path_given.rglob("*.json"))))
        elif run := _read_run(path_given, known, board.notes):
            runs.append(run)
        else:
            raise MatrixError(f"{path_given} holds no results of a cell.")
    whole: dict[str, int] = {}
    for run in runs:
        whole[run.cell] = max(whole.get(run.cell, 0), len(run.outcomes()))
    for run in sorted(runs, key=lambda run: run.date, reverse=True):  # of equal dates, the stored run stays first
        if run.small["state"] == RAN and len(run.outcomes()) < PART * whole[run.cell]:
            board.notes.append(f"{run.cell}: not the run of {run.date} ({run.source}), which is partial")
            continue
        newest = board.runs.setdefault(run.cell, run)
        if newest.date != run.date:
            board.older.append(run)
            board.notes.append(f"{run.cell}: the run of {newest.date} ({newest.source}), not that of {run.date}")
        elif newest.small != run.small:
            board.notes.append(f"{run.cell}: two runs of {run.date}: {newest.source}, not {run.source}")
    board.runs = {cell: board.runs[cell] for cell in sorted(board.runs)}
    for run in [*board.runs.values(), *board.older]:
        problems = find_contradictions(run.small, run.cases, run.outcomes())
        board.notes += [
            f"{run.cell}: the run of {run.date} ({run.source}) contradicts itself: {text}" for text in problems
        ]
    _complete_history(board)
    return board


def _load_run(path: Path, known: dict[str, dict[str, Known]]) -> Run:
    """Load stored results. `known`: digest -> (id -> properties) of the stored cases."""
    small = {"state": RAN, **json.loads(path.read_text(encoding="utf-8"))}
    return Run(small, known.get(small.get("cases", ""), {}))


def _read_run(path: Path, known: dict[str, dict[str, Known]], notes: list[str]) -> Run | None:
    """Return the run in a results file, full or in stored form. None: the file holds something else.

    The file of a full run names cases; the stored cases with the most of these names are used for it. A note on cases
    that are not stored is appended to `notes`. Raises MatrixError if the file cannot be read.
    """
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
    known_groups = {id.rpartition("/")[0] for id in ids if spans.find(id)}
    if unknown := sorted({id.rpartition("/")[0] for id in ids} - known_groups):
        notes.append(f"{run.cell}: not shown, because their cases are not stored: {', '.join(unknown)}")
    return run


def _read_history(path: Path) -> list[dict[str, Any]]:
    """Return the lines of history.jsonl as dicts; [] if the file is missing."""
    lines = path.read_text(encoding="utf-8").splitlines() if path.exists() else []
    return [json.loads(line) for line in lines]


def _complete_history(board: Board) -> None:
    """Add to the history of the board each run with a date that history.jsonl does not record, and sort it by date."""
    recorded = {(line["cell"], line["date"]) for line in board.history}
    for run in [*board.runs.values(), *board.older]:
        if run.date and (run.cell, run.date) not in recorded:
            board.history.append(history_line(run.small))
    board.history.sort(key=lambda line: (line["date"], line["cell"]))
