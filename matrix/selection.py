"""The environments in which selection is tested: `[selection.*]` of matrix.toml."""

from __future__ import annotations

import sys
from dataclasses import dataclass

from matrix.data import ROOT, Matrix, MatrixError

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

__all__ = ["Mixed", "mixed"]


@dataclass(frozen=True)
class Mixed:
    """What several cells have together, with the wheels of these shims; `over` is put on top, whatever that breaks."""

    name: str
    python: str
    pins: tuple[str, ...]
    """The files with the pins of the cells."""
    shims: tuple[str, ...]
    over: tuple[str, ...]


def mixed(matrix: Matrix) -> list[Mixed]:
    raw = tomllib.loads((ROOT / "matrix" / "matrix.toml").read_text(encoding="utf-8"))
    return [_mixed(matrix, name, **entry) for name, entry in raw["selection"].items()]


def _mixed(matrix: Matrix, name: str, cells: list[str], shims: list[str], over: list[str] | None = None) -> Mixed:
    unknown = [each for each in cells if each not in matrix.cells]
    if unknown:
        raise MatrixError(f"selection {name}: no cell {', '.join(unknown)}")
    found = [matrix.cells[each] for each in cells]
    pythons = {each.python for each in found}
    if len(pythons) != 1:
        raise MatrixError(f"selection {name}: its cells are of several Pythons: {', '.join(sorted(pythons))}")
    return Mixed(name, pythons.pop(), tuple(str(each.constraints) for each in found), tuple(shims), tuple(over or ()))
