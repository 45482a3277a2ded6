"""Results of a run of cases: count them by suite, print them as a table, write them as JSON."""

from __future__ import annotations

import json
import os
from datetime import datetime, timezone
from pathlib import Path
from typing import Any, Dict, Iterable, List, NamedTuple

from .run import FAIL, OUTCOMES

__all__ = ["Result", "counts", "make_crash_results", "table", "write"]


class Result(NamedTuple):
    """The outcome of a case under one of its ids."""

    id: str
    outcome: str
    detail: str
    seconds: float


def make_crash_results(names: Dict[str, str], chosen: Iterable[Any]) -> List[Result]:
    """Return a failed result under every name of each case whose test ended the process of its pytest-xdist worker.

    `names`: first name of such a case -> the last message of the worker. `chosen`: the cases of the run (`Chosen`).
    """
    return [
        Result(name, FAIL, names[case.names[0]], 0.0)
        for case in chosen
        if case.names[0] in names
        for name in case.names
    ]


def counts(results: List[Result]) -> Dict[str, Dict[str, int]]:
    """Return `suite/release@variant` -> outcome -> number of results. The variant `recorded` has no `@`.

    Each of the four outcomes is present, also with 0.
    """
    by_suite: Dict[str, Dict[str, int]] = {}
    for result in results:
        id, at, variant = result.id.partition("@")
        row = by_suite.setdefault(id.rpartition("/")[0] + at + variant, dict.fromkeys(OUTCOMES, 0))
        row[result.outcome] += 1
    return {suite: by_suite[suite] for suite in sorted(by_suite)}


def table(results: List[Result]) -> List[str]:
    """Return the lines of a text table of `counts`, with a last row for all suites together."""
    rows = counts(results)
    rows["all"] = {outcome: sum(row[outcome] for row in rows.values()) for outcome in OUTCOMES}
    width = max(map(len, rows))
    lines = ["%-*s  %s" % (width, "", "  ".join("%8s" % outcome for outcome in OUTCOMES))]
    for suite, row in rows.items():
        lines.append("%-*s  %s" % (width, suite, "  ".join("%8d" % row[outcome] for outcome in OUTCOMES)))
    return lines


def write(path: Path, results: List[Result], about: Dict[str, Any]) -> None:
    """Write the results file of a run as JSON, by atomic rename.

    `about`: the keys that describe the run: shim, cell, Python.
    """
    date = {"date": datetime.now(timezone.utc).strftime("%Y-%m-%dT%H:%M:%SZ")}
    content = {**about, **date, "counts": counts(results), "results": [result._asdict() for result in sorted(results)]}
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = path.with_name("%s.%d" % (path.name, os.getpid()))
    temporary.write_text(json.dumps(content, indent=1) + "\n", encoding="utf-8")
    os.replace(str(temporary), str(path))
