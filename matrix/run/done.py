"""Records of finished cells, in results/done/<cell>.json: a cell whose inputs have not changed since is skipped."""

from __future__ import annotations

import hashlib
import json
import os
from dataclasses import dataclass
from pathlib import Path

from matrix.data import ROOT

__all__ = ["RESULTS", "Record", "forget", "is_current", "read", "write"]

RESULTS = ROOT / "results"


@dataclass(frozen=True)
class Record:
    """A finished run of a cell: the digest of its inputs, its status, its duration and the digest of its results file."""

    inputs: str
    """The digest of the inputs of the cell (matrix/run/inputs.py)."""
    status: str
    seconds: float
    results_digest: str = ""
    """The digest of the results file after the run. A later run may replace that file."""


def read(cell: str, results: Path = RESULTS) -> Record | None:
    """Return the record of a cell. None: it has no record, or another version of this code wrote the record."""
    try:
        content = json.loads(_path(cell, results).read_text(encoding="utf-8"))
        return Record(results_digest=content.pop("found", ""), **content)
    except (OSError, ValueError, TypeError, AttributeError):
        return None


def write(cell: str, inputs: str, status: str, seconds: float, results: Path = RESULTS) -> None:
    """Write the record of a cell to `done/<cell>.json` in the folder `results`, by atomic rename.

    The record has the digest of the results file `<cell>.json`, or "" without that file.
    """
    path = _path(cell, results)
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = path.with_suffix(f".{os.getpid()}")
    record = {"inputs": inputs, "status": status, "seconds": round(seconds, 1), "found": _digest_results(cell, results)}
    temporary.write_text(json.dumps(record, indent=1) + "\n", encoding="utf-8")
    temporary.replace(path)


def is_current(cell: str, inputs: str, good: str, results: Path = RESULTS) -> bool:
    """Whether a cell is done: its last run had these inputs and the status `good`, and its results file has not changed
    since.
    """
    record = read(cell, results)
    if record is None or record.status != good or record.inputs != inputs:
        return False
    return record.results_digest == _digest_results(cell, results)


def forget(cell: str, results: Path = RESULTS) -> None:
    """Delete the record of a cell, if there is one, so that the cell runs again."""
    _path(cell, results).unlink(missing_ok=True)


def _path(cell: str, results: Path) -> Path:
    return results / "done" / f"{cell}.json"


def _digest_results(cell: str, results: Path) -> str:
    """Return the SHA-256 of the results file of a cell; "" without that file."""
    path = results / f"{cell}.json"
    return hashlib.sha256(path.read_bytes()).hexdigest() if path.exists() else ""
