"""What the CI service is to run, for the outputs of a job of it: a job for each cell, and the key of the cache of cases.

nox --json -l -t gate > sessions.json; python -m matrix.ci sessions.json >> "$GITHUB_OUTPUT"
"""

from __future__ import annotations

import hashlib
import json
import sys
from pathlib import Path
from typing import Any

from matrix.data import Matrix, MatrixError, load
from matrix.stamp import suites, zoo

__all__ = ["jobs", "key"]


def jobs(matrix: Matrix, sessions: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Those of nox's sessions that are cells, each with what its job must know."""
    found = []
    for session in sessions:
        name = session["session"].removeprefix("cell(").removesuffix(")")
        if name in matrix.cells:
            runner = matrix.cells[name].runner
            image = matrix.ci.images.get(session["python"]) if runner == "cpu" else None
            labels = image or matrix.ci.runners[runner]
            found.append({"cell": name, "python": session["python"], "labels": labels, "old": bool(image)})
    if not found:
        raise MatrixError("nox lists no cell with these tags")
    return found


def key(matrix: Matrix) -> str:
    """Another one when another content of the cache is asked for, or other code makes it."""
    return hashlib.sha256("".join(each.digest for each in (suites(matrix), zoo(matrix))).encode()).hexdigest()[:16]


def main(arguments: list[str]) -> int:
    matrix = load()
    sessions = json.loads(Path(arguments[0]).read_text(encoding="utf-8"))
    print(f"cells={json.dumps(jobs(matrix, sessions))}")
    print(f"cases={key(matrix)}")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
