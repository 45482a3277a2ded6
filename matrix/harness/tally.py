"""The results of a run: counted by suite, printed as a table, written as JSON."""

from __future__ import annotations

import json
import os
from datetime import datetime, timezone
from pathlib import Path
from typing import Any, Dict, Iterable, List, NamedTuple

from .run import FAIL, OUTCOMES

__all__ = ["Result", "counts", "died", "table", "write"]


class Result(NamedTuple):
    """What became of a case under one of its ids."""

    id: str
    outcome: str
    detail: str
    seconds: float


def died(names: Dict[str, str], chosen: Iterable[Any]) -> List[Result]:
    """The results of the cases that ended their worker, by the name of their test with what is known of it."""
    return [
        Result(name, FAIL, names[each.names[0]], 0.0)
        for each in chosen
        if each.names[0] in names
        for name in each.names
    ]


def counts(results: List[Result]) -> Dict[str, Dict[str, int]]:
    """By suite, release and variant, then by outcome; every outcome is there, also the one that never occurred."""
    found: Dict[str, Dict[str, int]] = {}
    for result in results:
        id, at, variant = result.id.partition("@")
        row = found.setdefault(id.rpartition("/")[0] + at + variant, dict.fromkeys(OUTCOMES, 0))
        row[result.outcome] += 1
    return {suite: found[suite] for suite in sorted(found)}


def table(results: List[Result]) -> List[str]:
    rows = counts(results)
    rows["all"] = {outcome: sum(row[outcome] for row in rows.values()) for outcome in OUTCOMES}
    width = max(map(len, rows))
    lines = ["%-*s  %s" % (width, "", "  ".join("%8s" % outcome for outcome in OUTCOMES))]
    for suite, row in rows.items():
        lines.append("%-*s  %s" % (width, suite, "  ".join("%8d" % row[outcome] for outcome in OUTCOMES)))
    return lines


def write(path: Path, results: List[Result], about: Dict[str, Any]) -> None:
    """`about` says which shim and cell; the file appears whole or not at all."""
    when = {"date": datetime.now(timezone.utc).strftime("%Y-%m-%dT%H:%M:%SZ")}
    content = {**about, **when, "counts": counts(results), "results": [result._asdict() for result in sorted(results)]}
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = path.with_name("%s.%d" % (path.name, os.getpid()))
    temporary.write_text(json.dumps(content, indent=1) + "\n", encoding="utf-8")
    os.replace(str(temporary), str(path))
