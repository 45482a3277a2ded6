"""Declared gaps: what a shim is known not to do, as data. A gap that is closed, stale or of another kind is a failure.

[[gap]]                                    # tests/gaps/<shim>.toml
id = "simple/1.23.2/test_gradient_of_add"  # exact
cells = ["tf1-*"]                          # patterns of cells; ["*"]: all, and also outside of any cell
kind = "framework"                         # ours: to be done here; framework: it cannot; never: makes no sense
exception = "UnsupportedError"             # the exact class, or "Mismatch" for a wrong answer
reason = "..."
"""

from __future__ import annotations

import sys
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any, Collection, Dict, Iterable, List, NamedTuple, Optional

__all__ = ["KINDS", "Gap", "GapError", "find_gap", "load_gaps", "stale"]

KINDS = ("ours", "framework", "never")


class GapError(AssertionError):
    """A declared gap does not say what happens: it is closed, stale, of another kind, or not well-formed."""


class Gap(NamedTuple):
    id: str
    cells: List[str]
    kind: str
    exception: str
    reason: str

    def covers(self, ids: Collection[str], cell: str) -> bool:
        return self.id in ids and any(fnmatchcase(cell, pattern) for pattern in self.cells)


def load_gaps(path: Path) -> List[Gap]:
    """The gaps of a file, none when there is no such file."""
    return [_gap(entry, path) for entry in _read_toml(path).get("gap", [])] if path.exists() else []


def find_gap(gaps: Iterable[Gap], ids: Collection[str], cell: str) -> Optional[Gap]:
    """The gap for a case, which may have several ids: the same case in several releases."""
    found = [gap for gap in gaps if gap.covers(ids, cell)]
    if len(found) > 1:
        raise GapError("%s is declared %d times for cell '%s'" % (found[0].id, len(found), cell))
    return found[0] if found else None


def stale(gaps: Iterable[Gap], known: Collection[str], suites: Collection[str]) -> List[Gap]:
    """The gaps that name no case of these suites, though they name one of the suites."""
    return [gap for gap in gaps if gap.id.partition("/")[0] in suites and gap.id not in known]


def _gap(entry: Dict[str, Any], path: Path) -> Gap:
    if set(entry) != set(Gap._fields):
        raise GapError("%s: %s has the keys %s, not %s" % (path.name, entry.get("id"), sorted(entry), Gap._fields))
    gap = Gap(**entry)
    if gap.kind not in KINDS or not gap.cells or not gap.reason.strip():
        raise GapError("%s: %s needs a kind of %s, cells and a reason" % (path.name, gap.id, "/".join(KINDS)))
    return gap


def _read_toml(path: Path) -> Dict[str, Any]:
    if sys.version_info >= (3, 11):
        import tomllib
    else:
        import tomli as tomllib
    return tomllib.loads(path.read_text(encoding="utf-8"))
