"""The cases of all cells, stored once: matrix/results/cases/<digest>.json.

The file lists the names of the cases by suite and release, then by opset and operators. A case with equal content in
several releases is stored under the newest release. The oldest release is added to the opset: `13@1.8.1 Abs-13`.

The results of a cell name this file, the suites and releases that the cell ran, and the cases that did not pass.
"""

from __future__ import annotations

import hashlib
import json
import re
from pathlib import Path
from typing import Any, Collection, Dict, Iterable, List, NamedTuple, Optional, Tuple

__all__ = ["Known", "Spans", "groups", "known_cases", "load_cases", "operator_name", "prune_cases", "write_cases"]

FOLDER = "cases"


class Known(NamedTuple):
    """Properties of a case that are known before it runs."""

    opset: int
    """The opset of the default domain; 0 if the model does not import the domain."""
    operators: Tuple[str, ...]
    """The operators as `domain::name-since`; without `-since` for a function of the model or an unregistered operator."""
    oldest: str = ""
    """The oldest of consecutive releases in which the case has this content; "" if there is only one such release."""


def known_cases(suites: Iterable[str]) -> Dict[str, Known]:
    """Return id -> properties, for the cases of these suites in the cache.

    Equal content is listed once, under its newest release.
    """
    from matrix.suites.cache import read_index  # needs numpy and onnx, which the environment of nox lacks

    known = {}
    for suite in suites:
        rows = read_index(suite)
        releases = list(dict.fromkeys(row.release for row in rows))  # an index is sorted by release
        contents = {(row.name, row.release): (row.hash, row.rtol, row.atol) for row in rows}
        newest = {contents[row.name, row.release]: row.release for row in rows}
        for row in rows:
            content = contents[row.name, row.release]
            if row.release == newest[content]:
                position = first = releases.index(row.release)
                while first and contents.get((row.name, releases[first - 1])) == content:
                    first -= 1
                oldest = releases[first] if first < position else ""
                known[row.id] = Known(row.opset.get("", 0), tuple(_versioned_operators(row)), oldest)
    return known


class Spans:
    """Index of the stored cases by their range of releases (oldest to newest with equal content).

    `cases`: id -> properties of each stored case.
    """

    def __init__(self, cases: Dict[str, Known]) -> None:
        self._spans: Dict[Tuple[str, str], List[Tuple[Tuple[int, ...], Tuple[int, ...], str]]] = {}
        for id, case in cases.items():
            suite, release, name = id.split("/", 2)
            span = (_release(case.oldest or release), _release(release), id)
            self._spans.setdefault((suite, name), []).append(span)

    def find(self, id: str) -> Optional[str]:
        """Return the id under which a case is stored. `id`: the id under which the case was run.

        None: the case is not stored.
        """
        suite, release, name = id.split("/", 2)
        version = _release(release)
        return next(
            (known for first, last, known in self._spans.get((suite, name), ()) if first <= version <= last), None
        )

    def ran(self, groups: Iterable[str]) -> List[str]:
        """Return the ids of the stored cases that a run of these groups has. A group is `suite/release`.

        A stored case belongs to a group if its range of releases contains the release.
        """
        runs: Dict[str, List[Tuple[int, ...]]] = {}
        for group in groups:
            suite, release = group.split("/")
            runs.setdefault(suite, []).append(_release(release))
        return [
            id
            for (suite, _), spans in self._spans.items()
            for first, last, id in spans
            if any(first <= version <= last for version in runs.get(suite, ()))
        ]


def _release(text: str) -> Tuple[int, ...]:
    """Return the numbers of a release: (1, 18, 0) for `1.18.0`."""
    return tuple(int(part) for part in text.split(".") if part.isdigit())


def operator_name(operator: str) -> str:
    """Return the name of an operator without its version: `Abs` for `Abs-13`."""
    return re.sub(r"-\d+$", "", operator)


def _versioned_operators(row: Any) -> List[str]:
    """Return the operators of a row of the index as `domain::name-since`, or without `-since` if the registry lacks the
    operator.
    """
    from onnx_compat.errors import UnsupportedError
    from onnx_compat.ops.registry import lookup

    versions = []
    for operator in row.operators:
        domain, _, name = operator.rpartition("::")
        try:
            versions.append("%s-%d" % (operator, lookup(domain, name, row.opset.get(domain, 1)).since))
        except UnsupportedError:
            versions.append(operator)
    return versions


def groups(cases: Dict[str, Known]) -> Dict[str, Dict[str, List[str]]]:
    """Return `suite/release` -> `opset operators` -> names of the cases: the form in which the cases are stored."""
    by_group: Dict[str, Dict[str, List[str]]] = {}
    for id in sorted(cases):
        group, _, name = id.rpartition("/")
        case = cases[id]
        since = "@" + case.oldest if case.oldest else ""
        key = "%d%s %s" % (case.opset, since, " ".join(case.operators))
        by_group.setdefault(group, {}).setdefault(key, []).append(name)
    return by_group


def write_cases(cases: Dict[str, Known], folder: Path) -> str:
    """Store the cases in the folder `cases` of `folder`, unless they are stored.

    Return their digest, which names the file.
    """
    lines = []
    for group, rows in groups(cases).items():
        inner = ",\n".join("  %s: %s" % (json.dumps(key), json.dumps(rows[key])) for key in sorted(rows))
        lines.append(" %s: {\n%s\n }" % (json.dumps(group), inner))
    text = "{\n%s\n}\n" % ",\n".join(lines)
    digest = hashlib.sha256(text.encode("utf-8")).hexdigest()[:10]
    path = folder / FOLDER / ("%s.json" % digest)
    if not path.exists():
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
    return digest


def load_cases(folder: Path) -> Dict[str, Dict[str, Known]]:
    """Return digest -> (id -> properties), for all stored files of cases."""
    return {path.stem: _read(path) for path in sorted((folder / FOLDER).glob("*.json"))}


def prune_cases(named: Collection[Any], folder: Path) -> None:
    """Delete the stored files of cases whose digest is not in `named`."""
    for path in (folder / FOLDER).glob("*.json"):
        if path.stem not in named:
            path.unlink()


def _read(path: Path) -> Dict[str, Known]:
    """Return id -> properties, from a stored file in the form that `groups` returns."""
    cases: Dict[str, Known] = {}
    for group, rows in json.loads(path.read_text(encoding="utf-8")).items():
        for key, names in rows.items():
            head, *operators = key.split(" ")
            opset, _, oldest = head.partition("@")
            known = Known(int(opset), tuple(operators), oldest)
            cases.update(("%s/%s" % (group, name), known) for name in names)
    return cases
