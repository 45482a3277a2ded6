"""Typed and validated contents of matrix.toml: the distributions of this repository, the cells that test them, the
peers.
"""

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

__all__ = ["CI", "ROOT", "Cell", "Distribution", "Environment", "Matrix", "MatrixError", "Metadata", "Peer", "load"]

ROOT = Path(__file__).resolve().parent.parent
TIERS = ("gate", "merge", "nightly", "manual")
RUNNERS = ("cpu", "gpu")
RELEASES = ("all", "newest")
REFERENCE = "reference"
CORE_SHIMS = (REFERENCE, "onnx")
"""The shims inside the core: they have cells, but no distribution of their own."""


class MatrixError(Exception):
    """An entry of matrix.toml is wrong, a request names no entry, or a tool failed.

    The text names the entry and the fault.
    """


@dataclass(frozen=True)
class Distribution:
    """A wheel of this repository. `key`: its name in matrix.toml. `below`: the first Python that it refuses, or None.

    `requires` and `extras` are as matrix.toml has them; `pin_own` adds the common version.
    """

    key: str
    name: str
    path: str
    requires: tuple[str, ...]
    extras: dict[str, tuple[str, ...]] = field(default_factory=dict)
    below: str | None = None

    @property
    def package(self) -> str:
        """Return the import name of the distribution."""
        return self.name.replace("-", "_")

    @property
    def root(self) -> Path:
        """Return the path of the folder of the distribution."""
        return ROOT / self.path


@dataclass(frozen=True)
class Environment:
    """A Python with exact pins of packages: a cell or a peer."""

    id: str
    python: str
    pins: tuple[str, ...]

    @property
    def constraints(self) -> Path:
        """Return the path of the lock file."""
        return ROOT / "matrix" / "constraints" / f"{self.id}.txt"


@dataclass(frozen=True)
class Peer(Environment):
    """An environment with another project that runs the same cases: the row `peer-<id>` of the scoreboard."""

    project: str
    releases: tuple[str, ...]
    """The releases of onnx whose cases it runs; empty for a peer without ONNX, which only `nox -s bench` runs."""
    options: dict[str, Any] = field(default_factory=dict)
    """Keyword arguments of `prepare` in the module of the project (matrix/peers/tools)."""
    bench: bool = False
    """Whether `nox -s bench` compares this project with it."""


@dataclass(frozen=True)
class Cell(Environment):
    """An environment of the matrix: a shim on a version of its framework. matrix.toml describes the fields above
    `[cells]`.
    """

    shim: str
    branch: str | None = None
    aliases: tuple[str, ...] = ()
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
    def is_required(self) -> bool:
        """Whether the cell runs before a change is merged: the tiers `gate` and `merge`."""
        return self.tier in ("gate", "merge")

    @property
    def tags(self) -> list[str]:
        """Return the tags that `nox -t` selects cells by: the tier, the shim and the runner.

        Without a lock file, a cell lacks the tag of its runner: a scheduled run could only fail on it.
        """
        return [self.tier, self.shim, *([self.runner] if self.constraints.exists() else [])]


@dataclass(frozen=True)
class Metadata:
    """The common metadata of all distributions: its authors, and the addresses of the repository and of its site."""

    authors: tuple[str, ...]
    repository: str
    documentation: str
    raw: str
    """The address before the path of a file of the repository, as the bytes of the file: for pictures."""

    @property
    def blob(self) -> str:
        """Return the address of the pages of files: the path of a file in the repository is appended to it."""
        return f"{self.repository}/blob/main/"

    def asset(self, version: str, name: str) -> str:
        """Return the address of a file beside the release of a version."""
        return f"{self.repository}/releases/download/v{version}/{name}"


@dataclass(frozen=True)
class CI:
    """Settings of the CI service.

    - `python`: the Python that nox runs on
    - `whole`: the sessions that run each night in addition to the cells
    - `runners`: kind of runner (cpu, gpu) -> the labels of its machines
    - `images`: Python -> the labels of a machine that has this Python, for Pythons that uv cannot install
    - `actions`: name in our templates -> action of the service with its digest
    """

    python: str
    whole: list[str]
    runners: dict[str, list[str]]
    images: dict[str, list[str]]
    actions: dict[str, str]


