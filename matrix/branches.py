"""Branches such as `onnx-compat[tf2-8]`: distributions of metadata only, derived from the cells that prove them.

A branch requires its shim, the minor version of each framework that its cell pins, and caps: upper bounds for packages
that would install but not import. Its frameworks are extras, as they are of a shim. The core has an extra for each
branch, and a second extra that ends in `-cpu` where the framework has such a build.

The Requires-Python of a branch accepts only Pythons for which all of these packages have wheels. On another Python, pip
names it as the reason of the refusal; an environment marker would install nothing without a message.

tensorflow-probability does not declare which TensorFlow it works with, and an extra cannot depend on another extra. The
empty distribution onnx-compat-probability therefore has a version for each TensorFlow, with an extra that requires the
matching tensorflow-probability. A branch requires its version of onnx-compat-probability, and the extra `probability`
of the core requires its extra: both together select a single version of tensorflow-probability.
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

__all__ = ["CPU", "Project", "branch_name", "branches", "extras", "minor", "minors", "problems_of_branch", "projects"]

CPU = "-cpu"
"""The suffix of the distribution that holds a framework's build without GPU support: tensorflow-cpu."""
PROBABILITY = "onnx-compat-probability"
TFP = "tensorflow-probability"


@dataclass(frozen=True)
class Project:
    """A published distribution of metadata only: a branch, or onnx-compat-probability. `pythons`: its Requires-Python."""

    name: str
    version: str
    description: str
    pythons: str
    requires: tuple[str, ...] = ()
    extras: dict[str, tuple[str, ...]] = field(default_factory=dict)


def branches(matrix: Matrix) -> dict[str, Cell]:
    """Return branch name -> the cell that proves the branch: the cell whose pins its users install."""
    return {cell.branch: cell for cell in matrix.cells.values() if cell.branch}


def projects(matrix: Matrix) -> list[Project]:
    """Return the distributions of metadata only that are published in addition to those of matrix.toml: branches, and
    others.
    """
    proving = branches(matrix).values()
    return [
        *(_make_branch(matrix, cell) for cell in proving),
        *(_make_probability(matrix, cell) for cell in proving if cell.probability),
    ]


def extras(matrix: Matrix, distribution: Distribution) -> dict[str, tuple[str, ...]]:
    """Return extra -> requirements of a distribution, as they are published. The core has an extra for each branch, too."""
    extras_of = {name: tuple(map(matrix.pin_own, requirements)) for name, requirements in distribution.extras.items()}
    if distribution.key == "core":
        for branch, cell in branches(matrix).items():
            project = _make_branch(matrix, cell)
            for extra in project.extras:
                name = branch + CPU if extra.endswith(CPU) else branch
                extras_of[name] = (f"{project.name}[{extra}]=={project.version}",)
    return extras_of


def minors(pythons: str) -> list[str]:
    """Return the minor versions of Python that a Requires-Python accepts, the oldest first.

    Example: `>=3.7,<3.9` gives 3.7 and 3.8.
    """
    specifier = SpecifierSet(pythons)
    return [python for python in (f"3.{minor}" for minor in range(100)) if specifier.contains(f"{python}.99")]


def branch_name(matrix: Matrix, branch: str) -> str:
    """Return the name of the distribution of a branch: `onnx-compat-tf2-8` for the branch `tf2-8`."""
    return f"{matrix.distributions['core'].name}-{branch}"


def minor(pin: Requirement) -> str:
    """Return the minor version that a pin belongs to: `2.8` for `tensorflow==2.8.4`."""
    return ".".join(map(str, _version(pin).release[:2]))


def _make_branch(matrix: Matrix, cell: Cell) -> Project:
    assert cell.branch and cell.pythons
    shim = matrix.distributions[cell.shim]
    always, companions, framework_extras = [matrix.pin_own(shim.name)], [], {}
    for pin in matrix.frameworks(cell):
        matching = {key: extra for key, extra in shim.extras.items() if _offers(extra[0], pin)}
        if not matching:
            companions.append(_compatible_requirement(pin.name, pin))
        for key, extra in matching.items():
            framework_extras[key] = (_compatible_requirement(Requirement(extra[0]).name, pin), *extra[1:])
    assert framework_extras, f"the shim {shim.name} has no extra for a framework of {cell.id}"
    # Companions may lack wheels for a refused Python. They are in the extra, since older releases of pip would else report
    # them and not the Python.
    framework_extras = {key: (*companions, *extra) for key, extra in framework_extras.items()}
    if cell.probability:
        always.append(f"{PROBABILITY}=={_probability_version(matrix, cell)}")
    return Project(
        name=branch_name(matrix, cell.branch),
        version=matrix.version,
        description=f"onnx-compat on {_describe_frameworks(matrix, cell)}, with the versions of others that it works with.",
        pythons=cell.pythons,
        requires=(*always, *cell.caps),
        extras=framework_extras,
    )


