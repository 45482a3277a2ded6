"""The part of the page's data that it shows first: lines of versions, the ranges of each operator, and the common set."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

from matrix.data import Matrix
from matrix.scoreboard.cases import Known, Spans, operator_name
from matrix.scoreboard.common import common_cases, measure_share, newest_opset
from matrix.scoreboard.gather import Run
from matrix.scoreboard.lines import Line, Range, collapse, count_outcomes, list_lines

__all__ = ["Operator", "list_operators", "summarise"]


class Operator(NamedTuple):
    """The cases that decide the outcome of an operator.

    `is_alone`: they have no other operator. An operator without such cases has those in which it is one of several.
    """

    is_alone: bool
    cases: list[str]


def summarise(matrix: Matrix, runs: list[Run]) -> dict[str, Any]:
    """Return a dict for the page. `runs`: the newest run of each cell.

    - `lines`: a dict for each line of versions
    - `operators`: name -> [1 if its cases have no other operator, the ranges of each line]
    - `common`: the sizes of the two common sets: of the runs of all cases, and of these and the sampled runs

    Runs are named by their index in `runs`. A range is `[number of runs, counts ...]`, without zeros at its end.
    """
    cases, outcomes = _unify(runs)
    lines = list_lines(matrix, runs)
    index = {id(run): k for k, run in enumerate(runs)}
    newest = [next((run for run in line.runs if outcomes[id(run)]), None) for line in lines]
    commons = [
        common_cases(outcomes[id(run)] for run in newest if run and (sampled or "sample" not in run.small))
        for sampled in (False, True)
    ]
    rows = []
    for line, run in zip(lines, newest):
        row: dict[str, Any] = {"shim": line.shim, "name": line.name, "runs": [index[id(run)] for run in line.runs]}
        row["versions"] = [cell_name.version for cell_name in line.cell_names]
        row["pythons"] = [cell_name.python for cell_name in line.cell_names]
        row["ranges"] = _format_ranges(collapse([(member, outcomes[id(member)]) for member in line.runs]))
        if run:
            shares = [measure_share(outcomes[id(run)], cases, common) for common in commons]
            row["opset"] = newest_opset(outcomes[id(run)], cases)
            row["shares"] = [[share.readable, share.whole] for share in shares]
        rows.append(row)
    operators = {
        name: [int(operator.is_alone), *(_format_operator(line, operator, outcomes) for line in lines)]
        for name, operator in list_operators(cases).items()
    }
    return {"lines": rows, "operators": operators, "common": [len(common) for common in commons]}


def list_operators(cases: Mapping[str, Known]) -> dict[str, Operator]:
    """Return name -> the cases that decide its outcome, sorted by name. The versions of an operator are one entry."""
    alone: dict[str, list[str]] = {}
    among: dict[str, list[str]] = {}
    for id, case in cases.items():
        names = {operator_name(operator) for operator in case.operators}
        for name in names:
            (alone if len(names) == 1 else among).setdefault(name, []).append(id)
    ordered = sorted({*alone, *among}, key=str.lower)
    return {name: Operator(name in alone, alone.get(name) or among[name]) for name in ordered}


def _unify(runs: Iterable[Run]) -> tuple[dict[str, Known], dict[int, dict[str, str]]]:
    """Return (all cases, id(run) -> case -> outcome), with each case under its id in the newest run's file of cases."""
    stored = {run.small["cases"]: run.cases for run in sorted(runs, key=lambda run: run.date) if run.outcomes()}
    cases = {id: case for known in stored.values() for id, case in known.items()}
    newest = list(stored)[-1] if stored else ""
    spans = Spans(stored.get(newest, {}))
    outcomes: dict[int, dict[str, str]] = {}
    for run in runs:
        of_run = run.outcomes()
        if of_run and run.small["cases"] != newest:
            of_run = {spans.find(case) or case: outcome for case, outcome in of_run.items()}
        outcomes[id(run)] = of_run
    used = {case for of_run in outcomes.values() for case in of_run}
    return {case: known for case, known in cases.items() if case in used}, outcomes


def _format_operator(line: Line, operator: Operator, outcomes: Mapping[int, Mapping[str, str]]) -> Any:
    """Return the ranges of a line for one operator. 0: no run of the line has a case of it."""
    members = []
    for run in line.runs:
        of_run = outcomes[id(run)]
        members.append((run, {case: of_run[case] for case in operator.cases if case in of_run}))
    return _format_ranges(collapse(members)) if any(of_member for _, of_member in members) else 0


def _format_ranges(ranges: Iterable[Range]) -> list[list[int]]:
    """Return a row for each range: its number of runs, then the count of each outcome, without zeros at the end."""
    rows = []
    for its in ranges:
        row = [len(its.runs), *count_outcomes(its.outcomes.values())]
        while row[-1] == 0:
            row.pop()
        rows.append(row)
    return rows
