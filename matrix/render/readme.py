"""The table of supported versions in the README, with the extras that install them, and the addresses of its links.

The page of the package index shows the README without the files beside it, so a link needs an absolute address. In the
text a link has the path of a file as its label, such as `[The matrix][docs/matrix.md]`; the addresses of the labels follow
from `[metadata]`.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any, NamedTuple

from packaging.requirements import Requirement
from packaging.version import Version

from matrix.branches import CPU
from matrix.data import CORE_SHIMS, REFERENCE, Cell, Matrix
from matrix.render.text import replace, replace_in
from matrix.results import FOUND, OUTCOMES, load_results

__all__ = ["BEGIN", "END", "LINKS", "addresses", "files", "table"]

BEGIN = "<!-- >>> rendered by `python -m matrix render`: edit matrix/matrix.toml -->"
END = "<!-- <<< rendered -->"
_BLOCK = re.compile(f"^{re.escape(BEGIN)}$.*?^{re.escape(END)}$", re.DOTALL | re.MULTILINE)
LINKS = "<!-- >>> rendered by `python -m matrix render`: the addresses of the labels above -->"
_LINKS = re.compile(f"^{re.escape(LINKS)}$.*?^{re.escape(END)}$", re.DOTALL | re.MULTILINE)
_LABEL = re.compile(r"(!?)\[[^\[\]]*\]\[([^\[\]]+)\]")
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
    "onnx": "onnxruntime",
}
_ON = ("keras",)
"""The shims whose framework runs on another framework, so that they have a row for each of these."""


class Row(NamedTuple):
    """A row of the table: the cells of a shim.

    `framework`: the framework below it, if the shim has a row for each; else "".
    """

    shim: str
    framework: str


def files(matrix: Matrix, root: Path) -> dict[Path, str]:
    """Return {path of README.md: its text with the rendered table and addresses}."""
    path = root / "README.md"
    text = replace(_BLOCK, "\n".join([BEGIN, *table(matrix, load_results()), END]), path)
    return {path: replace_in(_LINKS, "\n".join([LINKS, *addresses(matrix, text), END]), text, path)}


def addresses(matrix: Matrix, text: str) -> list[str]:
    """Return a line `[label]: address` for each label in a text. The label is the path of a file in the repository.

    The address is that of the page of the file; for a picture, that of its bytes.
    """
    metadata = matrix.metadata
    labels = dict.fromkeys((label, bool(mark)) for mark, label in _LABEL.findall(text))
    return [f"[{label}]: {metadata.raw if is_picture else metadata.blob}{label}" for label, is_picture in labels]


def table(matrix: Matrix, results: dict[str, Any]) -> list[str]:
    """Return the lines of the Markdown table of the README: a row for each shim, or for each framework of a shim with
    several.

    `results`: cell -> stored results. The last column is the share of the recorded cases that pass in the framework
    alone; it leaves out cells without results.
    """
    rows: dict[Row, list[Cell]] = {}
    for cell in matrix.cells.values():
        rows.setdefault(_row(matrix, cell), []).append(cell)
    lines = [_HEAD, "| --- | --- | --- | --- | --- | --- |"]
    for row, cells in rows.items():
        # The first pin of a cell is its framework.
        versions = _format_span([next(iter(Requirement(cell.pins[0]).specifier)).version for cell in cells])
        pythons = _format_span([cell.python for cell in cells])
        share = _format_share([results[cell.id] for cell in cells if cell.id in results])
        lines.append(
            f"| {_format_title(row)} | {versions} | {pythons} | {_install(matrix, row, cells)} | {len(cells)} | {share} |"
        )
    return lines


def _row(matrix: Matrix, cell: Cell) -> Row:
    """Return the row of a cell: that of its shim and, if the shim has several frameworks, of the framework that it
    pins.
    """
    if cell.shim in CORE_SHIMS:
        return Row(cell.shim, "")
    offered = {_plain_name(extra[0]) for extra in matrix.distributions[cell.shim].extras.values()}
    if len(offered) == 1:
        return Row(cell.shim, "")  # also for a vendor's build under another name
    return Row(
        cell.shim, next(_plain_name(str(pin)) for pin in matrix.frameworks(cell) if _plain_name(pin.name) in offered)
    )


def _plain_name(requirement: str) -> str:
    """Return the name of the package that a requirement is on, without `-cpu`."""
    return Requirement(requirement).name.removesuffix(CPU)


def _format_title(row: Row) -> str:
    """Return the text of the first column of a row: `Keras 3 on JAX`."""
    shim, framework = (_NAMES.get(name, name) for name in row)
    return f"{shim} on {framework}" if row.shim in _ON else framework or shim


def _format_span(versions: list[str]) -> str:
    """Return the oldest and the newest of these versions as text: `2.8 to 2.21`, or the only version."""
    oldest, newest = min(versions, key=Version), max(versions, key=Version)
    return oldest if oldest == newest else f"{Version(oldest).public} to {Version(newest).public}"


def _install(matrix: Matrix, row: Row, cells: list[Cell]) -> str:
    """Return the extras that install the frameworks of a row, as text: those for every version, then the oldest and the
    newest branch.

    "by itself": no extra is needed.
    """
    branches = [cell.branch for cell in cells if cell.branch]
    of_versions = " to ".join(f"`[{branch}]`" for branch in (branches[0], branches[-1])) if branches else ""
    general = [
        f"`[{extra}]`"
        for extra, requirements in matrix.distributions["core"].extras.items()
        if _installs_row(matrix, requirements[0], row)
    ]
    return ", ".join(filter(None, [*general, of_versions])) or "by itself"


def _installs_row(matrix: Matrix, requirement: str, row: Row) -> bool:
    """Whether a requirement installs the framework of a row. It does so in one of these ways:

    - It has an extra that is the branch of one of the row's cells.
    - It has an extra of the row's shim that brings the row's framework.
    - It is the package itself of a framework whose shim is in the core.
    """
    own = matrix.own(requirement)
    if own is None:
        return row.shim in CORE_SHIMS and _plain_name(requirement) == _NAMES[row.shim]
    for extra in Requirement(requirement).extras:
        proving = [_row(matrix, cell) for cell in matrix.cells.values() if cell.branch == extra]
        if row in proving or (own.key == row.shim and row.framework in ("", _plain_name(own.extras[extra][0]))):
            return True
    return False


def _format_share(results: list[dict[str, Any]]) -> str:
    """Return the share of recorded cases that pass in the framework alone, such as `99.1 %`; "-" without cases.

    `results`: the stored results of each cell of a row. Void cases are not counted.
    """
    rows = [dict(zip(FOUND, row)) for cell_results in results for row in cell_results.get("opsets", {}).values()]
    total = sum(row[outcome] for row in rows for outcome in OUTCOMES)
    # Rounded down: 100 % means all cases.
    return f"{int(1000 * sum(row['pass'] for row in rows) / total) / 10} %" if total else "-"
