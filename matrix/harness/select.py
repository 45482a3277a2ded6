"""Selection of the cases of a run: those of the chosen suites and releases, in each of the chosen variants.

Equal cases of several releases are run once, under the id of the newest release.
"""

from __future__ import annotations

from typing import Any, Callable, Dict, Iterable, List, NamedTuple, Sequence, Tuple

from .variants import RECORDED

__all__ = ["Chosen", "NotFetched", "choose", "distinct", "variant_name"]

SUITES = ("node", "light", "pytorch-converted", "pytorch-operator", "simple")
GENERATED = ("light-random", "zoo")


class NotFetched(Exception):
    """A requested suite is not in the cache; the text names the session that fetches it."""


class Chosen(NamedTuple):
    """A case to run, every id under which its content is known, and the variant."""

    case: Any
    ids: List[str]
    variant: str = RECORDED

    @property
    def names(self) -> List[str]:
        """Names of the results of the case, one for each id."""
        return [variant_name(id, self.variant) for id in self.ids]


def choose(suite_names: str, read_index: Callable[[str], List[Any]], newest: bool = False) -> List[Any]:
    """Return the rows of the named suites, separated by comma or space.

    Without a name: the recorded suites, and the generated suites that are in the cache. `newest`: only the newest release of
    each suite. Raises NotFetched.
    """
    suites = suite_names.replace(",", " ").split()
    rows = {suite: read_index(suite) for suite in suites or (*SUITES, *GENERATED)}
    for suite, indexed in rows.items():
        if not indexed and (suites or suite in SUITES):
            raise NotFetched(
                "The suite '%s' is not in the cache. Run `nox -s %s`." % (suite, suite if "zoo" in suite else "suites")
            )
    return [row for indexed in rows.values() for row in indexed if not newest or row.release == indexed[-1].release]


def variant_name(id: str, variant: str) -> str:
    """Return the name of the result of a case in a variant."""
    return id if variant == RECORDED else "%s@%s" % (id, variant)


def distinct(rows: Iterable[Any], variants: Sequence[str] = (RECORDED,)) -> List[Chosen]:
    """Return each distinct content once for each variant."""
    by_content: Dict[Tuple[Any, ...], Chosen] = {}
    for row in rows:  # an index is sorted by release
        key = (row.suite, row.hash, row.rtol, row.atol)
        earlier = by_content.pop(key, None)
        by_content[key] = Chosen(row, [row.id, *(earlier.ids if earlier else [])])
    return [chosen._replace(variant=variant) for variant in variants for chosen in by_content.values()]
