"""The row `nodes`: how many cases of the newest node suite are right at each target, by ours and by other converters."""

from __future__ import annotations

import argparse
from collections import Counter
from typing import List

from matrix.retarget.exceptions import load_inexpressible
from matrix.retarget.outcomes import (
    BY_REFERENCE,
    CONVERTERS,
    CRASHED,
    NEVER,
    OF_NODES,
    OURS,
    REFUSED,
    RIGHT,
    SHARE_AIM,
    UNTYPED,
    entry_key,
    right_count,
    total_count,
)
from matrix.retarget.pool import ask_all
from matrix.retarget.result import Entry, Result
from matrix.suites.cache import Case, read_index

__all__ = ["OPSETS", "line", "measure", "misses"]

OPSETS = (9, 11, 13, 15, 17, 18, 21, 23, 25)


def measure(options: argparse.Namespace) -> Result:
    """Convert the cases to each target opset with each converter, and run the results.

    Return an entry for each converter and opset, with the counts of the outcomes. An entry of this project also has
    `refused`: operator -> the number of cases that are not right. For other outcomes than REFUSED, the outcome is in
    the operator's place.
    """
    result = Result()
    cases = newest_cases(options.case)[:: options.every]
    for converter in options.converter or CONVERTERS:
        for opset in options.opset or OPSETS:
            tasks = ({"case": list(case), "converter": converter, "opset": opset} for case in cases)
            counted: Counter[str] = Counter()
            refused: Counter[str] = Counter()
            for case, (outcome, detail) in zip(cases, ask_all("node_check", tasks, options.jobs)):
                counted[outcome] += 1
                if outcome not in (RIGHT, UNTYPED):
                    about = {"converter": converter, "opset": opset, "case": case.name}
                    result.details.append({**about, "outcome": outcome, "detail": detail})
                if outcome not in (RIGHT, BY_REFERENCE, UNTYPED):
                    refused[detail.partition(": ")[0] if outcome == REFUSED else outcome] += 1
            entry: Entry = {"converter": converter, "opset": opset, "counts": dict(counted)}
            result.entries[entry_key(converter, opset)] = entry
            print(line(entry), flush=True)
            if converter == OURS:
                entry["refused"] = dict(sorted(refused.items()))
                result.misses += misses(entry)
    return result


def newest_cases(text: str) -> List[Case]:
    """Return the node cases of the newest release of onnx, as far as their names contain `text`."""
    rows = read_index("node")
    return [row for row in rows if row.release == rows[-1].release and text in row.name]


def line(entry: Entry) -> str:
    """Return an entry as a line of text: the percentage of right cases, and the number of cases with each outcome.

    Cases with the outcome UNTYPED are left out of the percentage.
    """
    counts = entry["counts"]
    text = ", ".join("%d %s" % (counts[name], name) for name in (*OF_NODES, CRASHED) if counts.get(name))
    about = entry["converter"], entry["opset"], percentage(entry), total_count(counts), text
    return "%-12s opset %2d: %5.1f %% of %d: %s" % about


def percentage(entry: Entry) -> float:
    """Return the percentage of right cases among the cases that count; 0 if none counts."""
    return 100 * right_count(entry["counts"]) / max(total_count(entry["counts"]), 1)


def misses(entry: Entry) -> List[str]:
    """Return a text for each aim that an entry of this project misses."""
    counts = entry["counts"]
    texts = ["opset %d: %d %s" % (entry["opset"], counts[name], name) for name in NEVER if counts.get(name)]
    if percentage(entry) < 100 * SHARE_AIM:
        texts.append("opset %d: %.1f %% are right" % (entry["opset"], percentage(entry)))
    declared = {known.operator for known in load_inexpressible() if entry["opset"] < known.before}
    for operator, count in entry.get("refused", {}).items():
        if operator not in declared and operator not in NEVER:
            texts.append("opset %d: %d cases of %s have no declared reason" % (entry["opset"], count, operator))
    return texts
