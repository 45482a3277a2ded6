"""Branches such as `onnx-compat[tf2-8]`: extras that pin the minor version of a framework, derived from the cells that
prove them.

The pins of a branch are an extra of its shim (`onnx-compat-tf2[tf2-8]`): the minor version of each framework that the
cell pins, and caps: upper bounds for packages that would install but not import. The core has an extra of the same name
that requires the extra of the shim. Other extras follow from a branch:

- `tf2-8-cpu`: the framework's build without GPU support, where there is one
- `tf2-8-probability`: with the tensorflow-probability that works with this TensorFlow, which its metadata does not say
- aliases of the core: names that an earlier version used

An extra has no Requires-Python. On a Python without wheels for the framework, the resolver finds no version of it, and
stops. A marker at the framework would install nothing without a message. `onnx-compat doctor --extra tf2-8` names the
Pythons.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from packaging.requirements import Requirement
from packaging.specifiers import InvalidSpecifier, SpecifierSet
from packaging.utils import canonicalize_name
from packaging.version import Version

from matrix.data import Cell, Distribution, Matrix

__all__ = [
    "CPU",
    "PROBABILITY",
    "TFP",
    "aliases",
    "branch_extras",
    "branch_of",
    "branches",
    "builds",
    "extras",
    "minor",
    "minors",
    "problems_of_branch",
]

CPU = "-cpu"
"""The suffix of the distribution that holds a framework's build without GPU support: tensorflow-cpu."""
PROBABILITY = "-probability"
"""The suffix of the extra that adds tensorflow-probability to a branch."""
TFP = "tensorflow-probability"
FULL_BUILD = "tf-keras"
"""The package that requires the full build of TensorFlow. Two builds in an environment overwrite each other."""


def branches(matrix: Matrix) -> dict[str, Cell]:
    """Return branch name -> the cell that proves the branch: the cell whose pins its users install."""
    return {cell.branch: cell for cell in matrix.cells.values() if cell.branch}


def branch_of(matrix: Matrix, cell: Cell) -> Cell | None:
    """Return the cell that proves a branch of the same shim with the frameworks of `cell`, in the same minor versions.

    A framework and its `-cpu` build count as the same. None: there is no such branch.
    """
    wanted = _frameworks_of(matrix, cell)
    of_shim = (branch for branch in branches(matrix).values() if branch.shim == cell.shim)
    return next((branch for branch in of_shim if _frameworks_of(matrix, branch) == wanted), None)


def _frameworks_of(matrix: Matrix, cell: Cell) -> set[tuple[str, str]]:
    """Return (name without `-cpu`, minor version) of each framework that a cell pins."""
    return {(_plain_name(pin.name), minor(pin)) for pin in matrix.frameworks(cell)}


def extras(matrix: Matrix, distribution: Distribution) -> dict[str, tuple[str, ...]]:
    """Return extra -> requirements of a distribution, as they are published.

    A shim also has the extras of its branches. The core has those of all branches, their aliases, and `probability`.
    """
    extras_of = {name: tuple(map(matrix.pin_own, requirements)) for name, requirements in distribution.extras.items()}
    for cell in branches(matrix).values():
        shim = matrix.distributions[cell.shim]
        if distribution == shim:
            extras_of.update(branch_extras(matrix, cell))
        elif distribution.key == "core":
            targets = {**{name: name for name in branch_extras(matrix, cell)}, **aliases(matrix, cell)}
            extras_of.update({name: (matrix.pin_own(f"{shim.name}[{target}]"),) for name, target in targets.items()})
    if distribution.key == "core":
        extras_of[PROBABILITY.removeprefix("-")] = _general_probability(matrix)
    return extras_of


def aliases(matrix: Matrix, cell: Cell) -> dict[str, str]:
    """Return alias -> extra, for all extras of the branch of `cell`.

    An alias of the branch gets the suffix of the extra: `keras3-tensorflow-cpu` -> `keras3-15-tensorflow-cpu`.
    """
    branch = str(cell.branch)
    return {
        alias + extra.removeprefix(branch): extra for alias in cell.aliases for extra in branch_extras(matrix, cell)
    }


