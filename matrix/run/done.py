"""Records of finished cells, results/done/<cell>.json: the inputs and the outcome of each, to skip cells that are done."""

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
    """The inputs and the outcome of a run of a cell."""

    inputs: str
    """The digest of its inputs (matrix/run/inputs.py)."""
    status: str
    seconds: float
    results_digest: str = ""
    """The digest of its results, which a later run may replace."""


def read(cell: str, results: Path = RESULTS) -> Record | None:
    """Return the record of a cell; None without one, or if another version of this code wrote it."""
    try:
        content = json.loads(_path(cell, results).read_text(encoding="utf-8"))
        return Record(results_digest=content.pop("found", ""), **content)
    except (OSError, ValueError, TypeError, AttributeError):
        return None


def write(cell: str, inputs: str, status: str, seconds: float, results: Path = RESULTS) -> None:
    """Write the record of a cell, atomically."""
    path = _path(cell, results)
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = path.with_suffix(f".{os.getpid()}")
    record = {"inputs": inputs, "status": status, "seconds": round(seconds, 1), "found": _digest_results(cell, results)}
    temporary.write_text(json.dumps(record, indent=1) + "\n", encoding="utf-8")
    temporary.replace(path)


def is_current(cell: str, inputs: str, good: str, results: Path = RESULTS) -> bool:
    """Whether a cell ran with the outcome `good` and these inputs, and its results are still those of that run."""
    record = read(cell, results)
    if record is None or record.status != good or record.inputs != inputs:
        return False
    return record.results_digest == _digest_results(cell, results)


def forget(cell: str, results: Path = RESULTS) -> None:
    """Delete the record of a cell."""
    _path(cell, results).unlink(missing_ok=True)


def _path(cell: str, results: Path) -> Path:
    return results / "done" / f"{cell}.json"


def _digest_results(cell: str, results: Path) -> str:
    path = results / f"{cell}.json"
    return hashlib.sha256(path.read_bytes()).hexdigest() if path.exists() else ""
