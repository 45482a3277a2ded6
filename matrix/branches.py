"""The exact branches, `onnx-compat[tf2-8]`, derived from the cells that prove them: distributions with metadata and nothing else.

A branch asks for its shim, for the minor version of each framework that its cell pins, and for the caps without which that
would install and not import. It accepts the Pythons that all this has wheels for: an installer refuses any other one with the
reason, where an environment marker would quietly install nothing. Its frameworks are extras, as those of the shims are; the
core has an extra for each branch, and one ending in `-cpu` where the framework has a build of that name.

tensorflow-probability does not say which TensorFlow it works with, and an extra cannot depend on another one. So there is an
empty distribution in one version for each TensorFlow, whose extra brings what pairs with it: a branch asks for its version, the
core's extra `probability` for that extra in any, and both together leave one.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field

from packaging.requirements import Requirement
from packaging.specifiers import InvalidSpecifier, SpecifierSet
from packaging.utils import canonicalize_name
from packaging.version import Version

from matrix.data import Cell, Distribution, Matrix

__all__ = ["CPU", "Project", "branches", "extras", "minor", "minors", "name", "problems_of_branch", "projects"]

CPU = "-cpu"
"""What the name of a framework's build without a GPU ends in: another name of the same framework."""
PROBABILITY = "onnx-compat-probability"
TFP = "tensorflow-probability"


@dataclass(frozen=True)
class Project:
    """A distribution with metadata only, as it is published."""

    name: str
    version: str
    description: str
    pythons: str
    requires: tuple[str, ...] = ()
    extras: dict[str, tuple[str, ...]] = field(default_factory=dict)


def branches(matrix: Matrix) -> dict[str, Cell]:
    """The cell that proves each branch."""
    return {cell.branch: cell for cell in matrix.cells.values() if cell.branch}


def projects(matrix: Matrix) -> list[Project]:
    """All that is published beside the distributions of matrix.toml."""
    proving = branches(matrix).values()
    return [
        *(_branch(matrix, cell) for cell in proving),
        *(_pair(matrix, cell) for cell in proving if cell.probability),
    ]


def extras(matrix: Matrix, distribution: Distribution) -> dict[str, tuple[str, ...]]:
    """The extras of a distribution, as they are published: the core has one for each branch, too."""
    found = {name: tuple(map(matrix.pinned, asked)) for name, asked in distribution.extras.items()}
    if distribution.key == "core":
        for branch, cell in branches(matrix).items():
            project = _branch(matrix, cell)
            for extra in project.extras:
                name = branch + CPU if extra.endswith(CPU) else branch
                found[name] = (f"{project.name}[{extra}]=={project.version}",)
    return found


def minors(pythons: str) -> list[str]:
    """The minor versions of Python that a Requires-Python accepts, the oldest first."""
    asked = SpecifierSet(pythons)
    return [python for python in (f"3.{minor}" for minor in range(100)) if asked.contains(f"{python}.99")]


def name(matrix: Matrix, branch: str) -> str:
    """The distribution of a branch."""
    return f"{matrix.distributions['core'].name}-{branch}"


def minor(pin: Requirement) -> str:
    """The minor version that a pin belongs to."""
    return ".".join(map(str, _version(pin).release[:2]))


def _branch(matrix: Matrix, cell: Cell) -> Project:
    assert cell.branch and cell.pythons
    shim = matrix.distributions[cell.shim]
    always, beside, brought = [matrix.pinned(shim.name)], [], {}
    for pin in matrix.frameworks(cell):
        named = {key: extra for key, extra in shim.extras.items() if _offers(extra[0], pin)}
        if not named:
            beside.append(_compatible(pin.name, pin))
        for key, extra in named.items():
            brought[key] = (_compatible(Requirement(extra[0]).name, pin), *extra[1:])
    assert brought, f"the shim {shim.name} has no extra for a framework of {cell.id}"
    # What a wrong Python may not have comes by an extra too: older releases of pip would complain of that, not of the Python.
    brought = {key: (*beside, *extra) for key, extra in brought.items()}
    if cell.probability:
        always.append(f"{PROBABILITY}=={_paired(matrix, cell)}")
    return Project(
        name=name(matrix, cell.branch),
        version=matrix.version,
        description=f"onnx-compat on {_said(matrix, cell)}, with the versions of others that it works with.",
        pythons=cell.pythons,
        requires=(*always, *cell.caps),
        extras=brought,
    )


def _pair(matrix: Matrix, cell: Cell) -> Project:
    assert cell.pythons
    return Project(
        name=PROBABILITY,
        version=_paired(matrix, cell),
        description=f"The {TFP} that works with {_said(matrix, cell)}, for onnx-compat.",
        pythons=cell.pythons,
        extras={TFP: cell.probability},
    )


