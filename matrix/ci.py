"""Outputs of a CI job: the list of jobs, one for each cell, and the key of the cache of recorded cases.

nox --json -l -t gate merge > sessions.json; python -m matrix.ci sessions.json >> "$GITHUB_OUTPUT"
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
    """Return a CI job, a dict, for each session of nox that is a cell.

    - `cell`, `python`: the id of the cell, and its Python
    - `labels`: the labels of the machine that runs it
    - `old`: whether uv cannot install that Python, so that the machine must have it

    `sessions`: the JSON output of `nox -l`. Raise MatrixError if no session is a cell.
    """
    cell_jobs = []
    for session in sessions:
        name = session["session"].removeprefix("cell(").removesuffix(")")
        if name in matrix.cells:
            runner = matrix.cells[name].runner
            image = matrix.ci.images.get(session["python"]) if runner == "cpu" else None
            labels = image or matrix.ci.runners[runner]
            cell_jobs.append({"cell": name, "python": session["python"], "labels": labels, "old": bool(image)})
    if not cell_jobs:
        raise MatrixError("nox lists no cell with these tags. `nox -l` lists the tags.")
    return cell_jobs


def key(matrix: Matrix) -> str:
    """Return the key of the cache of recorded cases: a digest of its inputs and of the code that fills the cache."""
    return hashlib.sha256("".join(stamp.digest for stamp in (suites(matrix), zoo(matrix))).encode()).hexdigest()[:16]


def main(arguments: list[str]) -> int:
    """Print the outputs `cells` and `cases`, and return 0. `arguments[0]` is the JSON file of nox's sessions."""
    matrix = load()
    sessions = json.loads(Path(arguments[0]).read_text(encoding="utf-8"))
    print(f"cells={json.dumps(jobs(matrix, sessions))}")
    print(f"cases={key(matrix)}")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