def _make_probability(matrix: Matrix, cell: Cell) -> Project:
    assert cell.pythons
    return Project(
        name=PROBABILITY,
        version=_probability_version(matrix, cell),
        description=f"The {TFP} that works with {_describe_frameworks(matrix, cell)}, for onnx-compat.",
        pythons=cell.pythons,
        extras={TFP: cell.probability},
    )


def _probability_version(matrix: Matrix, cell: Cell) -> str:
    """Return the version of onnx-compat-probability: the minor version of TensorFlow, then the version of this
    repository.

    The second part lets each release of this repository publish it again.
    """
    (pin,) = matrix.frameworks(cell)
    return f"{minor(pin)}.{matrix.version}"


def _describe_frameworks(matrix: Matrix, cell: Cell) -> str:
    return " and ".join(f"{_plain_name(pin.name)} {minor(pin)}" for pin in matrix.frameworks(cell))


def _version(pin: Requirement) -> Version:
    return Version(next(iter(pin.specifier)).version)


def _compatible_requirement(framework: str, pin: Requirement) -> str:
    """Return a requirement that accepts the minor version of a pin, from the pinned patch release on
    (`tensorflow~=2.8.4`).
    """
    return f"{framework}~={minor(pin)}.{_version(pin).micro}"


def _plain_name(framework: str) -> str:
    return re.sub(f"{CPU}$", "", canonicalize_name(framework))


def _offers(extra: str, pin: Requirement) -> bool:
    """Whether an extra requires the pinned framework, with or without `-cpu`, in a range that contains the pinned
    version.
    """
    requirement = Requirement(extra)
    return _plain_name(requirement.name) == _plain_name(pin.name) and requirement.specifier.contains(
        _version(pin).public
    )


def problems_of_branch(matrix: Matrix, cell: Cell) -> Iterator[str]:
    """Yield a text for each fault in the fields of a cell that concern branches: branch, pythons, caps, probability."""
    pins: dict[str, Requirement] = {canonicalize_name(pin.name): pin for pin in map(Requirement, cell.pins)}
    if cell.branch is None:
        keys = [key for key in ("pythons", "caps", "probability") if getattr(cell, key)]
        if keys:
            yield f"{', '.join(keys)}: fields of a branch, but the cell names none"
        yield from _problems_of_pair(matrix, cell, pins)
        return
    core = matrix.distributions["core"]
    first = next(other_cell for other_cell in matrix.cells.values() if other_cell.branch == cell.branch)
    if first is not cell:
        yield f"branch {cell.branch} is proved by {first.id}"
    if canonicalize_name(cell.branch) != cell.branch:
        yield f"branch {cell.branch!r} must be small letters, digits and single hyphens"
    if cell.branch in core.extras or matrix.own(branch_name(matrix, cell.branch)):
        yield f"branch {cell.branch}: {core.name}[{cell.branch}] exists with another meaning"
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
        yield f"pythons {cell.pythons} has no upper bound: no framework has wheels for every future Python"
        return
    for distribution in matrix.closure(cell.shim):
        specifier = SpecifierSet(matrix.requires_python(distribution))
        refused = [python for python in accepted if not specifier.contains(f"{python}.99")]
        if refused:
            yield f"pythons {cell.pythons}: {distribution.name} refuses {', '.join(refused)}"


def _problems_of_pair(matrix: Matrix, cell: Cell, pins: dict[str, Requirement]) -> Iterator[str]:
    """Yield a text if a cell that pins tensorflow-probability contradicts the branch of the same TensorFlow."""
    for branch in branches(matrix).values() if TFP in pins else ():
        if branch.shim == cell.shim and _has_same_frameworks(matrix, branch, cell):
            for wanted in map(Requirement, branch.probability):
                pinned = pins.get(canonicalize_name(wanted.name))
                if pinned is None or not wanted.specifier.contains(_version(pinned)):
                    yield f"{branch.branch} brings {wanted}, the cell pins {pinned or 'none'}"
            if not branch.probability:
                yield f"{branch.branch} brings no {TFP}"


def _has_same_frameworks(matrix: Matrix, branch: Cell, cell: Cell) -> bool:
    """Whether the cell of a branch and another cell pin the same minor versions of the same frameworks."""
    of_branch, of_cell = (
        {(_plain_name(pin.name), minor(pin)) for pin in matrix.frameworks(owner)} for owner in (branch, cell)
    )
    return of_branch == of_cell
