"""Record of a cell's campaigns: matrix/results/fuzz/<cell>.json."""

from __future__ import annotations

import json
from datetime import datetime, timezone
from pathlib import Path
from typing import Any, Dict

from matrix.data import ROOT
from matrix.fuzz.campaign import Counts, Target
from matrix.revision import revision

__all__ = ["RECORDS", "write_record"]

RECORDS = ROOT / "matrix" / "results" / "fuzz"
_MOST_REASONS = 20


def write_record(target: Target, first: int, seeds: int, counts: Counts, folder: Path = RECORDS) -> Path:
    """Write the counts of a campaign to the file of its cell, and return the file.

    A file has an entry for each format; the entry of this format is replaced.
    """
    path = folder / ("%s.json" % target.cell)
    document: Dict[str, Any] = json.loads(path.read_text(encoding="utf-8")) if path.exists() else {}
    document[target.form or "prepared"] = {
        "date": datetime.now(timezone.utc).strftime("%Y-%m-%d"),
        "revision": revision(),
        "seeds": [first, first + seeds - 1],
        "graphs": sum(counts.outcomes.values()),
        "outcomes": dict(sorted(counts.outcomes.items())),
        "unused": dict(sorted(counts.unused.items())),
        "refused": dict(counts.refused.most_common(_MOST_REASONS)),
        "fallbacks": dict(counts.fallbacks.most_common(_MOST_REASONS)),
        "failures": [{"seed": seed, "kind": outcome.kind} for seed, outcome in counts.failures],
    }
    folder.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(document, indent=1, sort_keys=True) + "\n", encoding="utf-8")
    return path
