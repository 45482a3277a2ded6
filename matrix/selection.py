"""Environments in which the tests of shim selection run: the tables `[selection.*]` of matrix.toml."""

from __future__ import annotations

import sys
from dataclasses import dataclass

from matrix.data import ROOT, Matrix, MatrixError

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

__all__ = ["Mixed", "load_mixed"]


@dataclass(frozen=True)
class Mixed:
    """An environment with the lock files of several cells of one Python, and the wheels of several shims.

    `over`: requirements that are installed last, without their dependencies.
    """

    name: str
    python: str
    pins: tuple[str, ...]
    """The paths of the lock files of the cells."""
    shims: tuple[str, ...]
    over: tuple[str, ...]


def load_mixed(matrix: Matrix) -> list[Mixed]:
    """Return the environments in `[selection.*]` of matrix.toml.

    Raise a MatrixError for an unknown cell, and for an environment whose cells have several Pythons.
    """
    raw = tomllib.loads((ROOT / "matrix" / "matrix.toml").read_text(encoding="utf-8"))
    return [_make_mixed(matrix, name, **entry) for name, entry in raw["selection"].items()]


def _make_mixed(matrix: Matrix, name: str, cells: list[str], shims: list[str], over: list[str] | None = None) -> Mixed:
    """Build the environment `name` from its table in matrix.toml. `cells`: the ids of its cells.

    `over`: requirements that are installed last; None: no requirement. Raise a MatrixError for an unknown cell, and if
    the cells have several Pythons.
    """
    unknown = [cell_id for cell_id in cells if cell_id not in matrix.cells]
    if unknown:
        raise MatrixError(f"selection {name}: there is no cell {', '.join(unknown)}")
    chosen = [matrix.cells[cell_id] for cell_id in cells]
    pythons = {cell.python for cell in chosen}
    if len(pythons) != 1:
        raise MatrixError(f"selection {name}: its cells are of several Pythons: {', '.join(sorted(pythons))}")
    return Mixed(name, pythons.pop(), tuple(str(cell.constraints) for cell in chosen), tuple(shims), tuple(over or ()))
