"""Outcome of a cell, judged from the exit code of its process, its tests, its results file and its stored results."""

from __future__ import annotations

import re
import signal
from dataclasses import dataclass, field
from datetime import datetime, timezone
from typing import Any

from matrix.data import Cell
from matrix.results import NO_GPU, OUTCOMES, find_regressions
from matrix.revision import revision
from matrix.run.progress import Progress

__all__ = [
    "BAD",
    "BROKEN",
    "FAILED",
    "NO_GPU",
    "PASSED",
    "WORSE",
    "End",
    "Outcome",
    "broken_results",
    "find_reason",
    "judge",
]

PASSED, FAILED, WORSE, BROKEN = "passed", "failed", "worse", "broken"
BAD = {FAILED, WORSE, BROKEN}
_LONGEST = 300


@dataclass(frozen=True)
class End:
    """The end of the process of a cell.

    `code`: the exit code; None: it did not start or was ended, and `reason` says why.
    """

    code: int | None
    seconds: float
    reason: str = ""


@dataclass(frozen=True)
class Outcome:
    """The outcome of a cell: status (passed, failed, worse, broken, no-gpu), reason, duration and number of cases."""

    status: str
    reason: str = ""
    seconds: float = 0.0
    counts: dict[str, int] = field(default_factory=dict)
    """Outcome of cases -> their number, over all suites."""

    @property
    def native(self) -> float | None:
        """Return the share of the cases with a right result that ran without a fallback.

        None: no case had a right result.
        """
        right = self.counts.get("pass", 0) + self.counts.get("fallback", 0)
        return self.counts["pass"] / right if right else None


def judge(
    end: End, tests: Progress, results: dict[str, Any] | None, log: str, whole: bool, before: dict[str, Any] | None
) -> Outcome:
    """Return the outcome of a cell.

    `results`: the results file that this run wrote, or None. `whole`: the run had all tests, so it must write results
    that are not worse than `before`, the stored results. `log`: the output of nox, which names the reason of a failure.
    """
    status, reason = _find_failure(end, tests, results, log) or (PASSED, "")
    if status == PASSED and whole:
        regressions = find_regressions(results, before) if results and before else []
        status, reason = (WORSE, "; ".join(regressions)) if regressions else (status, reason)
        status, reason = (status, reason) if results else (BROKEN, "it wrote no results")
    if status == PASSED and end.code:
        status, reason = BROKEN, find_reason(log)
    return Outcome(status, reason[:_LONGEST], end.seconds, _sum_counts(results or {}))


def find_reason(log: str) -> str:
    """Return the reason of a failure from the last lines of a log of nox, on one line."""
    lines = [line.rstrip() for line in log.splitlines() if line.strip()]
    for k, line in reversed(list(enumerate(lines))):
        if match := re.match(r"nox > Session \S+ failed: (.*)", line):
            return re.sub(r" \(took .*\)\.?$", "", match[1])
        if match := re.match(r"nox > Command .* failed with exit code (-?\d+)(:?)$", line):
            before = [earlier for earlier in lines[:k] if not earlier.startswith(("=", "!"))]  # without pytest's rulers
            return _describe_command(int(match[1]), lines[k + 1 :] if match[2] else before[-1:])
    return lines[-1] if lines else "the log is empty"


def broken_results(cell: Cell, reason: str) -> dict[str, Any]:
    """Return the content of a results file that says why a cell is broken, for a cell that wrote no results."""
    description = {"shim": cell.shim, "cell": cell.id, "python": cell.python, "revision": revision()}
    date = {"date": datetime.now(timezone.utc).strftime("%Y-%m-%dT%H:%M:%SZ")}
    return {**description, **date, "state": BROKEN, "reason": reason, "natives": [], "counts": {}, "results": []}


def _find_failure(end: End, tests: Progress, results: dict[str, Any] | None, log: str) -> tuple[str, str] | None:
    """Return (status, reason) of a run that failed. None: the process, the tests and the results show no failure."""
    if end.code is None:
        remaining = f", with {tests.missing} of {tests.total} tests to go" if tests.missing else ""
        return BROKEN, end.reason + remaining
    state = results.get("state") if results else None
    if results and state in {NO_GPU, BROKEN}:
        return state, str(results.get("reason", ""))
    if tests.missing:
        return BROKEN, f"{tests.missing} of {tests.total} tests did not run: {find_reason(log)}"
    if tests.failures:
        name, reason = next(iter(tests.failures.items()))
        return FAILED, f"{len(tests.failures)} of {tests.total} tests failed, the first: {name}: {reason}"
    return (BROKEN, find_reason(log)) if end.code and not results else None


def _describe_command(code: int, output: list[str]) -> str:
    """Return why a command failed, on one line: the first lines of `output`, and the signal that killed the command.

    Without both, it is the exit code `code`.
    """
    if code < 0:
        output = [*output[:1], f"killed by {signal.Signals(-code).name}"]
    lines = [line.strip() for line in output if not line.startswith("nox >") and not line.startswith("Using Python")]
    return " ".join(lines[:4]) or f"exit code {code}"


def _sum_counts(results: dict[str, Any]) -> dict[str, int]:
    """Return outcome -> number of cases, over all suites of a results file. {}: it has no counts."""
    rows = results.get("counts", {}).values()
    return {name: sum(row[name] for row in rows) for name in OUTCOMES} if rows else {}
