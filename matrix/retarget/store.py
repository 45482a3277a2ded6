"""Stored figures: matrix/retarget/measured.json, from which docs/retarget.md is rendered."""

from __future__ import annotations

import json
from importlib import metadata
from pathlib import Path
from typing import Any, Dict

from matrix.data import ROOT
from matrix.retarget.result import Result

__all__ = ["MEASURED", "load_measured", "record"]

MEASURED = ROOT / "matrix" / "retarget" / "measured.json"
_PACKAGES = ("numpy", "onnx", "onnxruntime", "onnxscript", "onnxsim", "onnxslim")


def load_measured(path: Path = MEASURED) -> Dict[str, Any]:
    """Return the stored document: `versions` (package -> version) and `rows` (row -> key -> entry)."""
    document: Dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    return document


def record(row: str, result: Result, revision: str, path: Path = MEASURED) -> None:
    """Store the entries of a row, each with the revision of the code, and the versions of the installed packages.

    Stored entries with other keys stay. The file at `path` is created if it is missing.
    """
    document = load_measured(path) if path.exists() else {"versions": {}, "rows": {}}
    document["versions"] = {**document["versions"], **_versions()}
    entries = document["rows"].setdefault(row, {})
    entries.update((key, {**entry, "revision": revision}) for key, entry in result.entries.items())
    path.write_text(format_document(document), encoding="utf-8")


def format_document(document: Dict[str, Any]) -> str:
    """Return the document as JSON with one line for each entry, so that a change of an entry changes one line."""
    rows = []
    for row, entries in document["rows"].items():
        lines = ["   %s: %s" % (json.dumps(key), json.dumps(entries[key])) for key in entries]
        rows.append("  %s: {\n%s\n  }" % (json.dumps(row), ",\n".join(lines)))
    versions = json.dumps(document["versions"], sort_keys=True)
    return '{\n "versions": %s,\n "rows": {\n%s\n }\n}\n' % (versions, ",\n".join(rows))


def _versions() -> Dict[str, str]:
    """Return package -> version, for the installed packages that decide the figures."""
    versions = {}
    for name in _PACKAGES:
        try:
            versions[name] = metadata.version(name)
        except metadata.PackageNotFoundError:
            continue
    return versions
