"""Lock files of cells and peers: the pins of all packages, which uv resolves, in matrix/constraints/<id>.txt.

A stored pin is kept if it still meets the requirements, so that a new resolution changes only what matrix.toml
requires.
"""

from __future__ import annotations

import os
import re
import subprocess
import tempfile
from pathlib import Path

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from matrix.data import Cell, Environment, Matrix, MatrixError
from matrix.interpreters import find
from matrix.links import set_uv_find_links

NO_UV = "uv is not on PATH. Run `pip install uv` in the active environment."

__all__ = ["NO_UV", "list_requirements", "lock", "unknown_index", "unmet_requirements"]


def list_requirements(matrix: Matrix, environment: Environment) -> list[str]:
    """Return the requirements from which uv resolves the lock file of an environment.

    The distributions of this repository are not among them.
    """
    if not isinstance(environment, Cell):
        return list(environment.pins)
    # A branch is tested with its caps, as it is published.
    return [*environment.pins, *environment.caps, *map(str, matrix.ranges(environment)), *matrix.tools["test"]]


def unmet_requirements(matrix: Matrix, environment: Environment) -> list[str]:
    """Return a text for each requirement that the lock file of an environment does not meet.

    If the file is missing, return a text that says so. A missing file is accepted for a cell with a package index of
    its own. Empty: the lock file is up to date.
    """
    if not environment.constraints.exists():
        elsewhere = isinstance(environment, Cell) and environment.index is not None
        return [] if elsewhere else [f"{environment.constraints.name} is missing"]
    stored = {
        canonicalize_name(pin.name): next(iter(pin.specifier)).version
        for pin in map(Requirement, environment.constraints.read_text(encoding="utf-8").splitlines())
    }
    problems = []
    for requirement in map(Requirement, list_requirements(matrix, environment)):
        if requirement.marker and not requirement.marker.evaluate({"python_version": environment.python}):
            continue
        version = stored.get(canonicalize_name(requirement.name))
        if version is None or not requirement.specifier.contains(version):
            problems.append(f"{requirement} is wanted, {version or 'nothing'} is stored")
    return problems


def unknown_index(environment: Environment) -> str:
    """Return why the environment cannot be locked on this machine: its package index is not configured.

    "": it can be locked.
    """
    index = environment.index if isinstance(environment, Cell) else None
    if index is None or index in (entry.partition("=")[0] for entry in os.environ.get("UV_INDEX", "").split()):
        return ""
    return f"{environment.id}: its pins come from the index {index!r}. Set UV_INDEX={index}=<address>."


def lock(matrix: Matrix, environment: Environment) -> None:
    """Resolve the pins of an environment with uv, and write its lock file. Versions of the old file stay if they fit.

    The file holds neither the address of the index nor the local label of a build (`+cpu`). Raises MatrixError if the
    resolution fails, uv is missing, or the index of the environment is unknown; the old file stays then.
    """
    if reason := unknown_index(environment):
        raise MatrixError(reason)
    environment.constraints.parent.mkdir(exist_ok=True)
    # A local build for the CPU has none of the packages of CUDA that the lock file of a GPU must pin.
    is_for_gpu = isinstance(environment, Cell) and environment.runner == "gpu"
    if not is_for_gpu:
        set_uv_find_links()
    variables = {name: value for name, value in os.environ.items() if not (is_for_gpu and name == "UV_FIND_LINKS")}
    with tempfile.TemporaryDirectory() as folder:
        output = Path(folder, environment.constraints.name)
        output.write_text("".join(f"{line}\n" for line in _reusable_pins(environment)), encoding="utf-8")
        command = [
            "uv",
            "pip",
            "compile",
            "--quiet",
            "--no-header",
            "--no-annotate",
            f"--exclude-newer={matrix.until}",
            f"--python={find(environment.python)}",
        ]
        command += ["--output-file", str(output), "-"]
        try:
            process = subprocess.run(
                command,
                input="\n".join(list_requirements(matrix, environment)),
                text=True,
                stderr=subprocess.PIPE,
                check=False,
                env=variables,
            )
        except FileNotFoundError as error:
            raise MatrixError(NO_UV) from error
        if process.returncode != 0:
            raise MatrixError(f"{environment.id} cannot be resolved:\n{process.stderr}")
        # `torch==2.13.0+cpu` exists in a single index; `torch==2.13.0` accepts it and every other build.
        text = re.sub(r"\+[\w.]+$", "", output.read_text(encoding="utf-8"), flags=re.MULTILINE)
    environment.constraints.write_text(text, encoding="utf-8")


def _reusable_pins(environment: Environment) -> list[str]:
    """Return the lines of the stored lock file, without packages that the environment pins in matrix.toml.

    A stored `torch==2.13.0` would rule out `2.13.0+cpu`.
    """
    if not environment.constraints.exists():
        return []
    pinned = {canonicalize_name(Requirement(pin).name) for pin in environment.pins}
    lines = environment.constraints.read_text(encoding="utf-8").splitlines()
    return [line for line in lines if canonicalize_name(Requirement(line).name) not in pinned]
