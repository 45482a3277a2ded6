"""The cases that cells run, stored once for all of them: matrix/results/cases/<digest>.json.

By suite and release, then by opset and operators, the names. A content that several releases have is there once, under the
newest, with the oldest beside the opset: `13@1.8.1 Abs-13`. A cell names the file that it was recorded beside, the suites and
releases that it ran, and the cases that did not pass.
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
    """What is known of a case before it runs."""

    opset: int
    """Of the default domain; 0 where the model imports none."""
    operators: Tuple[str, ...]
    """Each as `domain::name-since`; without `-since`, a function of the model's own or one that is nowhere registered."""
    oldest: str = ""
    """The release since which every one has this content under this name; without, there is one."""


def known_cases(suites: Iterable[str]) -> Dict[str, Known]:
    """Those of the cache, by id."""
    from matrix.suites.cache import read_index  # with numpy and onnx, which nox has not

    found = {}
    for suite in suites:
        rows = read_index(suite)
        releases = list(dict.fromkeys(row.release for row in rows))  # an index is in their order
        contents = {(row.name, row.release): (row.hash, row.rtol, row.atol) for row in rows}
        newest = {contents[row.name, row.release]: row.release for row in rows}
        for row in rows:
            content = contents[row.name, row.release]
            if row.release == newest[content]:
                at = first = releases.index(row.release)
                while first and contents.get((row.name, releases[first - 1])) == content:
                    first -= 1
                oldest = releases[first] if first < at else ""
                found[row.id] = Known(row.opset.get("", 0), tuple(_versions(row)), oldest)
    return found


class Spans:
    """Where a case is, by the suite and the release that it was run from."""

    def __init__(self, cases: Dict[str, Known]) -> None:
        self._spans: Dict[Tuple[str, str], List[Tuple[Tuple[int, ...], Tuple[int, ...], str]]] = {}
        for id, case in cases.items():
            suite, release, name = id.split("/", 2)
            span = (_release(case.oldest or release), _release(release), id)
            self._spans.setdefault((suite, name), []).append(span)

    def find(self, id: str) -> Optional[str]:
        """Under which id a case is known that was run as this one."""
        suite, release, name = id.split("/", 2)
        at = _release(release)
        return next((known for first, last, known in self._spans.get((suite, name), ()) if first <= at <= last), None)

    def ran(self, groups: Iterable[str]) -> List[str]:
        """The cases of these suites and releases."""
        runs: Dict[str, List[Tuple[int, ...]]] = {}
        for group in groups:
            suite, release = group.split("/")
            runs.setdefault(suite, []).append(_release(release))
        return [
            id
            for (suite, _), spans in self._spans.items()
            for first, last, id in spans
            if any(first <= at <= last for at in runs.get(suite, ()))
        ]


def _release(text: str) -> Tuple[int, ...]:
    return tuple(int(part) for part in text.split(".") if part.isdigit())


def operator_name(operator: str) -> str:
    """Without the version."""
    return re.sub(r"-\d+$", "", operator)


def _versions(row: Any) -> List[str]:
    from onnx_compat.errors import UnsupportedError
    from onnx_compat.ops.registry import lookup

    found = []
    for operator in row.operators:
        domain, _, name = operator.rpartition("::")
        try:
            found.append("%s-%d" % (operator, lookup(domain, name, row.opset.get(domain, 1)).since))
        except UnsupportedError:
            found.append(operator)
    return found


def groups(cases: Dict[str, Known]) -> Dict[str, Dict[str, List[str]]]:
    """The names, by suite and release, then by opset and operators."""
    found: Dict[str, Dict[str, List[str]]] = {}
    for id in sorted(cases):
        group, _, name = id.rpartition("/")
        known = cases[id]
        since = "@" + known.oldest if known.oldest else ""
        key = "%d%s %s" % (known.opset, since, " ".join(known.operators))
        found.setdefault(group, {}).setdefault(key, []).append(name)
    return found


def write_cases(cases: Dict[str, Known], folder: Path) -> str:
    """Store them, and give the name under which they are."""
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
    """All that are stored, by their digests."""
    return {path.stem: _read(path) for path in sorted((folder / FOLDER).glob("*.json"))}


def prune_cases(named: Collection[Any], folder: Path) -> None:
    """Delete those that no cell names any more."""
    for path in (folder / FOLDER).glob("*.json"):
        if path.stem not in named:
            path.unlink()


def _read(path: Path) -> Dict[str, Known]:
    found: Dict[str, Known] = {}
    for group, rows in json.loads(path.read_text(encoding="utf-8")).items():
        for key, names in rows.items():
            told, *operators = key.split(" ")
            opset, _, oldest = told.partition("@")
            known = Known(int(opset), tuple(operators), oldest)
            found.update(("%s/%s" % (group, name), known) for name in names)
    return found
