"""CycloneDX bill of materials (SBOM) for each distribution and branch: all packages that its installation resolves to."""

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
from packaging.version import Version

from matrix.branches import branches
from matrix.data import Cell, Distribution, Matrix, MatrixError
from matrix.release.constraints import pinned_build

__all__ = ["BillOwner", "bill_owners", "bills", "resolve", "text"]

WAITING = 8
"""The number of resolutions at once. They wait for the package index, not for the processor."""


class BillOwner(NamedTuple):
    """A distribution or a branch that has a bill of materials.

    - title: the name of the bill
    - name, requirement: the distribution, and the requirement that installs it
    - cell: the cell within whose pins the requirement is resolved
    """

    title: str
    name: str
    requirement: str
    cell: Cell


class Pin(NamedTuple):
    """A resolved package. `via`: the packages that depend on it."""

    name: str
    version: str
    via: tuple[str, ...]


def bill_owners(matrix: Matrix) -> Iterator[BillOwner]:
    """Yield each distribution of matrix.toml, then each branch with the build that its cell pins."""
    for distribution in matrix.distributions.values():
        yield BillOwner(distribution.name, distribution.name, distribution.name, _newest_cell(matrix, distribution))
    core, shims = matrix.distributions["core"].name, matrix.distributions
    for branch, cell in branches(matrix).items():
        name = shims[cell.shim].name
        yield BillOwner(f"{core}-{branch}", name, f"{name}[{pinned_build(matrix, cell)}]", cell)


def _newest_cell(matrix: Matrix, distribution: Distribution) -> Cell:
    """Return the cell with the newest Python that installs a distribution.

    Cells without a lock file, and cells that need a GPU, do not count.
    """
    proving = [
        cell
        for cell in reversed(matrix.cells.values())
        if distribution in matrix.closure(cell.shim) and cell.constraints.exists() and cell.runner == "cpu"
    ]
    return max(proving, key=lambda cell: Version(cell.python))  # of equal Pythons, the cell that is written last


def bills(matrix: Matrix, packages: Path, commit_time: int) -> dict[str, str]:
    """Return title -> bill of materials as JSON text, for each distribution and each branch.

    `packages`: the folder of the built distributions. `commit_time`: the time that the bills state, in seconds since
    1970. Raise a MatrixError if uv cannot resolve a requirement.
    """
    chosen = list(bill_owners(matrix))
    with ThreadPoolExecutor(WAITING) as pool:
        pins = pool.map(lambda owner: resolve(matrix, owner, packages), chosen)
        return {
            owner.title: text(owner, matrix.version, owner_pins, commit_time) for owner, owner_pins in zip(chosen, pins)
        }


def resolve(matrix: Matrix, owner: BillOwner, packages: Path) -> list[Pin]:
    """Return the packages that the requirement of an owner resolves to, on the Python of its cell and within the pins
    of that cell.

    The distributions of this repository come from the folder `packages`. Raise a MatrixError if uv cannot resolve it.
    """
    command = ["uv", "pip", "compile", "--quiet", "--no-header", "--annotation-style=line", f"--find-links={packages}"]
    command += [f"--python-version={owner.cell.python}", f"--constraints={owner.cell.constraints}", "-"]
    requirement = f"{owner.requirement}=={matrix.version}"
    process = subprocess.run(command, input=requirement, capture_output=True, text=True, check=False)
    if process.returncode:
        raise MatrixError(f"{requirement} does not resolve in {owner.cell.id}:\n{process.stderr}")
    return [_parse_line(line) for line in process.stdout.splitlines() if "==" in line]


def _parse_line(line: str) -> Pin:
    """Parse a line of uv's output, such as `click==8.1.8 # via onnx-compat, -r -`."""
    pin, _, via = line.partition("#")
    requirement = Requirement(pin.strip())
    dependents = [re.sub(r"\[.*\]", "", entry.strip()) for entry in via.strip().removeprefix("via").split(",")]
    version = next(iter(requirement.specifier)).version
    return Pin(
        requirement.name,
        version,
        tuple(dependent for dependent in dependents if dependent and not dependent.startswith("-")),
    )


def text(owner: BillOwner, version: str, pins: list[Pin], commit_time: int) -> str:
    """Return the bill of materials as JSON. The same arguments give the same text.

    `pins`: the resolved packages, that of the owner included. `commit_time`: the time that the bill states, in seconds
    since 1970. Raise MatrixError if the schema refuses the bill.
    """
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
    bom = Bom(serial_number=uuid.uuid5(uuid.NAMESPACE_URL, f"pkg:pypi/{owner.title}@{version}"))
    bom.metadata.timestamp = datetime.fromtimestamp(commit_time, timezone.utc)
    bom.metadata.component = parts[owner.name]
    bom.components.update(part for key, part in parts.items() if key != owner.name)
    for key, part in parts.items():
        bom.register_dependency(part, [parts[pin.name] for pin in pins if key in pin.via])
    document = JsonV1Dot6(bom).output_as_string(indent=2)
    if errors := JsonStrictValidator(SchemaVersion.V1_6).validate_str(document):
        raise MatrixError(f"The bill of {owner.title} does not follow the CycloneDX schema: {errors}")
    return f"{document}\n"