@dataclass(frozen=True)
class Matrix:
    """The contents of matrix.toml. `until`: the last day of publication of packages that `lock` resolves."""

    version: str
    until: str
    metadata: Metadata
    suites: tuple[str, ...]
    """The names of the suites that onnx recorded, or that follow from them."""
    suites_generated: tuple[str, ...]
    """The names of the suites that an exporter generates on this machine."""
    suites_python: str
    """The Python that the exporter runs on."""
    releases: dict[str, int]
    """Release of onnx -> its newest opset, the oldest release first. The recorded suites come from these releases."""
    tools: dict[str, tuple[str, ...]]
    """Name of a group of tools -> their requirements."""
    distributions: dict[str, Distribution]
    cells: dict[str, Cell]
    peers: dict[str, Peer]
    benched: tuple[Cell, ...]
    """The cells that `nox -s bench` measures."""
    fuzzed: tuple[Cell, ...]
    """The cells that `nox -s fuzz` runs: those that a merge needs, and those of the table `fuzz`."""
    gate_seconds: dict[str, float]
    """Cell of the tier `gate` -> the seconds that its sample takes on one core."""
    ci: CI

    @property
    def newest_onnx(self) -> str:
        """Return the newest release of onnx in `releases`, as a requirement: `onnx==1.23.2`."""
        return f"onnx=={list(self.releases)[-1]}"

    @property
    def environments(self) -> dict[str, Environment]:
        """Return id -> cell or peer: every entry that has a lock file."""
        return {**self.cells, **self.peers}

    def closure(self, shim: str) -> list[Distribution]:
        """Return the distributions of this repository that a cell of this shim installs: the shim's own and those that
        it requires.

        Raises MatrixError if there is no distribution for the shim.
        """
        distributions: dict[str, Distribution] = {}
        key = "core" if shim in CORE_SHIMS else shim
        if key not in self.distributions:
            raise MatrixError(f"There is no distribution for the shim {shim!r}; add [distributions.{shim}].")
        waiting = [self.distributions[key]]
        while waiting:
            distribution = waiting.pop()
            if distribution.key not in distributions:
                distributions[distribution.key] = distribution
                waiting += [own for own in map(self.own, distribution.requires) if own]
        return list(distributions.values())

    def own(self, requirement: str) -> Distribution | None:
        """Return the distribution of this repository that a requirement names.

        None: it names a package of another project.
        """
        name = _requirement_name(requirement)
        return next((distribution for distribution in self.distributions.values() if distribution.name == name), None)

    def floor(self, distribution: Distribution) -> str:
        """Return the oldest Python among the cells that install the distribution.

        An older Python would be a claim without a test. Raises MatrixError if no cell installs the distribution.
        """
        shims = {shim for shim in {cell.shim for cell in self.cells.values()} if distribution in self.closure(shim)}
        pythons = [cell.python for cell in self.cells.values() if cell.shim in shims]
        if not pythons:
            raise MatrixError(f"No cell installs {distribution.name}, so its Requires-Python is unknown. Add a cell.")
        return min(pythons, key=Version)

    def requires_python(self, distribution: Distribution) -> str:
        """Return the Requires-Python of a distribution: from its floor on, below `distribution.below` if that is given."""
        floor = f">={self.floor(distribution)}"
        return f"{floor},<{distribution.below}" if distribution.below else floor

    def ranges(self, cell: Cell) -> list[Requirement]:
        """Return the requirements on other projects that the distributions of a cell have.

        These are their dependencies, and the extras whose framework the cell pins. Raises MatrixError as `closure`
        does.
        """
        pins = set(map(_requirement_name, cell.pins))
        requirements: list[str] = []
        for distribution in self.closure(cell.shim):
            requirements += distribution.requires
            for extra in distribution.extras.values():
                requirements += extra if _requirement_name(extra[0]) in pins else ()
        return [Requirement(requirement) for requirement in requirements if not self.own(requirement)]

    def frameworks(self, cell: Cell) -> list[Requirement]:
        """Return the pins of a cell that are frameworks of its shim, in their order. Empty for the reference.

        A framework is the first requirement of an extra of the shim, or the package with the shim's own name (keras).
        The framework of the shim `onnx` is onnxruntime, its first pin.
        """
        if cell.shim in CORE_SHIMS:
            return [] if cell.shim == REFERENCE else [Requirement(cell.pins[0])]
        if cell.shim not in self.distributions:
            return []
        names = {cell.shim, *(_requirement_name(extra[0]) for extra in self.distributions[cell.shim].extras.values())}
        return [pin for pin in map(Requirement, cell.pins) if canonicalize_name(pin.name) in names]

    def pin_own(self, requirement: str) -> str:
        """Return a requirement as it is published: `==<version>` is added if it names a distribution of this repository."""
        return f"{requirement}=={self.version}" if self.own(requirement) else requirement


@lru_cache(maxsize=4096)
def _requirement_name(requirement: str) -> str:
    return canonicalize_name(Requirement(requirement).name)


