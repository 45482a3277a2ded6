"""The module `onnx_compat.discovery.offers`: the extras that can be installed on each Python, for `onnx-compat doctor`."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

from packaging.requirements import Requirement
from packaging.version import Version

from matrix.branches import CPU, PROBABILITY, aliases, branch_extras, branches, extras, minor, minors
from matrix.data import Cell, Matrix

__all__ = ["files"]

_HEAD = '''\
"""Extras that install a shim, by Python. Rendered from matrix/matrix.toml by `python -m matrix render`: edit there."""

from typing import Dict, NamedTuple, Tuple

__all__ = ["ALIASES", "OFFERS", "Offer"]


class Offer(NamedTuple):
    """An extra that installs a shim with its framework: `pip install 'onnx-compat[<extra>]'`.

    `minor`: the minor version of the framework, or "" if the extra allows every version. `pythons`: the versions of
    Python for which the extra exists.
    """

    extra: str
    shim: str
    framework: str
    minor: str
    pythons: Tuple[str, ...]


OFFERS: Tuple[Offer, ...] = (
'''
_ALIASES = """
#: Another name of an extra -> the name in `OFFERS` of the extra that decides on which Pythons it can be installed.
ALIASES: Dict[str, str] = {
"""


def files(matrix: Matrix, root: Path) -> dict[Path, str]:
    """Return {path of the module `onnx_compat.discovery.offers`: its text}."""
    offers = [*_general_offers(matrix), *_branch_offers(matrix)]
    lines = [f"    Offer({', '.join(_format_value(field) for field in offer)}),\n" for offer in offers]
    names = [f'    "{alias}": "{extra}",\n' for alias, extra in _aliases(matrix).items()]
    text = "".join([_HEAD, *lines, ")\n", _ALIASES, *names, "}\n"])
    return {root / "onnx_compat" / "discovery" / "offers.py": text}


def _format_value(value: str | tuple[str, ...]) -> str:
    """Return the source of a text, or of a tuple of texts."""
    if isinstance(value, str):
        return f'"{value}"'
    return f"({', '.join(_format_value(item) for item in value)}{',' * (len(value) == 1)})"


def _general_offers(matrix: Matrix) -> Iterator[tuple[str, str, str, str, tuple[str, ...]]]:
    """Yield the fields of an offer for each extra that allows every version of its framework.

    Its Pythons are those of all branches of that framework.
    """
    proving = branches(matrix)
    for extra, (requirements, *_) in matrix.distributions["core"].extras.items():
        own = matrix.own(requirements)
        if own is None:
            continue
        (inner,) = Requirement(requirements).extras
        if inner in proving:
            cells = [proving[inner]]
            framework = matrix.frameworks(cells[0])[0].name
        else:
            framework = Requirement(own.extras[inner][0]).name
            cells = [
                cell for cell in proving.values() if cell.shim == own.key and _has_framework(matrix, cell, framework)
            ]
        pythons = {python for cell in cells for python in minors(str(cell.pythons))}
        yield extra, cells[0].shim, framework, "", tuple(sorted(pythons, key=Version))


def _branch_offers(matrix: Matrix) -> Iterator[tuple[str, str, str, str, tuple[str, ...]]]:
    """Yield the fields of an offer for each extra of a branch.

    A branch has two extras if its framework has a `-cpu` build.
    """
    published = extras(matrix, matrix.distributions["core"])
    for branch, cell in branches(matrix).items():
        pin = matrix.frameworks(cell)[0]
        for extra in [name for name in (branch, branch + CPU) if name in published]:
            framework = re.sub(f"{CPU}$", "", pin.name) + CPU * extra.endswith(CPU)
            if cell.shim == "keras":  # the pinned build of its back end has no other name
                framework = pin.name
            yield extra, cell.shim, framework, minor(pin), tuple(minors(str(cell.pythons)))


def _aliases(matrix: Matrix) -> dict[str, str]:
    """Return another name of an extra -> the name in `OFFERS` of the extra that decides on its Pythons.

    These are the aliases of branches, and the extras with tensorflow-probability.
    """
    names: dict[str, str] = {}
    for cell in branches(matrix).values():
        names.update({extra: extra for extra in branch_extras(matrix, cell)}, **aliases(matrix, cell))
    offered = {alias: extra.removesuffix(PROBABILITY) for alias, extra in names.items()}
    return {alias: extra for alias, extra in offered.items() if alias != extra}


def _has_framework(matrix: Matrix, cell: Cell, framework: str) -> bool:
    """Whether a cell pins a framework or its build without GPU support."""
    return framework in [re.sub(f"{CPU}$", "", pin.name) for pin in matrix.frameworks(cell)]
