"""Measure which branches of the core tests/core takes: `python -m matrix.branch_coverage [PYTEST_ARGUMENT ...]`.

It fails if fewer than `FLOOR` percent are covered. It also counts the branches that processes of the tests take.
"""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any, NamedTuple

from matrix.cells import pytest_arguments
from matrix.data import ROOT

__all__ = ["FLOOR", "Branches", "count_branches", "main", "report"]

FLOOR = 92
"""The percentage of the branches that tests must take."""
TESTS = "tests/core"
FOLDER = ROOT / "results" / "coverage"
_CONFIGURATION = """\
[run]
branch = true
parallel = true
relative_files = true
source = onnx_compat
patch =
    subprocess
    _exit
data_file = {folder}/.coverage
"""


class Branches(NamedTuple):
    """The branches of a module: how many there are, and how many the tests take."""

    path: str
    total: int
    covered: int

    @property
    def share(self) -> float:
        """The percentage of taken branches; 100 for a module without branches."""
        return 100 * self.covered / self.total if self.total else 100.0


def main(arguments: list[str]) -> int:
    """Run the tests under coverage.py, and print how many branches of the core they take.

    `arguments` go to pytest; without a path among them, tests/core runs. The JSON report is left in
    results/coverage/coverage.json.

    Return 0, or 1 if fewer than `FLOOR` percent are taken or the report fails. If pytest fails, return its exit code.
    """
    FOLDER.mkdir(parents=True, exist_ok=True)
    for data in FOLDER.glob(".coverage*"):
        data.unlink()
    configuration = FOLDER / "coveragerc"
    configuration.write_text(_CONFIGURATION.format(folder=FOLDER), encoding="utf-8")
    status = _run_coverage("run", configuration, "-m", "pytest", *pytest_arguments([TESTS], arguments))
    if status:
        return status
    written = FOLDER / "coverage.json"
    if _run_coverage("combine", configuration, "-q") or _run_coverage("json", configuration, "-q", "-o", str(written)):
        return 1
    return report(count_branches(json.loads(written.read_text(encoding="utf-8"))))


def _run_coverage(command: str, configuration: Path, *arguments: str) -> int:
    """Run a command of coverage.py in another process, and return its exit code."""
    line = [sys.executable, "-m", "coverage", command, f"--rcfile={configuration}", *arguments]
    return subprocess.run(line, cwd=ROOT, check=False).returncode


def count_branches(measured: dict[str, Any]) -> list[Branches]:
    """Return the branches of each module that has any, from a JSON report of coverage.py."""
    summaries = {path: entry["summary"] for path, entry in measured["files"].items()}
    return [
        Branches(path, summary["num_branches"], summary["covered_branches"])
        for path, summary in summaries.items()
        if summary["num_branches"]
    ]


def report(modules: list[Branches], most: int = 20) -> int:
    """Print the `most` modules with the most branches that no test takes, and the share of all modules together.

    Return 1 if that share is below `FLOOR`, else 0.
    """
    total = Branches("all modules", sum(module.total for module in modules), sum(module.covered for module in modules))
    lowest = sorted(modules, key=lambda module: (module.covered - module.total, module.path))[:most]
    for module in [*(module for module in lowest if module.covered < module.total), total]:
        print(f"{module.share:5.1f} %  {module.covered:5} of {module.total:5}  {module.path}")
    if total.share < FLOOR:
        print(f"Below {FLOOR} %. Add tests to {TESTS} that take the other branches of these modules.")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
