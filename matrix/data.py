"""matrix.toml as typed, validated data: the distributions of this repository and the cells that they are tested in."""

from __future__ import annotations

import sys
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path
from typing import Any

from packaging.requirements import Requirement
from packaging.specifiers import SpecifierSet
from packaging.utils import canonicalize_name
from packaging.version import Version

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

__all__ = ["CI", "ROOT", "Cell", "Distribution", "Environment", "Matrix", "MatrixError", "Peer", "load"]

ROOT = Path(__file__).resolve().parent.parent
TIERS = ("gate", "nightly", "manual")
RUNNERS = ("cpu", "gpu")
RELEASES = ("all", "newest")
REFERENCE = "reference"
"""The shim inside the core: it has cells, but no distribution of its own."""


class MatrixError(Exception):
    """An entry of matrix.toml contradicts itself or another; the text says which."""


@dataclass(frozen=True)
class Distribution:
    """One wheel of this repository, `requires` and `extras` as written: not yet pinned to the common version."""

    key: str
    name: str
    path: str
    requires: tuple[str, ...]
    extras: dict[str, tuple[str, ...]] = field(default_factory=dict)
    below: str | None = None

    @property
    def package(self) -> str:
        return self.name.replace("-", "_")

    @property
    def root(self) -> Path:
        return ROOT / self.path


@dataclass(frozen=True)
class Environment:
    """One Python with exact pins."""

    id: str
    python: str
    pins: tuple[str, ...]

    @property
    def constraints(self) -> Path:
        return ROOT / "matrix" / "constraints" / f"{self.id}.txt"


@dataclass(frozen=True)
class Peer(Environment):
    """Another project that ours is measured against: a row of the scoreboard, `peer-<id>` (see matrix/peers)."""

    project: str
    releases: tuple[str, ...]
    """Of onnx, whose cases it is measured on; none for one that reads no ONNX, which `nox -s bench` alone has."""
    options: dict[str, Any] = field(default_factory=dict)
    bench: bool = False


@dataclass(frozen=True)
class Cell(Environment):
    """One real environment of ours: a shim on one version of its framework."""

    shim: str
    branch: str | None = None
    pythons: str | None = None
    caps: tuple[str, ...] = ()
    probability: tuple[str, ...] = ()
    tier: str = "nightly"
    runner: str = "cpu"
    index: str | None = None
    env: dict[str, str] = field(default_factory=dict)
    releases: str = "newest"
    variants: tuple[str, ...] = ("recorded",)

    @property
    def tags(self) -> list[str]:
        """What `nox -t` selects cells by."""
        return [self.tier, self.shim, self.runner]


@dataclass(frozen=True)
class CI:
    """The CI service: the Python of nox, the sessions that run by night beside the cells, the machines of each runner, those
    that alone have a Python, actions by our names.
    """

    python: str
    whole: list[str]
    runners: dict[str, list[str]]
    images: dict[str, list[str]]
    actions: dict[str, str]


@dataclass(frozen=True)
class Matrix:
    version: str
    until: str
    suites: tuple[str, ...]
    suites_generated: tuple[str, ...]
    suites_python: str
    releases: dict[str, int]
    """Of onnx, the oldest first, with the newest opset of each: what the recorded suites come from."""
    tools: dict[str, tuple[str, ...]]
    distributions: dict[str, Distribution]
    cells: dict[str, Cell]
    peers: dict[str, Peer]
    benched: tuple[Cell, ...]
    ci: CI

    @property
    def newest_onnx(self) -> str:
        """As a requirement."""
        return f"onnx=={list(self.releases)[-1]}"

    @property
    def environments(self) -> dict[str, Environment]:
        """All that has pins to resolve."""
        return {**self.cells, **self.peers}

    def closure(self, shim: str) -> list[Distribution]:
        """The distributions that a cell of this shim installs: its own, and those of this repository below it."""
        found: dict[str, Distribution] = {}
        key = "core" if shim == REFERENCE else shim
        if key not in self.distributions:
            raise MatrixError(f"no distribution for shim {shim!r}")
        waiting = [self.distributions[key]]
        while waiting:
            distribution = waiting.pop()
            if distribution.key not in found:
                found[distribution.key] = distribution
                waiting += [own for own in map(self.own, distribution.requires) if own]
        return list(found.values())

    def own(self, requirement: str) -> Distribution | None:
        """The distribution of this repository that a requirement names."""
        name = _name(requirement)
        return next((each for each in self.distributions.values() if each.name == name), None)

    def floor(self, distribution: Distribution) -> str:
        """The oldest Python of a cell that installs it: no claim that no cell proves."""
        shims = {shim for shim in {cell.shim for cell in self.cells.values()} if distribution in self.closure(shim)}
        pythons = [cell.python for cell in self.cells.values() if cell.shim in shims]
        if not pythons:
            raise MatrixError(f"no cell installs {distribution.name}: its Requires-Python is unknown")
        return min(pythons, key=Version)

    def requires_python(self, distribution: Distribution) -> str:
        floor = f">={self.floor(distribution)}"
        return f"{floor},<{distribution.below}" if distribution.below else floor

    def ranges(self, cell: Cell) -> list[Requirement]:
        """What the distributions of a cell ask of others: always, and by the extras whose framework the cell pins."""
        pins = set(map(_name, cell.pins))
        asked: list[str] = []
        for distribution in self.closure(cell.shim):
            asked += distribution.requires
            for extra in distribution.extras.values():
                asked += extra if _name(extra[0]) in pins else ()
        return [Requirement(each) for each in asked if not self.own(each)]

    def frameworks(self, cell: Cell) -> list[Requirement]:
        """What of a cell's pins is a framework: what an extra of its shim starts with, and what the shim is named after."""
        if cell.shim not in self.distributions:
            return []
        names = {cell.shim, *(_name(extra[0]) for extra in self.distributions[cell.shim].extras.values())}
        return [pin for pin in map(Requirement, cell.pins) if canonicalize_name(pin.name) in names]

    def pinned(self, requirement: str) -> str:
        """A requirement as it is published: what is our own, at exactly the common version."""
        return f"{requirement}=={self.version}" if self.own(requirement) else requirement