def _paired(matrix: Matrix, cell: Cell) -> str:
    """The version is that of TensorFlow, then the common one: every release of ours may pair anew."""
    (pin,) = matrix.frameworks(cell)
    return f"{minor(pin)}.{matrix.version}"


def _said(matrix: Matrix, cell: Cell) -> str:
    return " and ".join(f"{_plain(pin.name)} {minor(pin)}" for pin in matrix.frameworks(cell))


def _version(pin: Requirement) -> Version:
    return Version(next(iter(pin.specifier)).version)


def _compatible(framework: str, pin: Requirement) -> str:
    """The minor version, from the pinned patch release on."""
    return f"{framework}~={minor(pin)}.{_version(pin).micro}"


def _plain(framework: str) -> str:
    return re.sub(f"{CPU}$", "", canonicalize_name(framework))


def _offers(wanted: str, pin: Requirement) -> bool:
    """Whether this is the pinned framework, under this or its other name, in a range with that version."""
    asked = Requirement(wanted)
    return _plain(asked.name) == _plain(pin.name) and asked.specifier.contains(_version(pin).public)


def problems_of_branch(matrix: Matrix, cell: Cell) -> Iterator[str]:
    """What is wrong with the branch of a cell; or with a cell that has what only a branch can have."""
    pins: dict[str, Requirement] = {canonicalize_name(pin.name): pin for pin in map(Requirement, cell.pins)}
    if cell.branch is None:
        given = [key for key in ("pythons", "caps", "probability") if getattr(cell, key)]
        if given:
            yield f"{', '.join(given)}: of a branch, and the cell names none"
        yield from _problems_of_pair(matrix, cell, pins)
        return
    core = matrix.distributions["core"]
    first = next(each for each in matrix.cells.values() if each.branch == cell.branch)
    if first is not cell:
        yield f"branch {cell.branch} is proved by {first.id}"
    if canonicalize_name(cell.branch) != cell.branch:
        yield f"branch {cell.branch!r} must be small letters, digits and single hyphens"
    if cell.branch in core.extras or matrix.own(name(matrix, cell.branch)):
        yield f"branch {cell.branch}: {core.name}[{cell.branch}] is something else"
    if not matrix.frameworks(cell):
        yield f"branch {cell.branch}: no framework of {cell.shim} is pinned"
    if cell.probability and len(matrix.frameworks(cell)) != 1:
        yield "probability: pairs with TensorFlow alone"
    yield from _problems_of_pythons(matrix, cell)
    for cap in map(Requirement, cell.caps):
        pinned = pins.get(canonicalize_name(cap.name))
        if pinned is not None and not cap.specifier.contains(_version(pinned)):
            yield f"cap {cap}: the cell pins {pinned}"


def _problems_of_pythons(matrix: Matrix, cell: Cell) -> Iterator[str]:
    if not cell.pythons:
        yield f"branch {cell.branch}: pythons are missing"
        return
    try:
        accepted = minors(cell.pythons)
    except InvalidSpecifier as error:
        yield f"pythons: {error}"
        return
    if cell.python not in accepted:
        yield f"pythons {cell.pythons} without the cell's own {cell.python}"
    if "3.99" in accepted:
        yield f"pythons {cell.pythons} without an end: nothing has wheels for every Python to come"
        return
    for distribution in matrix.closure(cell.shim):
        asked = SpecifierSet(matrix.requires_python(distribution))
        refused = [python for python in accepted if not asked.contains(f"{python}.99")]
        if refused:
            yield f"pythons {cell.pythons}: {distribution.name} refuses {', '.join(refused)}"


def _problems_of_pair(matrix: Matrix, cell: Cell, pins: dict[str, Requirement]) -> Iterator[str]:
    """A cell with tensorflow-probability must have what the branch of its TensorFlow brings."""
    for branch in branches(matrix).values() if TFP in pins else ():
        if branch.shim == cell.shim and _same(matrix, branch, cell):
            for wanted in map(Requirement, branch.probability):
                pinned = pins.get(canonicalize_name(wanted.name))
                if pinned is None or not wanted.specifier.contains(_version(pinned)):
                    yield f"{branch.branch} brings {wanted}, the cell pins {pinned or 'none'}"
            if not branch.probability:
                yield f"{branch.branch} brings no {TFP}"


def _same(matrix: Matrix, branch: Cell, cell: Cell) -> bool:
    """Whether the branch is of the frameworks that the cell pins."""
    one, other = ({(_plain(pin.name), minor(pin)) for pin in matrix.frameworks(each)} for each in (branch, cell))
    return one == other
