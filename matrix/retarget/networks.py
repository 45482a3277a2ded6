"""The row `networks`: exported networks and trained networks of packages at older opsets, and how many nodes they get."""

from __future__ import annotations

import argparse
from collections import Counter
from statistics import median
from typing import Any, Dict, List, NamedTuple, Tuple

from matrix.real.catalog import load_networks
from matrix.real.fetch import fetch_files
from matrix.retarget.outcomes import GROWTH_AIM, RIGHT
from matrix.retarget.pool import ask_all
from matrix.retarget.result import Entry, Result
from matrix.suites.cache import read_index
from matrix.suites.wheels import FetchError

__all__ = ["OPSETS", "measure", "summarise"]

OPSETS = (11, 13, 17)


class Growth(NamedTuple):
    """The numbers of nodes of a network before and after its conversion, and of the source nodes that were composed."""

    before: int
    after: int
    composed: int


def measure(options: argparse.Namespace) -> Result:
    """Convert the networks to each target opset, and run the results in onnxruntime.

    Return an entry for each group (exported, real) and opset: the counts of outcomes, and the growth. Networks that are
    not right, and those that could not be fetched, are misses.
    """
    result = Result()
    groups: Dict[str, List[Tuple[str, Dict[str, Any]]]] = {"exported": exported_tasks(options.case)[:: options.every]}
    if not options.no_real:
        groups["real"], missing = real_tasks(options.case)
        result.misses += missing
    for group, networks in groups.items():
        for opset in options.opset or OPSETS:
            tasks = ({**task, "opset": opset} for _, task in networks)
            outcomes: Counter[str] = Counter()
            growths: List[Growth] = []
            for (name, _), (outcome, detail, *nodes) in zip(networks, ask_all("network_check", tasks, options.jobs)):
                outcomes[outcome] += 1
                growths += [Growth(*counts) for counts in nodes if counts]
                if outcome != RIGHT:
                    result.details.append({"network": name, "opset": opset, "outcome": outcome, "detail": detail})
                    result.misses.append("%s at opset %d: %s: %s" % (name, opset, outcome, detail))
            entry = {"group": group, "opset": opset, "counts": dict(outcomes), **summarise(growths)}
            result.entries["%s %d" % (group, opset)] = entry
            print(line(entry), flush=True)
            if entry["median"] > GROWTH_AIM:
                result.misses.append("%s at opset %d: median growth %.3f" % (group, opset, entry["median"]))
    return result


def exported_tasks(text: str) -> List[Tuple[str, Dict[str, Any]]]:
    """Return (name, task) of each network of the zoo whose name contains `text`.

    A task holds the arguments of `network_check.examine`, except `opset`.
    """
    rows = [row for row in read_index("zoo") if row.folder == row.id and text in row.name]
    return [(row.name, {"path": str(row.model), "case": list(row), "real": {}}) for row in rows]


def real_tasks(text: str) -> Tuple[List[Tuple[str, Dict[str, Any]]], List[str]]:
    """Fetch the trained networks of packages whose names contain `text`.

    Return (name, task) of each fetched network, and a text for each network that could not be fetched. A task holds the
    arguments of `network_check.examine`, except `opset`.
    """
    networks, missing = [], []
    for network in load_networks():
        if text not in network.name:
            continue
        try:
            path = fetch_files(network.package, [network.onnx])[network.onnx]
        except FetchError as error:
            missing.append("%s: %s" % (network.name, str(error).splitlines()[0]))
            continue
        inputs = {name: getattr(network, name) for name in ("shapes", "values", "fed", "ranges")}
        networks.append((network.name, {"path": str(path), "case": [], "real": inputs}))
    return networks, missing


def summarise(growths: List[Growth]) -> Entry:
    """Return how many networks have composed nodes, and the median and the largest growth of these networks.

    The growth is the nodes after divided by the nodes before; it is 1 if no network has composed nodes.
    """
    ratios = [growth.after / growth.before for growth in growths if growth.composed]
    return {"composed": len(ratios), "median": round(median(ratios or [1]), 3), "largest": round(max(ratios or [1]), 3)}


def line(entry: Entry) -> str:
    """Return an entry of the row `networks` as a line of text."""
    counts = ", ".join("%d %s" % (count, outcome) for outcome, count in sorted(entry["counts"].items()))
    return "%-8s opset %2d: %s; %d with composed nodes, of %.3f times the nodes (median; largest %.3f)" % (
        entry["group"],
        entry["opset"],
        counts,
        entry["composed"],
        entry["median"],
        entry["largest"],
    )
