"""tox.ini: a tox environment for each cell, with the installation and the tests of the cell's nox session."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from matrix import cells
from matrix.data import TIERS, Cell, Matrix

__all__ = ["files"]

_HEAD = """\
# Rendered from matrix/matrix.toml by `python -m matrix render`: edit there.
#
# `tox -e <cell>` does the same as `nox -s "cell(<cell>)"`: both install and run what matrix/cells.py defines. `tox list` lists the
# cells; `tox -m gate` runs one for each shim. Sessions of nox make the wheels and the cases; toxfile.py finds Pythons.

[tox]
requires =
{requires}
no_package = true
env_list =
{cells}
labels =
{labels}

[testenv]
# All variables, as in nox: caches, proxies and devices depend on variables of many names.
pass_env = *
allowlist_externals =
    nox
    uv
"""
_CELL = """
[testenv:{id}]
description = {title}
base_python = {python}
commands_pre =
    nox -s wheels suites zoo
    uv pip install {installs}
commands = python -m matrix.cells {id} {{posargs}}
"""


def files(matrix: Matrix, root: Path) -> dict[Path, str]:
    """Return {path of tox.ini: its text}."""
    head = _HEAD.format(
        requires=_lines([*matrix.tools["tox"], *matrix.tools["nox"]]),
        cells=_lines(matrix.cells),
        labels=_lines(f"{tier} = {', '.join(_cells_of_tier(matrix, tier))}" for tier in TIERS),
    )
    return {root / "tox.ini": head + "".join(_cell(matrix, cell) for cell in matrix.cells.values())}


def _cell(matrix: Matrix, cell: Cell) -> str:
    """Return the section of tox.ini for a cell."""
    installs = " ".join(cells.install_arguments(matrix, cell))
    return _CELL.format(id=cell.id, title=cells.title(cell), python=cell.python, installs=installs)


def _cells_of_tier(matrix: Matrix, tier: str) -> list[str]:
    return [cell.id for cell in matrix.cells.values() if cell.tier == tier]


def _lines(items: Iterable[str]) -> str:
    """Return each item as an indented line of a value in tox.ini."""
    return "\n".join(f"    {item}" for item in items)
