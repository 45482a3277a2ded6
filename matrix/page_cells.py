"""Cell that executes a code block of the documentation: each block runs in a single cell of its shim.

The module runs on the Python of the cell, so it supports Python 3.7.
"""

from __future__ import annotations

import re
from functools import lru_cache
from pathlib import Path
from typing import Optional, Sequence, Set

from matrix.data import Cell, Matrix

__all__ = ["page_cell"]


def page_cell(matrix: Matrix, needs: Sequence[str]) -> Optional[Cell]:
    """Return the cell that executes the code blocks whose marker names these needs: a shim, then modules.

    It is the first required cell of the shim that pins the modules; cells of the gate come before others. None: there is
    no such cell, as for `any` and `e2e`.
    """
    shim, modules = needs[0], needs[1:]
    required = [cell for cell in matrix.cells.values() if cell.is_required and cell.shim == shim]
    required.sort(key=lambda cell: cell.tier != "gate")
    return next((cell for cell in required if set(modules) <= _modules(cell.constraints)), None)


@lru_cache(maxsize=64)
def _modules(constraints: Path) -> Set[str]:
    """Return the import names of the packages in a lock file, derived from their names; `tensorflow-cpu` gives
    `tensorflow`.
    """
    packages = re.findall(r"^([\w.-]+?)(?:-cpu)?==", constraints.read_text(encoding="utf-8"), re.MULTILINE)
    return {package.replace("-", "_") for package in packages}
