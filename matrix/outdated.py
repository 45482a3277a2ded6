"""`python -m matrix outdated`: versions of frameworks that the package index has and no cell pins.

For each framework, these are the newest version, and the newest patch of each minor version that has a cell. Only
versions with a wheel count: no pre-releases, no withdrawn files, and no version that the shim refuses.
"""

from __future__ import annotations

import json
import os
import urllib.error
import urllib.request
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name
from packaging.version import InvalidVersion, Version

from matrix.add import LINES
from matrix.data import Matrix, MatrixError

__all__ = ["Proposal", "find_outdated", "format_proposals", "read_releases"]

SECONDS = 60
BACKENDS = {"tensorflow": "", "jax": "jax", "torch": "torch"}
"""Back end of Keras -> the package whose newest version its cells should pin. tensorflow: the cells of tf2 have it."""


@dataclass(frozen=True)
class Proposal:
    """A version to test, with the day of its publication.

    `pinned`: the newest version that a cell pins. `action`: what to do, as a command or a sentence.
    """

    package: str
    version: str
    day: str
    pinned: str
    action: str


def read_releases(package: str) -> dict[str, str]:
    """Return version -> day of publication of the releases of a package with a wheel, from the JSON API of PyPI.

    ONNX_COMPAT_INDEX is the address of another index with that API. Raise a MatrixError if it does not answer.
    """
    address = f"{os.environ.get('ONNX_COMPAT_INDEX', 'https://pypi.org')}/pypi/{package}/json"
    try:
        with urllib.request.urlopen(address, timeout=SECONDS) as answer:  # noqa: S310 (the address is ours or the user's own)
            releases = json.load(answer)["releases"]
    except (OSError, ValueError, KeyError, urllib.error.URLError) as error:
        raise MatrixError(f"{address} does not answer: {error}. Is this machine online?") from error
    days = {
        version: [
            file["upload_time"][:10] for file in files if file["packagetype"] == "bdist_wheel" and not file["yanked"]
        ]
        for version, files in releases.items()
    }
    return {version: min(published_on) for version, published_on in days.items() if published_on}


def find_outdated(matrix: Matrix, releases_of: Callable[[str], dict[str, str]]) -> list[Proposal]:
    """Return a proposal for each release to test: those of the frameworks first, then those of the back ends of Keras.

    `_newer` selects the releases. `releases_of`: a function (package) -> {version: day of publication}, as
    `read_releases`.
    """
    proposals = []
    for name, line in LINES.items():
        backends = BACKENDS if "{backend}" in line.cell else [""]
        for backend in backends:
            pinned = [_pinned_version(cell.pins, line.package) for cell in line.cells(matrix, backend)]
            tested = {version for version in pinned if version}
            option = f" --backend {backend}" if backend else ""
            for text, day in _newer(matrix, line.shim, line.package, tested, releases_of):
                command = f"`python -m matrix add {name} {text}{option}`"
                proposals.append(Proposal(line.package, text, day, str(max(tested)), command))
    for package in filter(None, BACKENDS.values()):
        cells = [cell for cell in matrix.cells.values() if cell.shim == "keras" and cell.runner == "cpu"]
        of_cells = {cell.id: version for cell in cells if (version := _pinned_version(cell.pins, package))}
        newest = max(
            reversed(list(of_cells)), key=lambda id_: of_cells[id_]
        )  # the last of several with the same version
        for text, day in _newer(matrix, "keras", package, {of_cells[newest]}, releases_of, patches=False):
            action = f"pin it in {newest}, or in a copy of that cell"
            proposals.append(Proposal(package, text, day, str(of_cells[newest]), action))
    return proposals


def format_proposals(proposals: list[Proposal], markdown: bool) -> str:
    """Return the proposals as lines of text, or with `markdown` as the list of an issue.

    Without proposals, the text is a line that says so, and the list is empty.
    """
    lines = [
        f"{entry.package} {entry.version} ({entry.day}; tested: {entry.pinned}): {entry.action}" for entry in proposals
    ]
    if markdown:
        return "".join(f"- [ ] {line}\n" for line in lines)
    return "\n".join(lines or ["each framework is tested at its newest version"]) + "\n"


def _newer(
    matrix: Matrix,
    shim: str,
    package: str,
    pinned: set[Version],
    releases_of: Callable[[str], dict[str, str]],
    patches: bool = True,
) -> Iterator[tuple[str, str]]:
    """Yield (version, day) of each release to propose, the oldest version first.

    The candidates are the newest release that the shim accepts, and with `patches` the newest release of each minor
    version in `pinned`. A candidate is proposed if it is newer than all pins of its minor version. Without such a pin,
    it must be newer than all pins.
    """
    accepted = _accepted_range(matrix, shim, package)
    by_minor: dict[tuple[int, int], Version] = {}
    days: dict[Version, tuple[str, str]] = {}
    for text, day in releases_of(package).items():
        try:
            version = Version(text)
        except InvalidVersion:
            continue
        if version.is_prerelease or not accepted.specifier.contains(version):
            continue
        days[version] = (text, day)
        key = (version.major, version.minor)
        by_minor[key] = max(version, by_minor.get(key, version))
    tested = {(version.major, version.minor) for version in pinned} if patches else set()
    newest_by_minor = {key: version for key, version in by_minor.items() if key in tested}
    candidates = {*newest_by_minor.values(), *([max(by_minor.values())] if by_minor else [])}
    for version in sorted(candidates):
        rivals = [old for old in pinned if (old.major, old.minor) == (version.major, version.minor)]
        if version > max(rivals or pinned):
            yield days[version]


def _accepted_range(matrix: Matrix, shim: str, package: str) -> Requirement:
    """Return the requirement on a package that the distribution of a shim has first.

    If the distribution has none, return a requirement that accepts all versions.
    """
    key = shim if shim in matrix.distributions else "core"
    own = matrix.distributions[key]
    requirements = [*own.requires, *(requirement for extra in own.extras.values() for requirement in extra)]
    matches = [entry for entry in map(Requirement, requirements) if canonicalize_name(entry.name) == package]
    return matches[0] if matches else Requirement(package)


def _pinned_version(pins: Iterable[str], package: str) -> Version | None:
    """Return the version of a package in the pins of a cell, or None if they lack it.

    A pin of `tensorflow` counts for the package `tensorflow-cpu`.
    """
    versions: dict[str, str] = {
        canonicalize_name(pin.name): next(iter(pin.specifier)).version for pin in map(Requirement, pins)
    }
    text = versions.get(package) or versions.get(package.removesuffix("-cpu"))
    return Version(text) if text else None
