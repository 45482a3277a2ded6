"""Declared gaps: what a shim is known not to do, as data. A gap that is closed, stale or of another kind is a failure.

[[gap]]                              # tests/gaps/<shim>.toml; recorded.toml, for every shim: what was recorded is wrong
id = "node/*/test_gradient_of_add"   # or several in a list; `*` is of all releases. Each case that it covers must fail
cells = ["tf1-*"]                    # patterns of cells; ["*"]: all, and also outside of any cell
kind = "framework"                   # ours: to be done here; framework: it cannot; never: makes no sense
exception = "UnsupportedError"       # the exact class, or "Mismatch" for a wrong answer
reason = "..."
variants = ["unknown-dims"]          # if not in all ways in which a case can be run
"""

from __future__ import annotations

import sys
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any, Collection, Dict, Iterable, List, NamedTuple, Optional, Union

from .variants import RECORDED, VARIANTS

__all__ = ["KINDS", "Gap", "GapError", "find_gap", "load_gaps", "stale"]

KINDS = ("ours", "framework", "never")


class GapError(AssertionError):
    """A declared gap does not say what happens: it is closed, stale, of another kind, or not well-formed."""


class Gap(NamedTuple):
    id: Union[str, List[str]]
    cells: List[str]
    kind: str
    exception: str
    reason: str
    variants: List[str] = list(VARIANTS)

    def covers(self, ids: Iterable[str], cell: str, variant: str = RECORDED) -> bool:
        here = variant in self.variants and any(fnmatchcase(cell, pattern) for pattern in self.cells)
        return here and self.names(ids)

    def names(self, ids: Iterable[str]) -> bool:
        return any(fnmatchcase(id, pattern) for pattern in self.patterns for id in ids)

    @property
    def patterns(self) -> List[str]:
        return [self.id] if isinstance(self.id, str) else self.id


def load_gaps(path: Path) -> List[Gap]:
    """The gaps of a file, none when there is no such file."""
    return [_gap(entry, path) for entry in _read_toml(path).get("gap", [])] if path.exists() else []


def find_gap(gaps: Iterable[Gap], ids: Collection[str], cell: str, variant: str = RECORDED) -> Optional[Gap]:
    """The gap for a case, which may have several ids: the same case in several releases."""
    found = [gap for gap in gaps if gap.covers(ids, cell, variant)]
    if len(found) > 1:
        raise GapError("%s is declared %d times for cell '%s'" % (next(iter(ids)), len(found), cell))
    return found[0] if found else None


def stale(gaps: Iterable[Gap], known: Collection[str], suites: Collection[str]) -> List[str]:
    """What names no case of these suites, though it names one of the suites."""
    named = [pattern for gap in gaps for pattern in gap.patterns if pattern.partition("/")[0] in suites]
    return [pattern for pattern in named if pattern not in known and not any(fnmatchcase(id, pattern) for id in known)]


def _gap(entry: Dict[str, Any], path: Path) -> Gap:
    if {*entry, "variants"} != set(Gap._fields):
        raise GapError("%s: %s has the keys %s, not %s" % (path.name, entry.get("id"), sorted(entry), Gap._fields))
    gap = Gap(**entry)
    unknown = set(gap.variants) - set(VARIANTS)
    if unknown or not gap.variants:
        raise GapError("%s: %s: its variants are %s, of %s" % (path.name, gap.id, gap.variants, list(VARIANTS)))
    if gap.kind not in KINDS or not gap.cells or not gap.reason.strip():
        raise GapError("%s: %s needs a kind of %s, cells and a reason" % (path.name, gap.id, "/".join(KINDS)))
    return gap


def _read_toml(path: Path) -> Dict[str, Any]:
    if sys.version_info >= (3, 11):
        import tomllib
    else:
        import tomli as tomllib
    return tomllib.loads(path.read_text(encoding="utf-8"))
