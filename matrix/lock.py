"""The pins of a cell, resolved once by uv for its Python and stored: matrix/constraints/<cell>.txt.

What is stored already is kept where it still fits, so resolving again changes only what matrix.toml makes it change.
"""

from __future__ import annotations

import re
import subprocess

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from matrix.data import Cell, Matrix, MatrixError
from matrix.interpreters import find

__all__ = ["lock", "missing", "wanted"]


def wanted(matrix: Matrix, cell: Cell) -> list[str]:
    """What a cell installs beside our own wheels, before anything is resolved."""
    return [*cell.pins, *map(str, matrix.ranges(cell)), *matrix.tools["test"]]


def missing(matrix: Matrix, cell: Cell) -> list[str]:
    """What the stored pins lack: each is a reason to resolve again."""
    if not cell.constraints.exists():
        return [f"{cell.constraints.name} is missing"]
    stored = {
        canonicalize_name(pin.name): next(iter(pin.specifier)).version
        for pin in map(Requirement, cell.constraints.read_text(encoding="utf-8").splitlines())
    }
    wrong = []
    for requirement in map(Requirement, wanted(matrix, cell)):
        if requirement.marker and not requirement.marker.evaluate({"python_version": cell.python}):
            continue
        version = stored.get(canonicalize_name(requirement.name))
        if version is None or not requirement.specifier.contains(version):
            wrong.append(f"{requirement} is wanted, {version or 'nothing'} is stored")
    return wrong


def lock(matrix: Matrix, cell: Cell) -> None:
    """Resolve, and write the result without the address it came from or a build's local label."""
    cell.constraints.parent.mkdir(exist_ok=True)
    command = ["uv", "pip", "compile", "--quiet", "--no-header", "--no-annotate", "--python", find(cell.python)]
    command += ["--output-file", str(cell.constraints), "-"]
    done = subprocess.run(
        command, input="\n".join(wanted(matrix, cell)), text=True, stderr=subprocess.PIPE, check=False
    )
    if done.returncode != 0:
        raise MatrixError(f"{cell.id} cannot be resolved:\n{done.stderr}")
    text = cell.constraints.read_text(encoding="utf-8")
    # `torch==2.13.0+cpu` exists in one index only; `torch==2.13.0` accepts it and every other build.
    cell.constraints.write_text(re.sub(r"\+[\w.]+$", "", text, flags=re.MULTILINE), encoding="utf-8")
