"""The pins of a cell or a peer, resolved once by uv for its Python and stored: matrix/constraints/<id>.txt.

What is stored already is kept where it still fits, so resolving again changes only what matrix.toml makes it change.
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
from matrix.links import tell_uv

__all__ = ["lock", "missing", "unknown_index", "wanted"]


def wanted(matrix: Matrix, environment: Environment) -> list[str]:
    """What is installed beside our own wheels, before anything is resolved."""
    if not isinstance(environment, Cell):
        return list(environment.pins)
    # A branch is tested as it is published: with its caps.
    return [*environment.pins, *environment.caps, *map(str, matrix.ranges(environment)), *matrix.tools["test"]]


def missing(matrix: Matrix, environment: Environment) -> list[str]:
    """What the stored pins lack: each is a reason to resolve again."""
    if not environment.constraints.exists():
        elsewhere = isinstance(environment, Cell) and environment.index is not None
        return [] if elsewhere else [f"{environment.constraints.name} is missing"]
    stored = {
        canonicalize_name(pin.name): next(iter(pin.specifier)).version
        for pin in map(Requirement, environment.constraints.read_text(encoding="utf-8").splitlines())
    }
    wrong = []
    for requirement in map(Requirement, wanted(matrix, environment)):
        if requirement.marker and not requirement.marker.evaluate({"python_version": environment.python}):
            continue
        version = stored.get(canonicalize_name(requirement.name))
        if version is None or not requirement.specifier.contains(version):
            wrong.append(f"{requirement} is wanted, {version or 'nothing'} is stored")
    return wrong


def unknown_index(environment: Environment) -> str:
    """Why it cannot be locked here: its pins come from an index that this machine does not name; empty if it can."""
    index = environment.index if isinstance(environment, Cell) else None
    if index is None or index in (each.partition("=")[0] for each in os.environ.get("UV_INDEX", "").split()):
        return ""
    return f"{environment.id}: its pins come from the index {index!r}: name it in the environment, UV_INDEX={index}=<address>"


def lock(matrix: Matrix, environment: Environment) -> None:
    """Resolve, and write the result without the address it came from or a build's local label. A resolution that fails
    leaves what is stored as it is.
    """
    if reason := unknown_index(environment):
        raise MatrixError(reason)
    environment.constraints.parent.mkdir(exist_ok=True)
    tell_uv()
    with tempfile.TemporaryDirectory() as folder:
        output = Path(folder, environment.constraints.name)
        output.write_text("".join(f"{line}\n" for line in _kept(environment)), encoding="utf-8")
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
            done = subprocess.run(
                command, input="\n".join(wanted(matrix, environment)), text=True, stderr=subprocess.PIPE, check=False
            )
        except FileNotFoundError as error:
            raise MatrixError("uv is not on PATH; `pip install uv`, in the environment that is active") from error
        if done.returncode != 0:
            raise MatrixError(f"{environment.id} cannot be resolved:\n{done.stderr}")
        # `torch==2.13.0+cpu` exists in one index only; `torch==2.13.0` accepts it and every other build.
        text = re.sub(r"\+[\w.]+$", "", output.read_text(encoding="utf-8"), flags=re.MULTILINE)
    environment.constraints.write_text(text, encoding="utf-8")


def _kept(environment: Environment) -> list[str]:
    """The stored pins but for those that the cell itself pins: `torch==2.13.0`, kept, would rule out `2.13.0+cpu`."""
    if not environment.constraints.exists():
        return []
    pinned = {canonicalize_name(Requirement(pin).name) for pin in environment.pins}
    lines = environment.constraints.read_text(encoding="utf-8").splitlines()
    return [line for line in lines if canonicalize_name(Requirement(line).name) not in pinned]