def builds(matrix: Matrix, cell: Cell) -> dict[str, tuple[str, ...]]:
    """Return extra -> requirements, for each build of the framework of a branch: `tf2-8` and `tf2-8-cpu`.

    `cell`: the cell that proves the branch.
    """
    assert cell.branch
    shim = matrix.distributions[cell.shim]
    companions, of_builds = [], {}
    for pin in matrix.frameworks(cell):
        matching = [extra for extra in shim.extras.values() if _offers(extra[0], pin)]
        if not matching:
            companions.append(_compatible_requirement(pin.name, pin))
        for framework, *limits in matching:
            name = Requirement(framework).name
            suffix = CPU if name.endswith(CPU) else ""
            of_builds[cell.branch + suffix] = (_compatible_requirement(name, pin), *_caps(cell, *limits))
    assert of_builds, f"the shim {shim.name} has no extra for a framework of {cell.id}"
    return {extra: (*companions, *requirements) for extra, requirements in of_builds.items()}


def _caps(cell: Cell, *limits: str) -> list[str]:
    """Return `limits` and the caps of a branch, each with a marker: it holds up to the newest Python of the branch.

    The reason for the marker: pip looks for a version of each requirement in the order of their names. Of an old numpy,
    a newer Python has a source distribution only, which pip would build before it finds that the framework has no
    wheel.
    """
    major, newest = minors(str(cell.pythons))[-1].split(".")
    return [f'{cap}; python_version < "{major}.{int(newest) + 1}"' for cap in dict.fromkeys([*limits, *cell.caps])]


def branch_extras(matrix: Matrix, cell: Cell) -> dict[str, tuple[str, ...]]:
    """Return extra -> requirements of a branch: its builds, and each build with its tensorflow-probability.

    A build without GPU support has no tensorflow-probability if that requires the full build.
    """
    of_builds = builds(matrix, cell)
    needs_full_build = any(Requirement(requirement).name == FULL_BUILD for requirement in cell.probability)
    paired = {
        extra + PROBABILITY: (*requirements, *cell.probability)
        for extra, requirements in of_builds.items()
        if cell.probability and not (needs_full_build and extra.endswith(CPU))
    }
    return {**of_builds, **paired}


def _general_probability(matrix: Matrix) -> tuple[str, ...]:
    """Return the requirements of `onnx-compat[probability]`, for use beside `tf1` and `tf2`, with a marker for each
    range of Pythons.

    A Python gets the requirements of the newest branch that accepts it: a branch of TensorFlow 1 if there is one, else
    of TensorFlow 2. The first and the last marker are open: on a Python without a branch, the resolver stops instead of
    installing nothing.
    """
    cells = [cell for cell in branches(matrix).values() if cell.probability]
    cells.sort(key=lambda cell: cell.shim == "tf1")
    by_python = {python: cell.probability for cell in cells for python in minors(str(cell.pythons))}
    pythons = sorted(by_python, key=Version)
    starts = [python for before, python in zip(["", *pythons], pythons) if by_python[python] != by_python.get(before)]
    requirements = []
    for start, end in zip(starts, [*starts[1:], ""]):
        bounds = [f'python_version >= "{start}"'] * (start != starts[0]) + [f'python_version < "{end}"'] * bool(end)
        marker = f"; {' and '.join(bounds)}" if bounds else ""
        requirements += [requirement + marker for requirement in by_python[start]]
    return tuple(requirements)


def minors(pythons: str) -> list[str]:
    """Return the minor versions of Python 3 that a Requires-Python accepts, the oldest first.

    Example: `>=3.7,<3.9` gives 3.7 and 3.8. A minor version counts if its release 99 is accepted, so `<=3.9` leaves out
    3.9. Without an upper bound, the list ends at 3.99. Raises InvalidSpecifier for a text that is no Requires-Python.
    """
    specifier = SpecifierSet(pythons)
    return [python for python in (f"3.{minor}" for minor in range(100)) if specifier.contains(f"{python}.99")]


def minor(pin: Requirement) -> str:
    """Return the minor version that a pin belongs to: `2.8` for `tensorflow==2.8.4`."""
    return ".".join(map(str, _version(pin).release[:2]))


def _version(pin: Requirement) -> Version:
    """Return the version that a pin states."""
    return Version(next(iter(pin.specifier)).version)


def _compatible_requirement(framework: str, pin: Requirement) -> str:
    """Return a requirement that accepts the minor version of a pin, from the pinned patch release on
    (`tensorflow~=2.8.4`).
    """
    return f"{framework}~={minor(pin)}.{_version(pin).micro}"