@lru_cache(maxsize=4096)
def _name(requirement: str) -> str:
    return canonicalize_name(Requirement(requirement).name)


def load(path: Path = ROOT / "matrix" / "matrix.toml") -> Matrix:
    raw = tomllib.loads(path.read_text(encoding="utf-8"))
    try:
        cells = {id_: Cell(id=id_, **_frozen(entry)) for id_, entry in raw["cells"].items()}
        matrix = Matrix(
            version=raw["version"],
            until=raw["until"],
            suites=tuple(raw["suites"]["names"]),
            suites_generated=tuple(raw["suites"]["generated"]),
            suites_python=raw["suites"]["python"],
            releases=_releases(raw["suites"]["releases"]),
            tools={name: tuple(tools) for name, tools in raw["tools"].items()},
            distributions={key: _distribution(key, **entry) for key, entry in raw["distributions"].items()},
            cells=cells,
            benched=tuple(cells[id_] for id_ in raw["bench"]["cells"]),
            peers={id_: _peer(id_, entry, list(raw["suites"]["releases"])[-1]) for id_, entry in raw["peers"].items()},
            ci=CI(**raw["ci"]),
        )
    except (KeyError, TypeError) as error:
        raise MatrixError(f"{path.name}: {error}") from error
    _validate(matrix)
    return matrix


def _releases(told: dict[str, int]) -> dict[str, int]:
    if list(told) != sorted(told, key=Version) or sorted(set(told.values())) != list(told.values()):
        raise MatrixError("the releases of the suites must be in order, each with a newer opset than the one before")
    return told


def _distribution(
    key: str, requires: list[str], extras: dict[str, list[str]] | None = None, **rest: Any
) -> Distribution:
    named = {name: tuple(requirements) for name, requirements in (extras or {}).items()}
    return Distribution(key=key, requires=tuple(requires), extras=named, **rest)


def _peer(id: str, entry: dict[str, Any], newest: str) -> Peer:
    return Peer(id=id, **_frozen({"project": id, "releases": [newest], **entry}))


def _frozen(entry: dict[str, Any]) -> dict[str, Any]:
    return {name: tuple(value) if isinstance(value, list) else value for name, value in entry.items()}


def _validate(matrix: Matrix) -> None:
    from matrix.branches import problems_of_branch  # they are built on what is defined here

    wrong = [
        f"cell {cell.id}: {problem}"
        for cell in matrix.cells.values()
        for problem in [*_problems(matrix, cell), *problems_of_branch(matrix, cell)]
    ]
    wrong += [
        f"runner {runner}: [ci.runners] does not name its machines"
        for runner in RUNNERS
        if runner not in matrix.ci.runners
    ]
    if wrong:
        raise MatrixError("\n".join(wrong))


def _problems(matrix: Matrix, cell: Cell) -> list[str]:
    wrong = []
    if not cell.id.startswith(f"{cell.shim}-") or not cell.id.endswith(f"-py{cell.python.replace('.', '')}"):
        wrong.append(f"the name must be {cell.shim}-<framework and version>-py{cell.python.replace('.', '')}")
    if cell.tier not in TIERS:
        wrong.append(f"tier {cell.tier!r} is none of {', '.join(TIERS)}")
    if cell.runner not in RUNNERS:
        wrong.append(f"runner {cell.runner!r} is none of {', '.join(RUNNERS)}")
    if cell.releases not in RELEASES:
        wrong.append(f"releases {cell.releases!r} is none of {', '.join(RELEASES)}")
    pins = {canonicalize_name(pin.name): pin for pin in map(Requirement, cell.pins)}
    for pin in pins.values():
        if [each.operator for each in pin.specifier] != ["=="]:
            wrong.append(f"{pin} is not an exact pin")
    for distribution in matrix.closure(cell.shim):
        if not SpecifierSet(matrix.requires_python(distribution)).contains(f"{cell.python}.99"):
            wrong.append(f"{distribution.name} refuses Python {cell.python}")
    # What is tested must be what can be installed.
    for wanted in matrix.ranges(cell):
        pinned = pins.get(canonicalize_name(wanted.name))
        if pinned is not None and not wanted.specifier.contains(next(iter(pinned.specifier)).version):
            wrong.append(f"{wanted} is published, the cell pins {pinned}")
    return wrong
