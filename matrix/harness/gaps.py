"""Declared gaps, as data: failures that are expected of a shim. A gap fails if it is closed, stale, or of another kind.

An entry of a file:

    [[gap]]                              # in tests/gaps/<shim>.toml; in recorded.toml for every shim: the recorded result is wrong
    id = "node/*/test_gradient_of_add"   # or a list; `*` stands for all releases. Each case that it covers must fail
    when = ["tensorflow<2"]              # any of these conditions: see matrix/harness/conditions.py; ["*"]: everywhere
    kind = "framework"                   # ours: can be done here; framework: it cannot; never: has no meaning
    exception = "UnsupportedError"       # the exact class, or "Mismatch" for a wrong answer
    reason = "..."
    variants = ["unknown-dims"]          # if not in all variants of a case
    except_on = ["onnx"]                 # in recorded.toml: shims whose rounding gives the recorded result all the same
"""

from __future__ import annotations

import sys
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any, Collection, Dict, Iterable, List, NamedTuple, Optional, Union

from .conditions import holds
from .variants import RECORDED, VARIANTS

__all__ = ["KINDS", "Gap", "GapError", "find_gap", "find_stale", "load_gaps"]

KINDS = ("ours", "framework", "never")


class GapError(AssertionError):
    """An entry of a gap is malformed, several gaps cover one case, or a gap contradicts the result of its case.

    The result contradicts the gap if the case passes, or fails in another way.
    """


class Gap(NamedTuple):
    """A declared, expected failure of cases. An instance is one entry of a file; the module describes the fields."""

    id: Union[str, List[str]]
    when: List[str]
    kind: str
    exception: str
    reason: str
    variants: List[str] = list(VARIANTS)
    except_on: List[str] = []

    def covers(self, ids: Iterable[str], variant: str = RECORDED) -> bool:
        """Whether the gap holds for a case and a variant in this environment.

        `ids`: all ids of the case, one for each release that has it.
        """
        return variant in self.variants and self.names(ids) and holds(self.when)

    def names(self, ids: Iterable[str]) -> bool:
        """Whether a pattern of the gap matches one of the ids, in any environment and variant."""
        return any(fnmatchcase(id, pattern) for pattern in self.patterns for id in ids)

    @property
    def patterns(self) -> List[str]:
        """The patterns of `id`, also for a single text."""
        return [self.id] if isinstance(self.id, str) else self.id


def load_gaps(path: Path) -> List[Gap]:
    """Return the gaps that a TOML file declares; an empty list if there is no file.

    Raises GapError for a malformed entry.
    """
    return [_parse_gap(entry, path) for entry in _read_toml(path).get("gap", [])] if path.exists() else []


def find_gap(gaps: Iterable[Gap], ids: Collection[str], variant: str = RECORDED) -> Optional[Gap]:
    """Return the gap that covers a case in a variant in this environment, or None.

    `ids`: all ids of the case, one for each release of onnx that has it. Raises GapError if several gaps cover it.
    """
    matches = [gap for gap in gaps if gap.covers(ids, variant)]
    if len(matches) > 1:
        raise GapError("%s is declared %d times" % (next(iter(ids)), len(matches)))
    return matches[0] if matches else None


def find_stale(gaps: Iterable[Gap], known: Collection[str], suites: Collection[str]) -> List[str]:
    """Return the patterns of the gaps that match no id of a case in `known`.

    Patterns for suites that are not in `suites` are left out. `suites`: the suites whose cases are all in `known`.
    """
    patterns = [pattern for gap in gaps for pattern in gap.patterns if pattern.partition("/")[0] in suites]
    return [
        pattern for pattern in patterns if pattern not in known and not any(fnmatchcase(id, pattern) for id in known)
    ]


def _parse_gap(entry: Dict[str, Any], path: Path) -> Gap:
    """Return the gap of an entry of the file `path`. Raise GapError for wrong keys, variants, kinds or empty fields."""
    if {*entry, *Gap._field_defaults} != set(Gap._fields):
        raise GapError("%s: %s has the keys %s, not %s" % (path.name, entry.get("id"), sorted(entry), Gap._fields))
    gap = Gap(**entry)
    unknown = set(gap.variants) - set(VARIANTS)
    if unknown or not gap.variants:
        raise GapError("%s: %s: its variants are %s, of %s" % (path.name, gap.id, gap.variants, list(VARIANTS)))
    if gap.kind not in KINDS or not gap.when or not gap.reason.strip():
        raise GapError("%s: %s needs a kind of %s, conditions and a reason" % (path.name, gap.id, "/".join(KINDS)))
    return gap


def _read_toml(path: Path) -> Dict[str, Any]:
    if sys.version_info >= (3, 11):
        import tomllib
    else:
        import tomli as tomllib
    return tomllib.loads(path.read_text(encoding="utf-8"))
