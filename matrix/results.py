"""What the cells found, made small enough to be stored: matrix/results/<cell>.json, out of results/<cell>.json.

The counts are a ratchet: a cell of which fewer cases pass than are stored fails, also where gaps declare the rest. The
table of docs/support.md is rendered from what is stored of each operator.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any, Dict, Iterable, List, NamedTuple, Tuple

from matrix.data import ROOT

if TYPE_CHECKING:
    from matrix.suites.cache import Case

__all__ = ["OUTCOMES", "STORED", "fallen", "record", "stored", "summary"]

STORED = ROOT / "matrix" / "results"
#: From the best to the worst.
OUTCOMES = ("pass", "fallback", "gap", "fail")


class Seen(NamedTuple):
    """A case with one operator says what that one does; in one with many, any of them may be to blame."""

    alone: List[str]
    among: List[str]


def record(path: Path, folder: Path = STORED) -> Path:
    """Store what a cell found, and give the file."""
    results = json.loads(path.read_text(encoding="utf-8"))
    target = folder / ("%s.json" % results["cell"])
    target.parent.mkdir(exist_ok=True)
    target.write_text(_text(summary(results)), encoding="utf-8")
    return target


def stored(folder: Path = STORED) -> Dict[str, Any]:
    """What is stored of each cell."""
    return {path.stem: json.loads(path.read_text(encoding="utf-8")) for path in sorted(folder.glob("*.json"))}


def fallen(results: Dict[str, Any], before: Dict[str, Any]) -> List[str]:
    """Where the counts of a run are worse than those stored."""
    worse = []
    for suite, old in before["counts"].items():
        new = results["counts"].get(suite)
        if new is None:
            worse.append("%s: was run before, is not any more" % suite)
            continue
        for names, text in (
            (("pass",), "%d cases pass in the framework alone, %d did"),
            (("pass", "fallback"), "%d give the right answer, %d did"),
        ):
            now, then = (sum(counts[name] for name in names) for counts in (new, old))
            if now < then:
                worse.append("%s: %s" % (suite, text % (now, then)))
    return worse


def summary(results: Dict[str, Any]) -> Dict[str, Any]:
    """The counts, the worst that happened to each version of each operator, and what did not pass."""
    from matrix.suites.cache import read_index  # with numpy and onnx, which nox has not

    suites = {result["id"].partition("/")[0] for result in results["results"]}
    rows = {row.id: row for suite in suites for row in read_index(suite)}
    said = [one for one in results["results"] if "@" not in one["id"] and not _senseless(one)]
    outcomes = {one["id"]: one["outcome"] for one in said}
    known = [(rows[id], outcome) for id, outcome in outcomes.items() if id in rows]
    return {
        **{name: results[name] for name in ("cell", "shim", "python", "natives", "counts")},
        "operators": _operators(known),
        "gap": sorted({row.name for row, outcome in known if outcome == "gap"}),
        "fail": sorted({row.name for row, outcome in known if outcome == "fail"}),
    }


def _senseless(result: Dict[str, Any]) -> bool:
    """A case that was recorded wrong says nothing of its operator."""
    return result["outcome"] == "gap" and str(result.get("detail", "")).startswith("never:")


def _operators(known: Iterable[Tuple[Case, str]]) -> Dict[str, str]:
    """By `domain::name-since`."""
    from onnx_compat.errors import UnsupportedError
    from onnx_compat.ops.registry import lookup

    seen: Dict[str, Seen] = {}
    for row, outcome in known:
        for operator in row.operators:
            domain, _, name = operator.rpartition("::")
            try:
                since = lookup(domain, name, row.opset.get(domain, 1)).since
            except UnsupportedError:
                continue  # a function of the model's own, or one that is nowhere registered
            found = seen.setdefault("%s-%d" % (operator, since), Seen([], []))
            (found.alone if len(row.operators) == 1 else found.among).append(outcome)
    return {key: max(seen[key].alone or seen[key].among, key=OUTCOMES.index) for key in sorted(seen)}


def _text(content: Dict[str, Any]) -> str:
    """A line for each thing in it, so that a change of one is a change of one line."""
    lines = []
    for key, value in content.items():
        if isinstance(value, dict):
            inner = ",\n".join("  %s: %s" % (json.dumps(name), json.dumps(value[name])) for name in value)
            lines.append(" %s: {\n%s\n }" % (json.dumps(key), inner))
        elif key in ("gap", "fail") and value:
            lines.append(" %s: [\n%s\n ]" % (json.dumps(key), ",\n".join("  " + json.dumps(one) for one in value)))
        else:
            lines.append(" %s: %s" % (json.dumps(key), json.dumps(value)))
    return "{\n%s\n}\n" % ",\n".join(lines)
