"""Progress of a cell: the tests that have ended, read from the file to which tests/conftest.py appends a line for each."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

__all__ = ["Progress"]

_CASE = "test_suites.py::test_case["


@dataclass
class Progress:
    """The tests of a cell that have ended, from the file `path` that the cell writes. `total`: the number of all tests.

    `outcomes`: id -> outcome of each ended test. `cases`: how many of these are recorded cases.
    """

    path: Path
    total: int = 0
    cases: int = 0
    outcomes: dict[str, str] = field(default_factory=dict)
    failures: dict[str, str] = field(default_factory=dict)
    """Name of a failed test -> the last line of its error."""
    _offset: int = 0

    @property
    def missing(self) -> int:
        """Return the number of tests that have not ended."""
        return self.total - len(self.outcomes)

    def read(self) -> None:
        """Read the complete lines that were written to the file since the last call, and update the progress.

        Do nothing while the file does not exist.
        """
        if not self.path.exists():
            return
        with self.path.open("rb") as file:
            file.seek(self._offset)
            for line in file:
                if not line.endswith(b"\n"):  # still being written
                    break
                self._offset += len(line)
                self._take(json.loads(line))

    def _take(self, line: dict[str, Any]) -> None:
        """Count a line of the file: the number of all tests, or the outcome of a test.

        A test that failed once stays failed.
        """
        if "tests" in line:
            self.total = line["tests"]
            return
        id = line["id"]
        self.cases += _CASE in id and id not in self.outcomes
        if line["outcome"] == "failed":
            self.failures.setdefault(id, line["reason"])
        if self.outcomes.get(id) != "failed":
            self.outcomes[id] = line["outcome"]
