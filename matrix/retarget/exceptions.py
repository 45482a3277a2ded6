"""Declared exceptions, each with its reason.

- Tests of other converters' suites that fail with ours in place.
- Operators that older opsets cannot express, whose node cases are refused.
- Cases whose second writing is no fixed point.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Dict, List, NamedTuple, Sequence

from matrix.data import ROOT

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

from matrix.retarget import outcomes

__all__ = [
    "DECLARED",
    "FORM",
    "KINDS",
    "MORE",
    "REFUSED",
    "ROUND_TRIPS",
    "Exceptions",
    "Inexpressible",
    "Reason",
    "load_exceptions",
    "load_inexpressible",
    "load_round_trips",
]

DECLARED = ROOT / "matrix" / "retarget" / "exceptions.toml"
ROUND_TRIPS = ROOT / "matrix" / "retarget" / "round_trip.toml"

KINDS = (MORE, FORM, REFUSED) = ("more", "form", "refused")
"""The kinds of exceptions.

- more: ours converts a model whose conversion the suite expects to fail.
- form: the suite expects nodes that its own converter writes.
- refused: ours refuses the model.
"""


class Reason(NamedTuple):
    """A declared exception: its kind, one of `KINDS`, and the reason why the test fails, as text.

    Of a case of a round trip, the kind is its outcome.
    """

    kind: str
    text: str


class Inexpressible(NamedTuple):
    """An operator that no opset below `before` can express, and the reason: which operator would be needed."""

    operator: str
    before: int
    reason: str


Exceptions = Dict[str, Dict[str, Reason]]
"""Name of a suite -> test -> the reason why it fails."""


def load_exceptions(path: Path = DECLARED, kinds: Sequence[str] = KINDS) -> Exceptions:
    """Return the exceptions that the TOML file `path` declares: suite -> test -> reason.

    Raise ValueError for a kind that is not in `kinds`.
    """
    exceptions: Exceptions = {}
    for entry in tomllib.loads(path.read_text(encoding="utf-8")).get("exception", []):
        reason = Reason(entry["kind"], entry["reason"])
        if reason.kind not in kinds:
            raise ValueError(
                "%s: an exception has the kind '%s', not one of %s" % (path.name, reason.kind, ", ".join(kinds))
            )
        exceptions.setdefault(entry["suite"], {}).update(dict.fromkeys(entry["tests"], reason))
    return exceptions


def load_inexpressible(path: Path = DECLARED) -> List[Inexpressible]:
    """Return the operators that the TOML file `path` declares as inexpressible in older opsets."""
    return [Inexpressible(**entry) for entry in tomllib.loads(path.read_text(encoding="utf-8"))["inexpressible"]]


def load_round_trips() -> Exceptions:
    """Return `suite/release` -> name of a case -> why its second writing is no fixed point, or cannot be read."""
    return load_exceptions(ROUND_TRIPS, (outcomes.CHANGED, outcomes.REFUSED))
