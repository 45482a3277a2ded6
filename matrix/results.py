"""Results of the cells, reduced for storage: results/<cell>.json of a run becomes matrix/results/<cell>.json.

docs/support.md and the scoreboard are made from these files. The counts are a ratchet: a cell fails if fewer cases pass
than are stored, even if gaps declare the difference.

For each cell, the cases that did not pass are stored; for all cells together, their cases (matrix/scoreboard/cases.py);
for each run, a line in history.jsonl.
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
    "NotStored",
    "find_regressions",
    "find_worse_cases",
    "history_line",
    "load_results",
    "outcomes",
    "read_results",
    "record",
    "summary",
]

STORED = ROOT / "matrix" / "results"
HISTORY = "history.jsonl"
#: The outcomes, from the best to the worst.
OUTCOMES = ("pass", "fallback", "gap", "fail")
#: The outcomes that are counted per opset. "void" is a gap of the kind `never`: the recorded result of the case is wrong.
FOUND = (*OUTCOMES, "void")
RAN = "ran"
NO_GPU = "no-gpu"
#: The prefix of the results files of peers: matrix/results/peer-onnx2tf.json.
PEER = "peer-"
LONGEST = 200
#: The keys that are copied from the results of a run. The results of cells lack some of them, which only peers have.
ABOUT = ("cell", "shim", "python", "peer", "versions", "sample", "seconds", "natives")


class NotStored(Exception):
    """The results of a run are not stored; the text says why."""


class Seen(NamedTuple):
    """The outcomes of the cases that contain an operator.

    `alone`: of cases without another operator. `among`: of cases with other operators, which may be the cause of a
    failure.
    """

    alone: List[str]
    among: List[str]


def record(path: Path, folder: Path = STORED) -> Path:
    """Reduce the results file of a cell and store it in `folder`. Return the path of the stored file.

    The run gets a line in the history, and files of cases that no stored results name are deleted. Raise NotStored if
    the run has no GPU or is broken, and the stored results of its cell are from a complete run.
    """
    results = read_results(path)
    target = folder / ("%s.json" % results["cell"])
    folder.mkdir(parents=True, exist_ok=True)
    if results["state"] != RAN and target.exists() and _read(target).get("state", RAN) == RAN:
        raise NotStored("%s: %s: the results of an earlier run stay" % (results["cell"], results["state"]))
    matrix = load()
    cases = known_cases([*matrix.suites, *matrix.suites_generated])
    small = summary(results, write_cases(cases, folder), cases)
    target.write_text(_format_json(small), encoding="utf-8")
    _append_history(small, folder / HISTORY)
    prune_cases({_read(stored_path).get("cases") for stored_path in folder.glob("*.json")}, folder)
    return target


def read_results(path: Path) -> Dict[str, Any]:
    """Return the results file of a run, with defaults for missing keys.

    A missing date is that of the file's last change.
    """
    results: Dict[str, Any] = {"cell": path.stem, "state": RAN, "counts": {}, **_read(path)}
    if results.get("peer") and not results["cell"].startswith(PEER):
        results["cell"] = PEER + results["cell"]
    if not results.get("date"):
        modified = datetime.fromtimestamp(path.stat().st_mtime, timezone.utc)
        results["date"] = modified.strftime("%Y-%m-%dT%H:%M:%SZ")
    return results


def load_results(folder: Path = STORED) -> Dict[str, Any]:
    """Return cell -> stored results. Results with cases get `operators`: `domain::name-since` -> the worst outcome of
    its cases.
    """
    known = load_cases(folder)
    results = {path.stem: _read(path) for path in sorted(folder.glob("*.json"))}
    for small in results.values():
        if "cases" in small:
            cases = known[small["cases"]]
            small["operators"] = _worst_by_operator(
                (cases[id], outcome) for id, outcome in outcomes(small, cases).items()
            )
    return results


def find_regressions(results: Dict[str, Any], before: Dict[str, Any]) -> List[str]:
    """Return a text for each count that is lower in a run than in `before`, the stored results of the cell.

    Counted for each suite: the cases that pass in the framework alone, and those with a right result. A suite that the
    run lacks is a regression too. A run without a GPU has no regressions.
    """
    worse: List[str] = []
    if results.get("state", RAN) == NO_GPU:
        return worse
    for suite, old in before["counts"].items():
        new = results.get("counts", {}).get(suite)
        if new is None:
            worse.append("%s: was run before, but not in this run" % suite)
            continue
        for names, text in (
            (("pass",), "%d cases pass in the framework alone, %d did"),
            (("pass", "fallback"), "%d give the right answer, %d did"),
        ):
            now, then = (sum(counts[name] for name in names) for counts in (new, old))
            if now < then:
                worse.append("%s: %s" % (suite, text % (now, then)))
    return worse


def find_worse_cases(results: Dict[str, Any], before: Dict[str, Any], folder: Path = STORED) -> List[str]:
    """Return a text for each case whose outcome is worse than in `before`, the stored results of the cell.

    [] if `before` has no cases. Only cases as they were recorded are compared, not their variants. The results may be
    those of a part of the cases.
    """
    if "cases" not in before:
        return []
    stored = outcomes(before, load_cases(folder)[before["cases"]])
    return [
        "%s: %s, was %s" % (result["id"], result["outcome"], stored[result["id"]])
        for result in results["results"]
        if stored.get(result["id"]) in OUTCOMES
        and OUTCOMES.index(result["outcome"]) > OUTCOMES.index(stored[result["id"]])
    ]


def summary(results: Dict[str, Any], digest: str, cases: Dict[str, Known]) -> Dict[str, Any]:
    """Return the results of a run in the form that is stored: counts by suite and by opset, and the cases that did not
    pass.

    `cases`: id -> properties of all cases. `digest`: the name of the file that stores them.
    """
    about: Dict[str, Any] = {name: results[name] for name in ABOUT if name in results}
    state = {name: results.get(name, "") for name in ("state", "reason", "date", "revision")}
    if not state["reason"]:
        del state["reason"]
    small = {**about, **state, "counts": results["counts"]}
    spans = Spans(cases)
    by_case: Dict[str, Tuple[str, str]] = {}
    for result in results.get("results", ()):
        id, at, variant = result["id"].partition("@")
        known = spans.find(id)
        # The result of the newest release counts for all releases with the same case.
        if known is not None and (known == id or known + at + variant not in by_case):
            by_case[known + at + variant] = (_find_outcome(result), _first_line(result.get("detail")))
    if not by_case:
        return small
    ran = spans.ran(_recorded_groups(small))
    absent, only = ([id for id in ran if (id in by_case) == there] for there in (False, True))
    if absent:
        small.update({"absent": _group_ids(absent)} if len(absent) <= len(only) else {"only": _group_ids(only)})
    small.update({"cases": digest, "opsets": {}, "missed": _group_missed(by_case)})
    opsets: Dict[int, List[int]] = {}
    for id, outcome in outcomes(small, cases).items():
        opsets.setdefault(cases[id].opset, [0] * len(FOUND))[FOUND.index(outcome)] += 1
    small["opsets"] = {str(opset): opsets[opset] for opset in sorted(opsets)}
    return small


def outcomes(small: Dict[str, Any], cases: Dict[str, Known]) -> Dict[str, str]:
    """Return case id -> outcome, for the cases that a cell ran in the variant `recorded`. `small`: its stored results."""
    missed = {id: row["outcome"] for row in small["missed"] for id in _join_ids(row["cases"])}
    if "only" in small:
        return {id: missed.get(id, "pass") for id in _join_ids(small["only"])}
    absent = set(_join_ids(small.get("absent", {})))
    return {id: missed.get(id, "pass") for id in Spans(cases).ran(_recorded_groups(small)) if id not in absent}


def _group_ids(ids: Iterable[str]) -> Dict[str, List[str]]:
    """Return `suite/release` -> the names of its cases, from ids `suite/release/name`."""
    groups: Dict[str, List[str]] = {}
    for id in sorted(ids):
        group, _, name = id.rpartition("/")
        groups.setdefault(group, []).append(name)
    return groups


def _join_ids(groups: Dict[str, List[str]]) -> List[str]:
    """Return ids `suite/release/name`, from the groups that `_group_ids` returns."""
    return ["%s/%s" % (group, name) for group, names in groups.items() for name in names]


def _recorded_groups(small: Dict[str, Any]) -> List[str]:
    """Return the `suite/release` keys of a cell's counts, without those of other variants, such as
    `node/1.18.0@composed`.
    """
    return [group for group in small["counts"] if "@" not in group]


def _find_outcome(result: Dict[str, Any]) -> str:
    """Return the outcome of the result of a case; "void" for a gap of the kind `never`."""
    senseless = result["outcome"] == "gap" and str(result.get("detail", "")).startswith("never:")
    return "void" if senseless else str(result["outcome"])


def _first_line(detail: Optional[str]) -> str:
    """Return the first line of an error, shortened to `LONGEST` characters, without paths and addresses.

    Paths and addresses differ between machines. A `detail` of None gives "".
    """
    line = next(iter(str(detail or "").strip().splitlines()), "")
    line = re.sub(r"\S+/model\.onnx", "model.onnx", line)
    line = re.sub(r"0x[0-9a-fA-F]{6,}", "0x...", line)
    line = re.sub(r"(?<![\w/])(?:/[\w.+@-]+){2,}/([\w.+@-]+)", r"\1", line)
    return line if len(line) <= LONGEST else line[: LONGEST - 3] + "..."


def _group_missed(by_case: Dict[str, Tuple[str, str]]) -> List[Dict[str, Any]]:
    """Return a row, a dict, for each outcome and detail: `outcome`, `detail` and `cases`. The worst outcome comes
    first.

    `by_case`: id -> (outcome, detail). `cases`: `suite/release` with the variant -> names. Cases that pass are left
    out. So is a variant of a case whose outcome and detail are those of the case as recorded.
    """
    rows: Dict[Tuple[str, str], Dict[str, List[str]]] = {}
    for id in sorted(by_case):
        name, at, variant = id.partition("@")
        if by_case[id] == (by_case.get(name) if at else None) or by_case[id][0] == "pass":
            continue
        group, _, case = name.rpartition("/")
        rows.setdefault(by_case[id], {}).setdefault(group + at + variant, []).append(case)
    worst = sorted(rows, key=lambda row: (row[0] == "void", -FOUND.index(row[0]), row[1]))
    return [{"outcome": outcome, "detail": detail, "cases": rows[outcome, detail]} for outcome, detail in worst]


def _worst_by_operator(results: Iterable[Tuple[Known, str]]) -> Dict[str, str]:
    """Return `domain::name-since` -> the worst outcome of its cases.

    `results`: (case, outcome) of each case. A case with several operators counts only for operators that no other case
    has alone. Void cases do not count.
    """
    by_operator: Dict[str, Seen] = {}
    for case, outcome in results:
        for operator in case.operators:
            if outcome != "void" and re.search(r"-\d+$", operator):
                seen = by_operator.setdefault(operator, Seen([], []))
                (seen.alone if len(case.operators) == 1 else seen.among).append(outcome)
    return {
        key: max(by_operator[key].alone or by_operator[key].among, key=OUTCOMES.index) for key in sorted(by_operator)
    }


def history_line(small: Dict[str, Any]) -> Dict[str, Any]:
    """Return the line for a run in history.jsonl: date, cell, revision, state and the total of each outcome.

    The history keeps the line when a later run replaces the results.
    """
    totals = [sum(column) for column in zip(*small.get("opsets", {}).values())]
    return {**{name: small.get(name, "") for name in ("date", "cell", "revision", "state")}, "found": totals}


def _append_history(small: Dict[str, Any], path: Path) -> None:
    """Add the line of a run to history.jsonl at `path`, unless the file has it, and sort the lines."""
    lines = path.read_text(encoding="utf-8").splitlines() if path.exists() else []
    lines = sorted({*lines, json.dumps(history_line(small))})
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")


def _read(path: Path) -> Dict[str, Any]:
    """Return the content of a JSON file."""
    content: Dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    return content


def _format_json(content: Dict[str, Any]) -> str:
    """Return JSON with one line for each entry, so that a change of an entry changes one line in a diff."""
    lines = []
    for key, value in content.items():
        if isinstance(value, dict) and value:
            inner = ",\n".join("  %s: %s" % (json.dumps(name), json.dumps(value[name])) for name in value)
            lines.append(" %s: {\n%s\n }" % (json.dumps(key), inner))
        elif key == "missed" and value:
            lines.append(" %s: [\n%s\n ]" % (json.dumps(key), ",\n".join("  " + json.dumps(row) for row in value)))
        else:
            lines.append(" %s: %s" % (json.dumps(key), json.dumps(value)))
    return "{\n%s\n}\n" % ",\n".join(lines)
