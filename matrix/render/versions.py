"""docs/reference/versions.md: the extras with a version, and the command that installs the exact versions of each cell."""

from __future__ import annotations

from pathlib import Path

from packaging.requirements import Requirement

from matrix.branches import CPU, PROBABILITY, aliases, branch_extras, branches, builds, minors
from matrix.data import Cell, Matrix
from matrix.release.constraints import install_command

__all__ = ["PAGE", "files", "page"]

PAGE = "docs/reference/versions.md"
_HEAD = """\
# Versions

<!-- >>> rendered by `python -m matrix render`: edit matrix/matrix.toml -->
## Extras

`pip install 'onnx-compat[EXTRA]'` installs the newest patch release of these minor versions, and versions of other
packages that work with them. On any other Python, pip finds no version of the framework: [a wrong
Python](../faq.md#installation).

| extra | with `-cpu` | with `-probability` | other name | installs | Python |
| --- | --- | --- | --- | --- | --- |
"""
_EXACT = """
## Exact versions

Each release has a file of constraints for each tested environment. These commands install its versions, on its Python.
"""


def files(matrix: Matrix, root: Path) -> dict[Path, str]:
    """Return {path of the page: its text}."""
    return {root / PAGE: page(matrix)}


def page(matrix: Matrix) -> str:
    """Return the text of docs/reference/versions.md."""
    rows = [_row(matrix, cell) for cell in branches(matrix).values()]
    by_shim: dict[str, list[Cell]] = {}
    for cell in matrix.cells.values():
        if cell.constraints.exists():
            by_shim.setdefault(cell.shim, []).append(cell)
    lines = [*rows, _EXACT]
    for shim, cells in by_shim.items():
        lines += [f"### {shim}", "", "```text", *(_commands(matrix, cell) for cell in cells), "```", ""]
    return _HEAD + "\n".join([*lines, "<!-- <<< rendered -->", ""])


def _row(matrix: Matrix, cell: Cell) -> str:
    """Return the row of a branch in the table of extras. `cell`: the cell that proves the branch."""
    extra, published = str(cell.branch), branch_extras(matrix, cell)
    shown = [f"`{extra}{CPU}`" if extra + CPU in published else "", f"`{extra}{PROBABILITY}`" * bool(cell.probability)]
    names = [alias for alias in aliases(matrix, cell) if not alias.endswith(CPU)]
    shown.append(" ".join(f"`{name}`" for name in names))
    requirements = map(Requirement, builds(matrix, cell)[extra])
    shown.append(", ".join(f"{requirement.name} {requirement.specifier}" for requirement in requirements))
    accepted = minors(str(cell.pythons))
    shown.append(accepted[0] if len(accepted) == 1 else f"{accepted[0]} to {accepted[-1]}")
    return f"| `{extra}` | {' | '.join(shown)} |"


def _commands(matrix: Matrix, cell: Cell) -> str:
    """Return two lines: the id of a cell as a comment, and the command of pip that installs its versions."""
    return f"# {cell.id}\n{install_command(matrix, cell)}"
