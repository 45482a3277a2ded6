"""The cases that cells run, stored once for all of them: matrix/results/cases/<digest>.json.

By suite and release, then by opset and operators, the names. A content that several releases have is there once, under the
newest. A cell names the file that it was recorded beside, and only the cases that did not pass.
"""

from __future__ import annotations

import hashlib
import json
import re
from pathlib import Path
from typing import Any, Collection, Dict, Iterable, List, NamedTuple, Tuple

__all__ = ["Known", "groups", "known_cases", "load_cases", "operator_name", "prune_cases", "write_cases"]

FOLDER = "cases"


class Known(NamedTuple):
    """What is known of a case before it runs."""

    opset: int
    """Of the default domain; 0 where the model imports none."""
    operators: Tuple[str, ...]
    """Each as `domain::name-since`; without `-since`, a function of the model's own or one that is nowhere registered."""


def known_cases(suites: Iterable[str]) -> Dict[str, Known]:
    """Those of the cache, by id."""
    from matrix.suites.cache import read_index  # with numpy and onnx, which nox has not

    rows = [row for suite in suites for row in read_index(suite)]
    # An index is in the order of the releases: the last word is the newest one's.
    newest = {(row.suite, row.hash, row.rtol, row.atol): row.release for row in rows}
    return {
        row.id: Known(row.opset.get("", 0), tuple(_versions(row)))
        for row in rows
        if row.release == newest[row.suite, row.hash, row.rtol, row.atol]
    }


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
        key = "%d %s" % (cases[id].opset, " ".join(cases[id].operators))
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
            opset, *operators = key.split(" ")
            found.update(("%s/%s" % (group, name), Known(int(opset), tuple(operators))) for name in names)
    return found
