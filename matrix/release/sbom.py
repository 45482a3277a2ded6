"""A CycloneDX bill of materials for each distribution: what it resolves to in the cell that proves it, without the test tools."""

from __future__ import annotations

import re
import subprocess
import uuid
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from datetime import datetime, timezone
from pathlib import Path
from typing import NamedTuple

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name
from packaging.version import Version

from matrix.branches import branches, name, projects
from matrix.data import Cell, Distribution, Matrix, MatrixError

__all__ = ["Subject", "bills", "resolved", "subjects", "text"]

WAITING = 8
"""So many at once: they wait for the index."""


class Subject(NamedTuple):
    """A distribution, what of it is installed, and where."""

    name: str
    requirement: str
    cell: Cell


class Pin(NamedTuple):
    """A resolved dependency, and what asks for it."""

    name: str
    version: str
    via: tuple[str, ...]


def subjects(matrix: Matrix) -> Iterator[Subject]:
    """Each distribution of matrix.toml, and each branch with its framework."""
    for distribution in matrix.distributions.values():
        yield Subject(distribution.name, distribution.name, _newest(matrix, distribution))
    published = {project.name: project for project in projects(matrix)}
    for branch, cell in branches(matrix).items():
        project = published[name(matrix, branch)]
        pinned = {canonicalize_name(Requirement(pin).name) for pin in cell.pins}
        brought = [extra for extra, (asked, *_) in project.extras.items() if Requirement(asked).name in pinned]
        yield Subject(project.name, f"{project.name}[{','.join(brought[:1])}]", cell)


def _newest(matrix: Matrix, distribution: Distribution) -> Cell:
    proving = [
        cell
        for cell in reversed(matrix.cells.values())
        if distribution in matrix.closure(cell.shim) and cell.constraints.exists() and cell.runner == "cpu"
    ]
    return max(proving, key=lambda cell: Version(cell.python))  # the first of several, which here is the last written


def bills(matrix: Matrix, packages: Path, made: int) -> dict[str, str]:
    """By the name of its distribution; `made` is the time of the commit."""
    asked = list(subjects(matrix))
    with ThreadPoolExecutor(WAITING) as pool:
        pins = pool.map(lambda subject: resolved(matrix, subject, packages), asked)
        return {subject.name: text(subject, matrix.version, found, made) for subject, found in zip(asked, pins)}


def resolved(matrix: Matrix, subject: Subject, packages: Path) -> list[Pin]:
    """By uv, for the Python of the cell and within its pins, with what was just built."""
    command = ["uv", "pip", "compile", "--quiet", "--no-header", "--annotation-style=line", f"--find-links={packages}"]
    command += [f"--python-version={subject.cell.python}", f"--constraints={subject.cell.constraints}", "-"]
    asked = f"{subject.requirement}=={matrix.version}"
    done = subprocess.run(command, input=asked, capture_output=True, text=True, check=False)
    if done.returncode:
        raise MatrixError(f"{asked} does not resolve in {subject.cell.id}:\n{done.stderr}")
    return [_pin(line) for line in done.stdout.splitlines() if "==" in line]


def _pin(line: str) -> Pin:
    """`click==8.1.8  # via onnx-compat, -r -`."""
    pin, _, via = line.partition("#")
    asked = Requirement(pin.strip())
    askers = [re.sub(r"\[.*\]", "", one.strip()) for one in via.strip().removeprefix("via").split(",")]
    version = next(iter(asked.specifier)).version
    return Pin(asked.name, version, tuple(one for one in askers if one and not one.startswith("-")))


def text(subject: Subject, version: str, pins: list[Pin], made: int) -> str:
    """As JSON; the same for the same, whenever it is made."""
    from cyclonedx.model.bom import Bom
    from cyclonedx.model.component import Component, ComponentType
    from cyclonedx.output.json import JsonV1Dot6
    from cyclonedx.schema import SchemaVersion
    from cyclonedx.validation.json import JsonStrictValidator
    from packageurl import PackageURL

    parts = {
        pin.name: Component(
            name=pin.name,
            version=pin.version,
            type=ComponentType.LIBRARY,
            purl=PackageURL("pypi", None, pin.name, pin.version),
            bom_ref=f"{pin.name}=={pin.version}",
        )
        for pin in pins
    }
    bom = Bom(serial_number=uuid.uuid5(uuid.NAMESPACE_URL, f"pkg:pypi/{subject.name}@{version}"))
    bom.metadata.timestamp = datetime.fromtimestamp(made, timezone.utc)
    bom.metadata.component = parts[subject.name]
    bom.components.update(part for key, part in parts.items() if key != subject.name)
    for key, part in parts.items():
        bom.register_dependency(part, [parts[pin.name] for pin in pins if key in pin.via])
    told = JsonV1Dot6(bom).output_as_string(indent=2)
    if wrong := JsonStrictValidator(SchemaVersion.V1_6).validate_str(told):
        raise MatrixError(f"the bill of {subject.name} is not one: {wrong}")
    return f"{told}\n"