def load(path: Path = ROOT / "matrix" / "matrix.toml") -> Matrix:
    """Return the validated content of matrix.toml. Raise a MatrixError that lists the faults of its entries."""
    raw = tomllib.loads(path.read_text(encoding="utf-8"))
    try:
        cells = {id_: Cell(id=id_, **_freeze(entry)) for id_, entry in raw["cells"].items()}
        matrix = Matrix(
            version=raw["version"],
            until=raw["until"],
            metadata=Metadata(**_freeze(raw["metadata"])),
            suites=tuple(raw["suites"]["names"]),
            suites_generated=tuple(raw["suites"]["generated"]),
            suites_python=raw["suites"]["python"],
            releases=_check_releases(raw["suites"]["releases"]),
            tools={name: tuple(tools) for name, tools in raw["tools"].items()},
            distributions={key: _distribution(key, **entry) for key, entry in raw["distributions"].items()},
            cells=cells,
            benched=tuple(cells[id_] for id_ in raw["bench"]["cells"]),
            fuzzed=_fuzzed_cells(cells, raw["fuzz"]["cells"]),
            gate_seconds={id_: float(seconds) for id_, seconds in raw["gate"]["seconds"].items()},
            peers={id_: _peer(id_, entry, list(raw["suites"]["releases"])[-1]) for id_, entry in raw["peers"].items()},
            ci=CI(**raw["ci"]),
        )
    except (KeyError, TypeError) as error:
        raise MatrixError(f"{path.name}: {error}") from error
    _validate(matrix)
    return matrix


def _fuzzed_cells(cells: dict[str, Cell], more: list[str]) -> tuple[Cell, ...]:
    """Return the cells that the fuzzer runs on: the required cells, and those with the ids `more`."""
    required = {id_: cell for id_, cell in cells.items() if cell.is_required}
    return tuple({**required, **{id_: cells[id_] for id_ in more}}.values())


def _check_releases(releases: dict[str, int]) -> dict[str, int]:
    """Return the releases unchanged. Raise a MatrixError if they, or their opsets, do not increase."""
    if list(releases) != sorted(releases, key=Version) or sorted(set(releases.values())) != list(releases.values()):
        raise MatrixError(
            "The releases of the suites must be in order, each with a newer opset than the release before."
        )
    return releases


def _distribution(
    key: str, requires: list[str], extras: dict[str, list[str]] | None = None, **rest: Any
) -> Distribution:
    """Build a distribution from its entry. `extras` None: it has no extras. `rest`: other fields of `Distribution`."""
    extras_by_name = {name: tuple(requirements) for name, requirements in (extras or {}).items()}
    return Distribution(key=key, requires=tuple(requires), extras=extras_by_name, **rest)


def _peer(id: str, entry: dict[str, Any], newest: str) -> Peer:
    """Build a peer from its entry. Without these fields, its project is its id, and its only release is `newest`."""
    return Peer(id=id, **_freeze({"project": id, "releases": [newest], **entry}))


def _freeze(entry: dict[str, Any]) -> dict[str, Any]:
    """Return an entry with its lists as tuples."""
    return {name: tuple(value) if isinstance(value, list) else value for name, value in entry.items()}


def _validate(matrix: Matrix) -> None:
    """Raise a MatrixError that lists the faults of the cells and of the runners, if there are any."""
    from matrix.branches import problems_of_branch  # matrix.branches imports this module

    problems = [
        f"cell {cell.id}: {problem}"
        for cell in matrix.cells.values()
        for problem in [*_find_problems(matrix, cell), *problems_of_branch(matrix, cell)]
    ]
    problems += [
        f"runner {runner}: [ci.runners] does not name its machines"
        for runner in RUNNERS
        if runner not in matrix.ci.runners
    ]
    gate = {cell.id for cell in matrix.cells.values() if cell.tier == "gate"}
    problems += [
        f"cell {id_}: [gate.seconds] must have the cells of the tier gate, and no others"
        for id_ in sorted(gate ^ set(matrix.gate_seconds))
    ]
    if problems:
        raise MatrixError("\n".join(problems))


def _find_problems(matrix: Matrix, cell: Cell) -> list[str]:
    """Return a text for each fault of a cell, except the faults of its branch."""
    problems = []
    if not cell.id.startswith(f"{cell.shim}-") or not cell.id.endswith(f"-py{cell.python.replace('.', '')}"):
        problems.append(f"the name must be {cell.shim}-<framework and version>-py{cell.python.replace('.', '')}")
    if cell.tier not in TIERS:
        problems.append(f"tier {cell.tier!r} is none of {', '.join(TIERS)}")
    if cell.runner not in RUNNERS:
        problems.append(f"runner {cell.runner!r} is none of {', '.join(RUNNERS)}")
    if cell.releases not in RELEASES:
        problems.append(f"releases {cell.releases!r} is none of {', '.join(RELEASES)}")
    pins = {canonicalize_name(pin.name): pin for pin in map(Requirement, cell.pins)}
    for pin in pins.values():
        if [specifier.operator for specifier in pin.specifier] != ["=="]:
            problems.append(f"{pin} is not an exact pin")
    for distribution in matrix.closure(cell.shim):
        if not SpecifierSet(matrix.requires_python(distribution)).contains(f"{cell.python}.99"):
            problems.append(f"{distribution.name} refuses Python {cell.python}")
    # A cell must test versions that users can install.
    for wanted in matrix.ranges(cell):
        pinned = pins.get(canonicalize_name(wanted.name))
        if pinned is not None and not wanted.specifier.contains(next(iter(pinned.specifier)).version):
            problems.append(f"the distributions require {wanted}, the cell pins {pinned}")
    return problems
