"""Select the cases of a run: those of the chosen suites and releases, in each of the chosen variants.

If several releases of onnx have a case with equal content, it runs once, under the id of the newest release. A sample
has fewer cases of older releases, and fewer variants of networks: the gate runs it, and the nightly cells run all cases.
"""

from __future__ import annotations

from typing import Any, Callable, Dict, Iterable, List, NamedTuple, Sequence, Set, Tuple

from .variants import RECORDED

__all__ = ["Chosen", "NotFetched", "choose", "distinct", "sample", "variant_name"]

#: Two suites with the same graphs. A sample has the variant `recorded` of the suite whose weights are random, which show
#: more errors than its constant weights, and the other variants of the recorded suite.
RECORDED_WEIGHTS, RANDOM_WEIGHTS = "light", "light-random"
SUITES = ("node", "light", "pytorch-converted", "pytorch-operator", "simple")
GENERATED = ("light-random", "zoo")


class NotFetched(Exception):
    """A requested suite is not in the cache. The text names the nox session that fetches it."""


class Chosen(NamedTuple):
    """A case to run in a variant.

    `ids`: the ids of all cases with equal content, one for each release, the newest first.
    """

    case: Any
    ids: List[str]
    variant: str = RECORDED

    @property
    def names(self) -> List[str]:
        """Return the names under which the result of the case is stored, one for each id.

        An example: `node/1.18.0/test_abs@composed`.
        """
        return [variant_name(id, self.variant) for id in self.ids]


def choose(suite_names: str, read_index: Callable[[str], List[Any]], newest: bool = False) -> List[Any]:
    """Return the rows (cases) of the named suites. `suite_names`: names that are separated by comma or space.

    Without a name: all recorded suites, and those generated suites that are in the cache. `read_index`: the function
    from the name of a suite to its rows, oldest release first. `newest`: whether to return only the newest release of
    each suite. Raises NotFetched for a named or recorded suite that is not in the cache.
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
    """Return the name of a case's result in a variant: `<id>@<variant>`, or the id alone for the variant `recorded`."""
    return id if variant == RECORDED else "%s@%s" % (id, variant)


def distinct(rows: Iterable[Any], variants: Sequence[str] = (RECORDED,)) -> List[Chosen]:
    """Return the cases to run: each distinct content once, under the id of its newest release, in each variant.

    `rows` are sorted by release. Rows of different suites or with different tolerances are distinct.
    """
    by_content: Dict[Tuple[Any, ...], Chosen] = {}
    for row in rows:  # an index is sorted by release
        key = (row.suite, row.hash, row.rtol, row.atol)
        earlier = by_content.pop(key, None)
        by_content[key] = Chosen(row, [row.id, *(earlier.ids if earlier else [])])
    return [chosen._replace(variant=variant) for variant in variants for chosen in by_content.values()]


def sample(chosen: Sequence[Chosen], operator_versions: Callable[[Any], Iterable[str]]) -> List[Chosen]:
    """Return the cases of a sample, in their order.

    - of the newest release of each suite: all cases
    - of older releases: the cases with a version of an operator that no case of a newer release in the sample has

    Cases of `light-random` are in the sample in the variant `recorded` only. If `chosen` has cases of `light-random`,
    cases of `light` are in the sample in the other variants only.

    `operator_versions`: the function that returns the versions of the operators of a case, such as `Conv-11`.
    """
    newest = {entry.case.suite: entry.case.release for entry in chosen}  # an index is sorted by release
    has_random = RANDOM_WEIGHTS in newest
    kept: Set[int] = set()
    seen: Dict[Tuple[str, str], Set[str]] = {}
    for position in sorted(range(len(chosen)), key=lambda position: -position):
        case, _, variant = chosen[position]
        if case.suite == (RANDOM_WEIGHTS if variant != RECORDED else RECORDED_WEIGHTS if has_random else None):
            continue
        versions = set(operator_versions(case))
        seen_versions = seen.setdefault((case.suite, variant), set())
        if case.release == newest[case.suite] or not versions <= seen_versions:
            kept.add(position)
            seen_versions |= versions
    return [entry for position, entry in enumerate(chosen) if position in kept]
