"""Contradictions inside the results of a run: outcomes of cases that do not add up to the counts beside them."""

from __future__ import annotations

from collections import Counter
from typing import Any

from matrix.results import FOUND, OUTCOMES
from matrix.scoreboard.cases import Known

__all__ = ["find_contradictions"]


def find_contradictions(small: dict[str, Any], cases: dict[str, Known], outcomes: dict[str, str]) -> list[str]:
    """Return a text for each count in stored results that the outcomes of the cases contradict.

    - small: the stored results, with counts by opset and by suite.
    - cases: id -> properties of the case, for every id in `outcomes`. Only the opset is used.
    - outcomes: id -> outcome of each case of the run, as derived from the listed cases.

    The counts of an opset must be equal. For a suite, only the presence of an outcome is compared: see `_check_suites`.
    """
    return [*_check_opsets(small, cases, outcomes), *_check_suites(small, outcomes)]


def _check_opsets(small: dict[str, Any], cases: dict[str, Known], outcomes: dict[str, str]) -> list[str]:
    """Return a text for each opset whose stored counts differ from the counts of `outcomes`."""
    listed: dict[str, list[int]] = {}
    for id, outcome in outcomes.items():
        listed.setdefault(str(cases[id].opset), [0] * len(FOUND))[FOUND.index(outcome)] += 1
    stored: dict[str, list[int]] = small.get("opsets", {})
    return [
        f"opset {opset}: {_format(stored.get(opset))} are counted, {_format(listed.get(opset))} are listed"
        for opset in sorted({*stored, *listed}, key=int)
        if stored.get(opset) != listed.get(opset)
    ]


def _check_suites(small: dict[str, Any], outcomes: dict[str, str]) -> list[str]:
    """Return a text for each outcome of a suite that is counted and not listed, or listed and not counted.

    The numbers are not compared, because they differ: a case is counted in each release that has it, and listed once.
    The counts have void cases as gaps.
    """
    counted: dict[str, Counter[str]] = {}
    for group, counts in small.get("counts", {}).items():
        if "@" not in group:
            counted.setdefault(group.partition("/")[0], Counter()).update(counts)
    listed: dict[str, Counter[str]] = {}
    for id, outcome in outcomes.items():
        listed.setdefault(id.partition("/")[0], Counter())["gap" if outcome == "void" else outcome] += 1
    return [
        f"{suite}: {counted[suite][outcome]} {outcome} are counted, {listed[suite][outcome]} are listed"
        for suite in sorted(listed.keys() & counted.keys())
        for outcome in OUTCOMES
        if bool(counted[suite][outcome]) != bool(listed[suite][outcome])
    ]


def _format(counts: list[int] | None) -> str:
    """Return counts, in the order of `FOUND`, as text: `3 pass, 1 fail`. All zero or None: "no cases"."""
    return ", ".join(f"{n} {name}" for n, name in zip(counts or [], FOUND) if n) or "no cases"
