"""The outcome of a cell, and its display."""

from __future__ import annotations

import io
import json
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

from matrix.data import load
from matrix.run import outcome, screen
from matrix.run.outcome import BROKEN, FAILED, NO_GPU, PASSED, WORSE, End, Outcome, find_reason, judge
from matrix.run.progress import Progress
from matrix.run.schedule import Running

ROW = {"pass": 8, "fallback": 2, "gap": 1, "fail": 0}
RESULTS = {"state": "ran", "counts": {"node/1": ROW, "simple/1": ROW}}
LOG = "nox > Running session cell(x)\n...\nnox > Command python -m matrix.cells x failed with exit code 1\n"


def progress(ended: int, total: int | None = None, **failures: str) -> Progress:
    outcomes = {str(k): "passed" for k in range(ended)}
    return Progress(Path("nowhere"), ended if total is None else total, ended, outcomes, failures)


def judge_run(
    code: int | None = 0,
    tests: Progress | None = None,
    results: dict[str, Any] | None = RESULTS,
    whole: bool = True,
    before: dict[str, Any] | None = None,
) -> tuple[str, str]:
    result = judge(End(code, 5.0, "too long"), tests or progress(4), results, LOG, whole, before)
    return result.status, result.reason


def test_a_cell_that_passed() -> None:
    assert judge_run() == (PASSED, "")
    assert judge_run(before=RESULTS) == (PASSED, "")
    result = judge(End(0, 5.0), progress(4), RESULTS, LOG, True, None)
    assert result.counts == {"pass": 16, "fallback": 4, "gap": 2, "fail": 0}
    assert result.native == 0.8


def test_a_failed_test_is_named() -> None:
    status, reason = judge_run(1, progress(4, a="ValueError: no"))
    assert (status, reason) == (FAILED, "1 of 4 tests failed, the first: a: ValueError: no")
    assert judge_run(1, progress(4, a="no"), None)[0] == FAILED, "one of a part of the tests, without cases"


def test_a_cell_with_fewer_passes_than_stored() -> None:
    before = {"counts": {"node/1": {**ROW, "pass": 9}}}
    status, reason = judge_run(1, before=before)
    assert status == WORSE
    assert "8 cases pass in the framework alone, 9 did" in reason
    assert judge_run(0, before=before)[0] == WORSE
    assert judge_run(0, before=before, whole=False)[0] == PASSED, "a part of the tests has fewer cases"


@pytest.mark.parametrize(
    ("code", "tests", "results", "message"),
    [
        (None, progress(3, 9), RESULTS, "too long, with 6 of 9 tests to go"),
        (None, progress(0), None, "too long"),
        (1, progress(0), None, "..."),
        (1, progress(4), RESULTS, "..."),
        (1, progress(3, 9), None, "6 of 9 tests did not run: ..."),
        (1, progress(3, 9), {**RESULTS, "state": BROKEN, "reason": "6 did not run"}, "6 did not run"),
        (0, progress(4), None, "it wrote no results"),
    ],
)
def test_a_cell_that_did_not_end_is_broken(
    code: int | None, tests: Progress, results: dict[str, Any] | None, message: str
) -> None:
    assert judge_run(code, tests, results) == (BROKEN, message)


def test_a_missing_device_is_an_outcome() -> None:
    result = {"state": NO_GPU, "reason": "TensorFlow sees no GPU", "counts": {}}
    assert judge_run(0, progress(0), result) == (NO_GPU, "TensorFlow sees no GPU")
    assert NO_GPU not in outcome.BAD


@pytest.mark.parametrize(
    ("log", "message"),
    [
        (
            "nox > Session cell(x) failed: Python interpreter 3.6 not found (took 2 seconds).\n",
            "Python interpreter 3.6 not found",
        ),
        (
            """nox > Command uv pip install x failed with exit code 1:
nox > Using Python 3.11
error: No solution
  cause: no x==9

nox > Session cell(x) failed.
""",
            "error: No solution cause: no x==9",
        ),
        (
            """ERROR tests/a.py - ImportError: libcuda.so
!!! Interrupted !!!
=== 1 error ===
nox > Command python -m matrix.cells x failed with exit code 2
nox > Session cell(x) failed.
""",
            "ERROR tests/a.py - ImportError: libcuda.so",
        ),
        ("starting\nnox > Command python x failed with exit code -6\n", "starting killed by SIGABRT"),
        ("no space left on device\n", "no space left on device"),
        ("", "the log is empty"),
    ],
)
def test_the_reason_is_in_the_log(log: str, message: str) -> None:
    assert find_reason(log) == message


def test_a_broken_cell_has_results_for_the_readers() -> None:
    cell = load().cells["tflite-litert-2.3.0-py313"]
    result = outcome.broken_results(cell, "no such version")
    about = {"cell": cell.id, "python": "3.13", "shim": "tflite", "state": BROKEN, "reason": "no such version"}
    assert about.items() <= result.items()
    assert {"revision", "date"} <= set(result)
    assert judge_run(1, progress(0), result) == (BROKEN, "no such version")


class Endless:
    def poll(self) -> None: ...

    def end(self) -> None: ...


@pytest.mark.parametrize("terminal", [False, True])
def test_the_progress_of_a_run_is_shown(terminal: bool) -> None:
    cell = load().cells["tflite-litert-2.3.0-py313"]
    seconds = 0.0
    text = io.StringIO()
    console = Console(file=text, force_terminal=terminal, width=120, color_system=None)
    shown = screen.Screen(console, lambda: seconds)
    tests = Progress(Path(), 40, 7, {str(k): "passed" for k in range(10)}, {"a": "wrong"})
    totals = screen.Totals(3, {"x": Outcome(BROKEN)}, cases=100, failures=2)
    with shown.live():
        shown.print_line("started")
        shown.update([Running(cell, Endless(), tests, 0.0)], totals, 3725)
        seconds = screen.EVERY
        shown.update([Running(cell, Endless(), tests, 0.0)], totals, 3725)
    shown_text = text.getvalue()
    assert "started" in shown_text
    assert "1 of 3 cells done, 1 not well; 107 cases, 3 failed tests; 1:02:05 left" in shown_text
    assert cell.id in shown_text
    assert ("10/40 tests" in shown_text) == terminal
    assert terminal or len(shown_text.splitlines()) == 2, "lines, now and then, where there is no terminal"


def test_the_table_has_a_row_for_each_cell() -> None:
    text = io.StringIO()
    counts = {"pass": 2999, "fallback": 1, "gap": 4, "fail": 0}
    rows = {"a": Outcome(PASSED, "", 75.4, counts), "b": Outcome(BROKEN, "no such version", 1)}
    Console(file=text, width=120).print(screen.outcome_table(rows, {"a"}))
    head, first, second = (line.split() for line in text.getvalue().splitlines())
    assert head == ["cell", "state", "pass", "fallback", "gap", "fail", "seconds", "native"]
    assert first == ["a", "passed,", "before", "2999", "1", "4", "0", "75", "99.9", "%"], "100 % is all of them"
    assert second == ["b", "broken", "1"]


def test_missing_results_are_reported(tmp_path: Path) -> None:
    tests = Progress(tmp_path / "absent")
    tests.read()
    assert (tests.total, tests.missing) == (0, 0)
    tests.path.write_text(json.dumps({"tests": 3}) + "\n", encoding="utf-8")
    tests.read()
    assert tests.missing == 3
