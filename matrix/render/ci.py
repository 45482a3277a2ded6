"""Workflows of the CI service: the templates in matrix/render/workflows, filled with values of matrix.toml."""

from __future__ import annotations

import json
import string
from pathlib import Path

from packaging.version import Version

from matrix.data import TIERS, Matrix, MatrixError

__all__ = ["files"]

TEXTS = Path(__file__).parent / "workflows"
CASES = "~/.cache/onnx-compat"
"""The folder of the cache of recorded cases on Linux; matrix/suites/place.py has the same path."""
GPU_CRON = "41 3 * * 0"
"""The schedule of the cells of a GPU: each week. Templates compare it with the schedule that started a run."""
_HEAD = "# Rendered from matrix/matrix.toml and matrix/render/workflows by `python -m matrix render`: edit there.\n"


class _Text(string.Template):
    """A template whose marks are `@{name}`, so that `${{ }}` of the CI service stays as it is."""

    delimiter = "@"


def files(matrix: Matrix, root: Path) -> dict[Path, str]:
    """Return path -> text of the workflows in .github/workflows."""
    return {root / ".github" / "workflows" / text.name: _render(matrix, text) for text in sorted(TEXTS.glob("*.yml"))}


def _render(matrix: Matrix, text: Path) -> str:
    """Return the text of a workflow. `text`: the path of its template.

    Raise a MatrixError for a mark of the template without a value.
    """
    nox, *companions = matrix.tools["nox"]
    options = " ".join(f"--with {requirement}" for requirement in companions)
    values = {name.replace("-", "_"): action for name, action in matrix.ci.actions.items()}
    values |= {
        "cases": CASES,
        "cpu": json.dumps(matrix.ci.runners["cpu"]),
        "install_nox": f"uv tool install --python {matrix.ci.python} {options} {nox}",
        "python": f"uv run --no-project --python {matrix.ci.python} {options} python",
        "tags": json.dumps(_tags(matrix)),
        "zoo_python": matrix.suites_python,
    }
    (old, image), *_ = matrix.ci.images.items()
    values |= {"old": json.dumps(image), "old_python": json.dumps(old), "pythons": " ".join(_pythons(matrix))}
    values["whole"] = json.dumps(matrix.ci.whole)
    gate = [cell.branch for cell in matrix.cells.values() if cell.tier == "gate" and cell.branch]
    values["gate_branches"] = " ".join(gate)
    values |= {"gpu_cron": GPU_CRON, "ci_python": matrix.ci.python, "playwright": _playwright(matrix)}
    try:
        return _HEAD + _Text(text.read_text(encoding="utf-8")).substitute(values)
    except (KeyError, ValueError) as error:
        raise MatrixError(f"{text.name}: {error}") from error


def _playwright(matrix: Matrix) -> str:
    """Return the requirement that pins playwright."""
    return next(tool for tool in matrix.tools["scoreboard"] if tool.startswith("playwright=="))


def _pythons(matrix: Matrix) -> list[str]:
    """Return the Pythons of all cells that uv can install, the oldest first."""
    pythons = {cell.python for cell in matrix.cells.values()} - set(matrix.ci.images)
    return sorted(pythons, key=Version)


def _tags(matrix: Matrix) -> list[str]:
    """Return the tags of all cells, without duplicates, the tiers first."""
    return list(dict.fromkeys([*TIERS, *(tag for cell in matrix.cells.values() for tag in cell.tags)]))
