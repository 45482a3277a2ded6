"""Constraints: the exact versions of all packages of a cell, as a file beside each release, for `pip install -c`."""

from __future__ import annotations

from pathlib import Path

from packaging.requirements import Requirement

from matrix.branches import CPU, PROBABILITY, TFP, branch_extras, branch_of
from matrix.data import CORE_SHIMS, REFERENCE, Cell, Matrix

__all__ = ["files", "install_command", "pinned_build"]

BESIDE = ("numpy", "onnx", "onnxruntime", "protobuf")
"""Packages that a cell pins beside its framework. They are dependencies, or the oracle of the tests."""


def files(matrix: Matrix) -> dict[str, Path]:
    """Return name of the file beside a release -> path of the lock file, for each cell that has a lock file."""
    return {_file_name(cell): cell.constraints for cell in matrix.cells.values() if cell.constraints.exists()}


def install_command(matrix: Matrix, cell: Cell) -> str:
    """Return the command of pip that installs the versions of a cell, from the index and the file beside the release."""
    requirements = " ".join(f"'{requirement}'" for requirement in _requirements(matrix, cell))
    return f"pip install {requirements} -c {matrix.metadata.asset(matrix.version, _file_name(cell))}"


def pinned_build(matrix: Matrix, cell: Cell) -> str | None:
    """Return the extra that installs the framework of a cell in the build that the cell pins, such as `tf2-8-cpu`.

    None: no branch has this framework.
    """
    proving = branch_of(matrix, cell)
    if proving is None:
        return None
    names = {pin.name for pin in map(Requirement, cell.pins)}
    extra = str(proving.branch) + CPU * any(name.endswith(CPU) for name in names) + PROBABILITY * (TFP in names)
    return extra if extra in branch_extras(matrix, proving) else proving.branch


def _requirements(matrix: Matrix, cell: Cell) -> list[str]:
    """Return the requirements to install with the constraints of a cell: an extra of the core, and packages that it
    lacks.

    If no branch has the frameworks of the cell, the distribution of its shim replaces the extra.
    """
    core = matrix.distributions["core"].name
    if cell.shim == REFERENCE:
        return [f"{core}=={matrix.version}"]
    if cell.shim in CORE_SHIMS:
        return [f"{core}[onnxruntime]=={matrix.version}"]
    extra, proving = pinned_build(matrix, cell), branch_of(matrix, cell)
    if extra is None or proving is None:
        ours, brought = f"{matrix.distributions[cell.shim].name}=={matrix.version}", set()
    else:
        ours = f"{core}[{extra}]=={matrix.version}"
        brought = {Requirement(requirement).name for requirement in branch_extras(matrix, proving)[extra]}
    pins = [] if cell.branch else map(Requirement, cell.pins)
    # An extra of a framework, such as `tensorflow[and-cuda]`, is in no branch.
    other_pins = [pin for pin in pins if pin.name not in BESIDE and (pin.extras or pin.name not in brought)]
    return [ours, *(f"{pin.name}[{','.join(sorted(pin.extras))}]" if pin.extras else pin.name for pin in other_pins)]


def _file_name(cell: Cell) -> str:
    return f"constraints-{cell.id}.txt"
