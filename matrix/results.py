"""What the cells found, made small enough to be stored: matrix/results/<cell>.json, out of results/<cell>.json.

The counts are a ratchet: a cell of which fewer cases pass than are stored fails, also where gaps declare the rest. The
table of docs/support.md and the scoreboard are made from what is stored: of each cell the cases that did not pass, of
all cells together those that there are (matrix/scoreboard/cases.py), and one line for each run in history.jsonl.
"""

from __future__ import annotations

import json
import re
from datetime import datetime, timezone
from pathlib import Path
from typing import Any, Dict, Iterable, List, NamedTuple, Optional, Tuple

from matrix.data import ROOT, load
from matrix.scoreboard.cases import Known, Spans, known_cases, load_cases, prune_cases, write_cases

__all__ = [
    "FOUND",
    "HISTORY",
    "NO_GPU",
    "OUTCOMES",
    "PEER",
    "RAN",
    "STORED",
    "Kept",
    "fallen",
    "history_line",
    "outcomes",
    "read_results",
    "record",
    "stored",
    "summary",
]

STORED = ROOT / "matrix" / "results"
HISTORY = "history.jsonl"
#: From the best to the worst.
OUTCOMES = ("pass", "fallback", "gap", "fail")
#: What is counted of cases: a gap of one that was recorded wrong says nothing of who ran it.
FOUND = (*OUTCOMES, "void")
RAN = "ran"
NO_GPU = "no-gpu"
#: What the name of a peer's results starts with: another project that ours is measured against.
PEER = "peer-"
LONGEST = 200
#: What is stored as the run says it; some of it only peers say.
ABOUT = ("cell", "shim", "python", "peer", "versions", "sample", "seconds", "natives")


class Kept(Exception):
    """What a run found is not stored, and why."""


class Seen(NamedTuple):
    """A case with one operator says what that one does; in one with many, any of them may be to blame."""

    alone: List[str]
    among: List[str]


def record(path: Path, folder: Path = STORED) -> Path:
    """Store what a cell found, and give the file."""
    results = read_results(path)
    target = folder / ("%s.json" % results["cell"])
    folder.mkdir(parents=True, exist_ok=True)
    if results["state"] != RAN and target.exists() and _read(target).get("state", RAN) == RAN:
        raise Kept("%s: %s: what an earlier run found stays" % (results["cell"], results["state"]))
    matrix = load()
    cases = known_cases([*matrix.suites, *matrix.suites_generated])
    small = summary(results, write_cases(cases, folder), cases)
    target.write_text(_text(small), encoding="utf-8")
    _remember(small, folder / HISTORY)
    prune_cases({_read(other).get("cases") for other in folder.glob("*.json")}, folder)
    return target


def read_results(path: Path) -> Dict[str, Any]:
    """What a run wrote; what it did not write is told from the file."""
    results: Dict[str, Any] = {"cell": path.stem, "state": RAN, "counts": {}, **_read(path)}
    if results.get("peer") and not results["cell"].startswith(PEER):
        results["cell"] = PEER + results["cell"]
    if not results.get("date"):
        written = datetime.fromtimestamp(path.stat().st_mtime, timezone.utc)
        results["date"] = written.strftime("%Y-%m-%dT%H:%M:%SZ")
    return results


def stored(folder: Path = STORED) -> Dict[str, Any]:
    """What is stored of each cell, with the worst that happened to each version of each operator."""
    known = load_cases(folder)
    found = {path.stem: _read(path) for path in sorted(folder.glob("*.json"))}
    for small in found.values():
        if "cases" in small:
            cases = known[small["cases"]]
            small["operators"] = _operators((cases[id], outcome) for id, outcome in outcomes(small, cases).items())
    return found


def fallen(results: Dict[str, Any], before: Dict[str, Any]) -> List[str]:
    """Where the counts of a run are worse than those stored."""
    worse: List[str] = []
    if results.get("state", RAN) == NO_GPU:
        return worse
    for suite, old in before["counts"].items():
        new = results.get("counts", {}).get(suite)
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


def summary(results: Dict[str, Any], digest: str, cases: Dict[str, Known]) -> Dict[str, Any]:
    """The counts, by suite and by opset, and what did not pass; `cases` are those stored as `digest`."""
    about: Dict[str, Any] = {name: results[name] for name in ABOUT if name in results}
    told = {name: results.get(name, "") for name in ("state", "reason", "date", "revision")}
    if not told["reason"]:
        del told["reason"]
    small = {**about, **told, "counts": results["counts"]}
    spans = Spans(cases)
    said: Dict[str, Tuple[str, str]] = {}
    for one in results.get("results", ()):
        id, at, variant = one["id"].partition("@")
        known = spans.find(id)
        # The newest release speaks for the content of several.
        if known is not None and (known == id or known + at + variant not in said):
            said[known + at + variant] = (_outcome(one), _first_line(one.get("detail")))
    if not said:
        return small
    ran = spans.ran(_groups(small))
    absent, only = ([id for id in ran if (id in said) == there] for there in (False, True))
    if absent:
        small.update({"absent": _by_group(absent)} if len(absent) <= len(only) else {"only": _by_group(only)})
    small.update({"cases": digest, "opsets": {}, "missed": _missed(said)})
    opsets: Dict[int, List[int]] = {}
    for id, outcome in outcomes(small, cases).items():
        opsets.setdefault(cases[id].opset, [0] * len(FOUND))[FOUND.index(outcome)] += 1
    small["opsets"] = {str(opset): opsets[opset] for opset in sorted(opsets)}
    return small


