"""What became of a cell: judged by how its process ended, what it wrote, and what is stored of it."""

from __future__ import annotations

import re
import signal
from dataclasses import dataclass, field
from datetime import datetime, timezone
from typing import Any

from matrix.data import Cell
from matrix.results import NO_GPU, OUTCOMES, fallen
from matrix.revision import revision
from matrix.run.progress import Progress

__all__ = ["BAD", "BROKEN", "FAILED", "NO_GPU", "PASSED", "WORSE", "End", "Outcome", "broken_results", "judge", "why"]

PASSED, FAILED, WORSE, BROKEN = "passed", "failed", "worse", "broken"
BAD = {FAILED, WORSE, BROKEN}
_LONGEST = 300


@dataclass(frozen=True)
class End:
    """How a process ended; without a code, it did not start or had to be ended, which `reason` says."""

    code: int | None
    seconds: float
    reason: str = ""


@dataclass(frozen=True)
class Outcome:
    status: str
    reason: str = ""
    seconds: float = 0.0
    counts: dict[str, int] = field(default_factory=dict)
    """Of the cases of all suites, by what became of them."""

    @property
    def native(self) -> float | None:
        """The share of the right answers that the framework gives alone."""
        right = self.counts.get("pass", 0) + self.counts.get("fallback", 0)
        return self.counts["pass"] / right if right else None


def judge(
    end: End, tests: Progress, results: dict[str, Any] | None, log: str, whole: bool, before: dict[str, Any] | None
) -> Outcome:
    """`results`: what the cell wrote, if it did. `before`: what is stored of it, which a whole run may not fall behind."""
    status, reason = _status(end, tests, results, log) or (PASSED, "")
    if status == PASSED and whole:
        worse = fallen(results, before) if results and before else []
        status, reason = (WORSE, "; ".join(worse)) if worse else (status, reason)
        status, reason = (status, reason) if results else (BROKEN, "it wrote no results")
    if status == PASSED and end.code:
        status, reason = BROKEN, why(log)
    return Outcome(status, reason[:_LONGEST], end.seconds, _sums(results or {}))


def why(log: str) -> str:
    """What the end of a log of nox says of the reason."""
    lines = [line.rstrip() for line in log.splitlines() if line.strip()]
    for k, line in reversed(list(enumerate(lines))):
        if found := re.match(r"nox > Session \S+ failed: (.*)", line):
            return re.sub(r" \(took .*\)\.?$", "", found[1])
        if found := re.match(r"nox > Command .* failed with exit code (-?\d+)(:?)$", line):
            before = [one for one in lines[:k] if not one.startswith(("=", "!"))]  # the rulers of pytest
            return _of_command(int(found[1]), lines[k + 1 :] if found[2] else before[-1:])
    return lines[-1] if lines else "it said nothing"


def broken_results(cell: Cell, reason: str) -> dict[str, Any]:
    """The results of a cell that has none, for those that read them."""
    about = {"shim": cell.shim, "cell": cell.id, "python": cell.python, "revision": revision()}
    when = {"date": datetime.now(timezone.utc).strftime("%Y-%m-%dT%H:%M:%SZ")}
    return {**about, **when, "state": BROKEN, "reason": reason, "natives": [], "counts": {}, "results": []}


def _status(end: End, tests: Progress, results: dict[str, Any] | None, log: str) -> tuple[str, str] | None:
    """What is wrong with a run, if that can be told from it alone."""
    if end.code is None:
        told = f", with {tests.missing} of {tests.total} tests to go" if tests.missing else ""
        return BROKEN, end.reason + told
    state = results.get("state") if results else None
    if results and state in {NO_GPU, BROKEN}:
        return state, str(results.get("reason", ""))
    if tests.missing:
        return BROKEN, f"{tests.missing} of {tests.total} tests did not run: {why(log)}"
    if tests.failures:
        name, reason = next(iter(tests.failures.items()))
        return FAILED, f"{len(tests.failures)} of {tests.total} tests failed, the first: {name}: {reason}"
    return (BROKEN, why(log)) if end.code and not results else None


def _of_command(code: int, said: list[str]) -> str:
    if code < 0:
        said = [*said[:1], f"killed by {signal.Signals(-code).name}"]
    told = [line.strip() for line in said if not line.startswith("nox >") and not line.startswith("Using Python")]
    return " ".join(told[:4]) or f"exit code {code}"


def _sums(results: dict[str, Any]) -> dict[str, int]:
    rows = results.get("counts", {}).values()
    return {name: sum(row[name] for row in rows) for name in OUTCOMES} if rows else {}