def _plain_name(framework: str) -> str:
    """Return the name of a framework without the suffix `-cpu`, in its canonical form."""
    return re.sub(f"{CPU}$", "", canonicalize_name(framework))


def _offers(requirement: str, pin: Requirement) -> bool:
    """Whether a requirement of an extra accepts a pin: the same framework, with or without `-cpu`, in a range that
    contains the pinned version.
    """
    wanted = Requirement(requirement)
    return _plain_name(wanted.name) == _plain_name(pin.name) and wanted.specifier.contains(_version(pin).public)


def problems_of_branch(matrix: Matrix, cell: Cell) -> Iterator[str]:
    """Yield a text for each fault in the fields of a cell that concern branches: branch, aliases, pythons, caps,
    probability.
    """
    pins: dict[str, Requirement] = {canonicalize_name(pin.name): pin for pin in map(Requirement, cell.pins)}
    if cell.branch is None:
        keys = [key for key in ("aliases", "pythons", "caps", "probability") if getattr(cell, key)]
        if keys:
            yield f"{', '.join(keys)}: fields of a branch, but the cell names none"
        yield from _problems_of_pair(matrix, cell, pins)
        return
    first = next(other_cell for other_cell in matrix.cells.values() if other_cell.branch == cell.branch)
    if first is not cell:
        yield f"branch {cell.branch} is proved by {first.id}"
    yield from _problems_of_names(matrix, cell)
    if not matrix.frameworks(cell):
        yield f"branch {cell.branch}: no framework of {cell.shim} is pinned"
    if cell.probability and len(matrix.frameworks(cell)) != 1:
        yield "probability: pairs with TensorFlow alone"
    yield from _problems_of_pythons(matrix, cell)
    for cap in map(Requirement, cell.caps):
        pinned = pins.get(canonicalize_name(cap.name))
        if pinned is not None and not cap.specifier.contains(_version(pinned)):
            yield f"cap {cap}: the cell pins {pinned}"


def _problems_of_names(matrix: Matrix, cell: Cell) -> Iterator[str]:
    """Yield a text for each name or alias of a branch that is misspelt, or that another extra or branch has."""
    other_branches = [branch for branch in branches(matrix).values() if branch is not cell]
    for name in (str(cell.branch), *cell.aliases):
        if canonicalize_name(name) != name:
            yield f"branch {name!r} must be small letters, digits and single hyphens"
        for distribution in (matrix.distributions["core"], matrix.distributions.get(cell.shim)):
            if distribution and name in distribution.extras:
                yield f"branch {name}: {distribution.name}[{name}] exists with another meaning"
    for alias in cell.aliases:
        if any(alias in (branch.branch, *branch.aliases) for branch in other_branches):
            yield f"alias {alias}: another branch has this name"


def _problems_of_pythons(matrix: Matrix, cell: Cell) -> Iterator[str]:
    """Yield a text for each fault in `pythons`, the Requires-Python of the branch of a cell."""
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
        yield f"pythons {cell.pythons} has no upper bound: no framework has wheels for every future Python"
        return
    for distribution in matrix.closure(cell.shim):
        specifier = SpecifierSet(matrix.requires_python(distribution))
        refused = [python for python in accepted if not specifier.contains(f"{python}.99")]
        if refused:
            yield f"pythons {cell.pythons}: {distribution.name} refuses {', '.join(refused)}"


def _problems_of_pair(matrix: Matrix, cell: Cell, pins: dict[str, Requirement]) -> Iterator[str]:
    """Yield a text for each requirement of a branch on tensorflow-probability that the pins of a cell do not meet.

    The branch is that with the TensorFlow of the cell. If it has no such requirement, a text says so. Nothing is
    yielded for a cell that does not pin tensorflow-probability, or without that branch. `pins`: package -> pin of the
    cell.
    """
    branch = branch_of(matrix, cell) if TFP in pins else None
    if branch is None:
        return
    for wanted in map(Requirement, branch.probability):
        pinned = pins.get(canonicalize_name(wanted.name))
        if pinned is None or not wanted.specifier.contains(_version(pinned)):
            yield f"{branch.branch} brings {wanted}, the cell pins {pinned or 'none'}"
    if not branch.probability:
        yield f"{branch.branch} brings no {TFP}"
