"""The table of the README: what is supported, from which version to which, and how to install it."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any, NamedTuple

from packaging.requirements import Requirement
from packaging.version import Version

from matrix.branches import CPU
from matrix.data import REFERENCE, Cell, Matrix
from matrix.render.text import replace
from matrix.results import FOUND, OUTCOMES, stored

__all__ = ["BEGIN", "END", "files", "table"]

BEGIN = "<!-- >>> rendered by `python -m matrix render`: edit matrix/matrix.toml -->"
END = "<!-- <<< rendered -->"
_BLOCK = re.compile(f"^{re.escape(BEGIN)}$.*?^{re.escape(END)}$", re.DOTALL | re.MULTILINE)
_HEAD = "| on | versions | Python | `pip install onnx-compat` | cells | cases in it |"
_NAMES = {
    "tf1": "TensorFlow 1",
    "tf2": "TensorFlow 2",
    "keras": "Keras 3",
    "tensorflow": "TensorFlow",
    "tflite-runtime": "TensorFlow Lite",
    "ai-edge-litert": "LiteRT",
    "jax": "JAX",
    "torch": "PyTorch",
    REFERENCE: "numpy, with onnx",
}
_ON = ("keras",)
"""One framework on top of another."""


class Row(NamedTuple):
    """Cells of one shim; where it has several frameworks, on one of them."""

    shim: str
    framework: str


def files(matrix: Matrix, root: Path) -> dict[Path, str]:
    text = "\n".join([BEGIN, *table(matrix, stored()), END])
    return {root / "README.md": replace(_BLOCK, text, root / "README.md")}


def table(matrix: Matrix, found: dict[str, Any]) -> list[str]:
    """Of cells of which nothing is stored, no share."""
    rows: dict[Row, list[Cell]] = {}
    for cell in matrix.cells.values():
        rows.setdefault(_row(matrix, cell), []).append(cell)
    lines = [_HEAD, "| --- | --- | --- | --- | --- | --- |"]
    for row, cells in rows.items():
        # The first pin of a cell is what it is about.
        versions = _span([next(iter(Requirement(cell.pins[0]).specifier)).version for cell in cells])
        pythons = _span([cell.python for cell in cells])
        share = _share([found[cell.id] for cell in cells if cell.id in found])
        lines.append(
            f"| {_title(row)} | {versions} | {pythons} | {_install(matrix, row, cells)} | {len(cells)} | {share} |"
        )
    return lines


def _row(matrix: Matrix, cell: Cell) -> Row:
    if cell.shim == REFERENCE:
        return Row(cell.shim, "")
    offered = {_plain(extra[0]) for extra in matrix.distributions[cell.shim].extras.values()}
    if len(offered) == 1:
        return Row(cell.shim, "")  # also for what a vendor builds under another name
    return Row(cell.shim, next(_plain(str(pin)) for pin in matrix.frameworks(cell) if _plain(pin.name) in offered))


def _plain(requirement: str) -> str:
    return Requirement(requirement).name.removesuffix(CPU)


def _title(row: Row) -> str:
    shim, framework = (_NAMES.get(name, name) for name in row)
    return f"{shim} on {framework}" if row.shim in _ON else framework or shim


def _span(versions: list[str]) -> str:
    oldest, newest = min(versions, key=Version), max(versions, key=Version)
    return oldest if oldest == newest else f"{Version(oldest).public} to {Version(newest).public}"


def _install(matrix: Matrix, row: Row, cells: list[Cell]) -> str:
    """The extra without a version, and those of one minor version each, from the oldest to the newest."""
    branches = [cell.branch for cell in cells if cell.branch]
    exact = " to ".join(f"`[{each}]`" for each in (branches[0], branches[-1])) if branches else ""
    wide = [
        f"`[{extra}]`" for extra, asked in matrix.distributions["core"].extras.items() if _brings(matrix, asked[0], row)
    ]
    return ", ".join(filter(None, [*wide, exact])) or "by itself"


def _brings(matrix: Matrix, asked: str, row: Row) -> bool:
    """Whether a requirement is one for the framework of this row: as an extra of its shim, or as a branch."""
    own = matrix.own(asked)
    if own is None:
        return False
    for extra in Requirement(asked).extras:
        proving = [_row(matrix, cell) for cell in matrix.cells.values() if cell.branch == extra]
        if row in proving or (own.key == row.shim and row.framework in ("", _plain(own.extras[extra][0]))):
            return True
    return False


def _share(found: list[dict[str, Any]]) -> str:
    """Of the cases as they were recorded, but for those that were recorded wrong: what runs in the framework alone."""
    rows = [dict(zip(FOUND, row)) for each in found for row in each.get("opsets", {}).values()]
    total = sum(row[outcome] for row in rows for outcome in OUTCOMES)
    # Not rounded up: 100 % is all of them.
    return f"{int(1000 * sum(row['pass'] for row in rows) / total) / 10} %" if total else "-"
