"""Declared exceptions: tests of other converters' suites that fail with ours in place, each with its reason."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Dict

from matrix.data import ROOT

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

__all__ = ["DECLARED", "Exceptions", "load_exceptions"]

DECLARED = ROOT / "matrix" / "retarget" / "exceptions.toml"

Exceptions = Dict[str, Dict[str, str]]
"""Name of a suite -> test -> the reason why it fails."""


def load_exceptions(path: Path = DECLARED) -> Exceptions:
    """Return the declared exceptions. An entry has a suite, a list of tests, and their reason."""
    exceptions: Exceptions = {}
    for entry in tomllib.loads(path.read_text(encoding="utf-8")).get("exception", []):
        exceptions.setdefault(entry["suite"], {}).update(dict.fromkeys(entry["tests"], entry["reason"]))
    return exceptions
