"""The workflows of the CI service: the texts in matrix/render/workflows, with what matrix.toml says in them."""

from __future__ import annotations

import json
import string
from pathlib import Path

from packaging.version import Version

from matrix.data import TIERS, Matrix, MatrixError

__all__ = ["files"]

TEXTS = Path(__file__).parent / "workflows"
CASES = "~/.cache/onnx-compat"
"""Where matrix/suites/place.py has the cache on Linux."""
_HEAD = "# Rendered from matrix/matrix.toml and matrix/render/workflows by `python -m matrix render`: edit there.\n"


class _Text(string.Template):
    """`@{name}` is replaced; the service's own `${{ }}` stays."""

    delimiter = "@"


def files(matrix: Matrix, root: Path) -> dict[Path, str]:
    return {root / ".github" / "workflows" / text.name: _rendered(matrix, text) for text in sorted(TEXTS.glob("*.yml"))}


def _rendered(matrix: Matrix, text: Path) -> str:
    nox, *beside = matrix.tools["nox"]
    withs = " ".join(f"--with {each}" for each in beside)
    said = {name.replace("-", "_"): action for name, action in matrix.ci.actions.items()}
    said |= {
        "cases": CASES,
        "cpu": json.dumps(matrix.ci.runners["cpu"]),
        "install_nox": f"uv tool install --python {matrix.ci.python} {withs} {nox}",
        "python": f"uv run --no-project --python {matrix.ci.python} {withs} python",
        "tags": json.dumps(_tags(matrix)),
        "zoo_python": matrix.suites_python,
    }
    (old, image), *_ = matrix.ci.images.items()
    said |= {"old": json.dumps(image), "old_python": json.dumps(old), "pythons": " ".join(_pythons(matrix))}
    said["whole"] = json.dumps(matrix.ci.whole)
    try:
        return _HEAD + _Text(text.read_text(encoding="utf-8")).substitute(said)
    except (KeyError, ValueError) as error:
        raise MatrixError(f"{text.name}: {error}") from error


def _pythons(matrix: Matrix) -> list[str]:
    """Those of the cells that uv has builds of."""
    found = {cell.python for cell in matrix.cells.values()} - set(matrix.ci.images)
    return sorted(found, key=Version)


def _tags(matrix: Matrix) -> list[str]:
    """The tiers first, then whatever else cells are tagged with."""
    return list(dict.fromkeys([*TIERS, *(tag for cell in matrix.cells.values() for tag in cell.tags)]))
