"""What can be installed on which Python, as a module of the core: what the doctor tells a user to install."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

from packaging.requirements import Requirement
from packaging.version import Version

from matrix.branches import CPU, branches, extras, minor, minors
from matrix.data import Cell, Matrix

__all__ = ["files"]

_HEAD = '''\
"""What installs which shim, on which Python. Rendered from matrix/matrix.toml by `python -m matrix render`: edit there."""

from typing import NamedTuple, Tuple

__all__ = ["OFFERS", "Offer"]


class Offer(NamedTuple):
    """`pip install 'onnx-compat[extra]'`: a shim with its framework; of one minor version, if that is said."""

    extra: str
    shim: str
    framework: str
    minor: str
    pythons: Tuple[str, ...]


OFFERS: Tuple[Offer, ...] = (
'''


def files(matrix: Matrix, root: Path) -> dict[Path, str]:
    offers = [*_plain(matrix), *_exact(matrix)]
    lines = [f"    Offer({', '.join(_text(each) for each in offer)}),\n" for offer in offers]
    return {root / "onnx_compat" / "offers.py": _HEAD + "".join(lines) + ")\n"}


def _text(value: str | tuple[str, ...]) -> str:
    if isinstance(value, str):
        return f'"{value}"'
    return f"({', '.join(_text(each) for each in value)}{',' * (len(value) == 1)})"


def _plain(matrix: Matrix) -> Iterator[tuple[str, str, str, str, tuple[str, ...]]]:
    """The core's own extras, on the Pythons that the branches with their framework prove."""
    proving = branches(matrix)
    for extra, (asked, *_) in matrix.distributions["core"].extras.items():
        own = matrix.own(asked)
        if own is None:
            continue
        (inner,) = Requirement(asked).extras
        if inner in proving:
            cells = [proving[inner]]
            framework = matrix.frameworks(cells[0])[0].name
        else:
            framework = Requirement(own.extras[inner][0]).name
            cells = [each for each in proving.values() if each.shim == own.key and _has(matrix, each, framework)]
        pythons = {python for each in cells for python in minors(str(each.pythons))}
        yield extra, cells[0].shim, framework, "", tuple(sorted(pythons, key=Version))


def _exact(matrix: Matrix) -> Iterator[tuple[str, str, str, str, tuple[str, ...]]]:
    """The branches, under each name of their framework."""
    published = extras(matrix, matrix.distributions["core"])
    for branch, cell in branches(matrix).items():
        pin = matrix.frameworks(cell)[0]
        for extra in [each for each in (branch, branch + CPU) if each in published]:
            framework = re.sub(f"{CPU}$", "", pin.name) + CPU * extra.endswith(CPU)
            if cell.shim == "keras":  # the build of its back end
                framework = pin.name
            yield extra, cell.shim, framework, minor(pin), tuple(minors(str(cell.pythons)))


def _has(matrix: Matrix, cell: Cell, framework: str) -> bool:
    return framework in [re.sub(f"{CPU}$", "", pin.name) for pin in matrix.frameworks(cell)]
