"""Which cases a run is of: those of the chosen suites and releases, each content once under the id of its newest release,
in each of the chosen variants.
"""

from __future__ import annotations

from typing import Any, Callable, Dict, Iterable, List, NamedTuple, Sequence, Tuple

from .variants import RECORDED

__all__ = ["Chosen", "NotFetched", "choose", "distinct", "named"]

SUITES = ("node", "light", "pytorch-converted", "pytorch-operator", "simple")
GENERATED = ("light-random", "zoo")


class NotFetched(Exception):
    """A suite that was asked for is not in the cache; says how it comes there."""


class Chosen(NamedTuple):
    """A case to run, every id under which its content is known, and the way in which to run it."""

    case: Any
    ids: List[str]
    variant: str = RECORDED

    @property
    def names(self) -> List[str]:
        """What its results are counted under, one for each id."""
        return [named(id, self.variant) for id in self.ids]


def choose(told: str, read_index: Callable[[str], List[Any]], newest: bool = False) -> List[Any]:
    """The rows of the suites told, by comma or space; else of the recorded ones, and of the generated ones that are there.

    `newest`: only those of the newest release of each.
    """
    suites = told.replace(",", " ").split()
    rows = {suite: read_index(suite) for suite in suites or (*SUITES, *GENERATED)}
    for suite, found in rows.items():
        if not found and (suites or suite in SUITES):
            raise NotFetched(
                "the suite '%s' is not in the cache: nox -s %s" % (suite, suite if "zoo" in suite else "suites")
            )
    return [row for found in rows.values() for row in found if not newest or row.release == found[-1].release]


def named(id: str, variant: str) -> str:
    return id if variant == RECORDED else "%s@%s" % (id, variant)


def distinct(rows: Iterable[Any], variants: Sequence[str] = (RECORDED,)) -> List[Chosen]:
    """Each content once for each variant."""
    found: Dict[Tuple[Any, ...], Chosen] = {}
    for row in rows:  # an index is in the order of the releases
        key = (row.suite, row.hash, row.rtol, row.atol)
        earlier = found.pop(key, None)
        found[key] = Chosen(row, [row.id, *(earlier.ids if earlier else [])])
    return [chosen._replace(variant=variant) for variant in variants for chosen in found.values()]
