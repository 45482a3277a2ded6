"""Select the cases of a run: those of the chosen suites and releases, in each of the chosen variants.

If several releases of onnx have a case with equal content, it runs once, under the id of the newest release. A sample
has fewer cases of older releases, fewer networks, and fewer models in other variants than `recorded`: the gate runs it,
and the nightly cells run all cases.
"""

from __future__ import annotations

from typing import Any, Callable, Dict, FrozenSet, Iterable, List, NamedTuple, Sequence, Set, Tuple

from .variants import COMPOSED, RECORDED

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


def sample(
    chosen: Sequence[Chosen], operator_versions: Callable[[Any], Iterable[str]], natives: Callable[[], Set[str]]
) -> List[Chosen]:
    """Return the cases of a sample, in their order. These are left out:

    - Cases of older releases, except those with a version of an operator that no case of a newer release in the sample
      has.
    - Cases of `light-random` in other variants than `recorded`. If `chosen` has cases of `light-random`: cases of
      `light` in the variant `recorded`.
    - Cases without a native operator in the variant `composed`, because they run as in the variant `recorded`.
    - Cases that are covered: they have several operators, and one earlier case has all their versions and their tags.
      In the variant `recorded`, only networks are left out for this reason.

    - operator_versions: the function that returns the versions of the operators of a case, such as `Conv-11`.
    - natives: the function that returns the operators that the shim implements as a whole, such as `LSTM`. It is called
      only if `chosen` has the variant `composed`.
    """
    newest = {entry.case.suite: entry.case.release for entry in chosen}  # an index is sorted by release
    native = natives() if any(entry.variant == COMPOSED for entry in chosen) else set()
    positions = [k for k, entry in enumerate(chosen) if not _is_repeated(entry, RANDOM_WEIGHTS in newest, native)]
    versions = {position: frozenset(operator_versions(chosen[position].case)) for position in positions}
    covered = _find_covered(
        (k, chosen[k], versions[k]) for k in positions if chosen[k].case.release == newest[chosen[k].case.suite]
    )
    kept: Set[int] = set()
    seen: Dict[Tuple[str, str], Set[str]] = {}
    for position in reversed(positions):
        case, _, variant = chosen[position]
        seen_versions = seen.setdefault((case.suite, variant), set())
        is_new = not versions[position] <= seen_versions
        if position not in covered and (is_new or case.release == newest[case.suite]):
            kept.add(position)
            seen_versions |= versions[position]
    return [entry for position, entry in enumerate(chosen) if position in kept]


def _is_repeated(entry: Chosen, has_random: bool, natives: Set[str]) -> bool:
    """Whether a sample has the graph of a case in the same variant with other weights, or the same run in another variant.

    `has_random`: whether the sample has cases of `light-random`. `natives`: the native operators of the shim.
    """
    if entry.variant == COMPOSED and natives.isdisjoint(entry.case.operators):
        return True
    left_out = RANDOM_WEIGHTS if entry.variant != RECORDED else RECORDED_WEIGHTS if has_random else None
    return bool(entry.case.suite == left_out)


def _find_covered(entries: Iterable[Tuple[int, Chosen, FrozenSet[str]]]) -> Set[int]:
    """Return the positions of the cases that are covered, as `sample` defines it.

    `entries`: (position, case, versions of its operators).
    """
    covered: Set[int] = set()
    earlier: Dict[Tuple[str, str, Tuple[str, ...]], List[FrozenSet[str]]] = {}
    for position, (case, _, variant), versions in entries:
        if len(versions) < 2 or (variant == RECORDED and case.suite not in (RECORDED_WEIGHTS, RANDOM_WEIGHTS)):
            continue
        kept_versions = earlier.setdefault((case.suite, variant, tuple(case.tags)), [])
        if any(versions <= kept for kept in kept_versions):
            covered.add(position)
        else:
            kept_versions.append(versions)
    return covered