def outcomes(small: Dict[str, Any], cases: Dict[str, Known]) -> Dict[str, str]:
    """What became of each case that a cell ran as it was recorded, by id."""
    missed = {id: row["outcome"] for row in small["missed"] for id in _ids(row["cases"])}
    if "only" in small:
        return {id: missed.get(id, "pass") for id in _ids(small["only"])}
    absent = set(_ids(small.get("absent", {})))
    return {id: missed.get(id, "pass") for id in Spans(cases).ran(_groups(small)) if id not in absent}


def _by_group(ids: Iterable[str]) -> Dict[str, List[str]]:
    """By suite and release, as they are stored."""
    found: Dict[str, List[str]] = {}
    for id in sorted(ids):
        group, _, name = id.rpartition("/")
        found.setdefault(group, []).append(name)
    return found


def _ids(groups: Dict[str, List[str]]) -> List[str]:
    return ["%s/%s" % (group, name) for group, names in groups.items() for name in names]


def _groups(small: Dict[str, Any]) -> List[str]:
    """The suites and releases that were run as they were recorded."""
    return [group for group in small["counts"] if "@" not in group]


def _outcome(result: Dict[str, Any]) -> str:
    senseless = result["outcome"] == "gap" and str(result.get("detail", "")).startswith("never:")
    return "void" if senseless else str(result["outcome"])


def _first_line(detail: Optional[str]) -> str:
    """What is the same on every machine of it, and not too long."""
    line = next(iter(str(detail or "").strip().splitlines()), "")
    line = re.sub(r"\S+/model\.onnx", "model.onnx", line)
    line = re.sub(r"0x[0-9a-fA-F]{6,}", "0x...", line)
    line = re.sub(r"(?<![\w/])(?:/[\w.+@-]+){2,}/([\w.+@-]+)", r"\1", line)
    return line if len(line) <= LONGEST else line[: LONGEST - 3] + "..."


def _missed(said: Dict[str, Tuple[str, str]]) -> List[Dict[str, Any]]:
    """The cases that did not pass, by what became of them; of a variant, where the case as recorded had another end."""
    rows: Dict[Tuple[str, str], Dict[str, List[str]]] = {}
    for id in sorted(said):
        name, at, variant = id.partition("@")
        if said[id] == (said.get(name) if at else None) or said[id][0] == "pass":
            continue
        group, _, case = name.rpartition("/")
        rows.setdefault(said[id], {}).setdefault(group + at + variant, []).append(case)
    worst = sorted(rows, key=lambda row: (row[0] == "void", -FOUND.index(row[0]), row[1]))
    return [{"outcome": outcome, "detail": detail, "cases": rows[outcome, detail]} for outcome, detail in worst]


def _operators(found: Iterable[Tuple[Known, str]]) -> Dict[str, str]:
    """By `domain::name-since`."""
    seen: Dict[str, Seen] = {}
    for case, outcome in found:
        for operator in case.operators:
            if outcome != "void" and re.search(r"-\d+$", operator):
                one = seen.setdefault(operator, Seen([], []))
                (one.alone if len(case.operators) == 1 else one.among).append(outcome)
    return {key: max(seen[key].alone or seen[key].among, key=OUTCOMES.index) for key in sorted(seen)}


def history_line(small: Dict[str, Any]) -> Dict[str, Any]:
    """What is remembered of a run when the next one is stored in its place."""
    found = [sum(column) for column in zip(*small.get("opsets", {}).values())]
    return {**{name: small.get(name, "") for name in ("date", "cell", "revision", "state")}, "found": found}


def _remember(small: Dict[str, Any], path: Path) -> None:
    lines = path.read_text(encoding="utf-8").splitlines() if path.exists() else []
    lines = sorted({*lines, json.dumps(history_line(small))})
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")


def _read(path: Path) -> Dict[str, Any]:
    content: Dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    return content


def _text(content: Dict[str, Any]) -> str:
    """A line for each thing in it, so that a change of one is a change of one line."""
    lines = []
    for key, value in content.items():
        if isinstance(value, dict) and value:
            inner = ",\n".join("  %s: %s" % (json.dumps(name), json.dumps(value[name])) for name in value)
            lines.append(" %s: {\n%s\n }" % (json.dumps(key), inner))
        elif key == "missed" and value:
            lines.append(" %s: [\n%s\n ]" % (json.dumps(key), ",\n".join("  " + json.dumps(one) for one in value)))
        else:
            lines.append(" %s: %s" % (json.dumps(key), json.dumps(value)))
    return "{\n%s\n}\n" % ",\n".join(lines)
