"""Which cases a run is of: those of the chosen suites, each content once under the id of its newest release."""

from __future__ import annotations

from typing import Any, Callable, Dict, Iterable, List, NamedTuple, Tuple

__all__ = ["Chosen", "NotFetched", "choose", "distinct"]

RECORDED = ("light", "pytorch-converted", "pytorch-operator", "simple")
GENERATED = ("light-random", "zoo")


class NotFetched(Exception):
    """A suite that was asked for is not in the cache; says how it comes there."""


class Chosen(NamedTuple):
    """A case to run, and every id under which its content is known."""

    case: Any
    ids: List[str]


def choose(told: str, read_index: Callable[[str], List[Any]]) -> List[Any]:
    """The rows of the suites told, by comma or space; else of the recorded ones, and of the generated ones that are there."""
    suites = told.replace(",", " ").split()
    rows = {suite: read_index(suite) for suite in suites or (*RECORDED, *GENERATED)}
    for suite, found in rows.items():
        if not found and (suites or suite in RECORDED):
            module = "zoo generate" if suite.startswith("zoo") else "suites fetch %s --onnx VERSION" % suite
            raise NotFetched("the suite '%s' is not in the cache: python -m matrix.%s" % (suite, module))
    return [row for found in rows.values() for row in found]


def distinct(rows: Iterable[Any]) -> List[Chosen]:
    found: Dict[Tuple[Any, ...], Chosen] = {}
    for row in rows:  # an index is in the order of the releases
        key = (row.suite, row.hash, row.rtol, row.atol)
        earlier = found.pop(key, None)
        found[key] = Chosen(row, [row.id, *(earlier.ids if earlier else [])])
    return list(found.values())
