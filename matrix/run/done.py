"""Which cells need not run again: results/done/<cell>.json says of each what it was run with and what became of it."""

from __future__ import annotations

import hashlib
import json
import os
from dataclasses import asdict, dataclass
from pathlib import Path

from matrix.data import ROOT

__all__ = ["RESULTS", "Record", "forget", "read", "stands", "write"]

RESULTS = ROOT / "results"


@dataclass(frozen=True)
class Record:
    inputs: str
    """The digest of what the cell was run with (matrix/run/inputs.py)."""
    status: str
    seconds: float
    found: str = ""
    """The digest of its results: others may have been written since."""


def read(cell: str, results: Path = RESULTS) -> Record | None:
    try:
        return Record(**json.loads(_path(cell, results).read_text(encoding="utf-8")))
    except (OSError, ValueError, TypeError):  # never written, or by another version of this code
        return None


def write(cell: str, inputs: str, status: str, seconds: float, results: Path = RESULTS) -> None:
    path = _path(cell, results)
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = path.with_suffix(f".{os.getpid()}")
    record = Record(inputs, status, round(seconds, 1), _found(cell, results))
    temporary.write_text(json.dumps(asdict(record), indent=1) + "\n", encoding="utf-8")
    temporary.replace(path)


def stands(cell: str, inputs: str, good: str, results: Path = RESULTS) -> bool:
    """Whether a cell was run to a good end with just these inputs, and its results are still those."""
    record = read(cell, results)
    if record is None or record.status != good or record.inputs != inputs:
        return False
    return record.found == _found(cell, results)


def forget(cell: str, results: Path = RESULTS) -> None:
    _path(cell, results).unlink(missing_ok=True)


def _path(cell: str, results: Path) -> Path:
    return results / "done" / f"{cell}.json"


def _found(cell: str, results: Path) -> str:
    path = results / f"{cell}.json"
    return hashlib.sha256(path.read_bytes()).hexdigest() if path.exists() else ""
