"""The row `round_trip`: ONNX to a program to ONNX, three times, over all recorded cases."""

from __future__ import annotations

import argparse
from collections import Counter
from typing import Dict, List, Optional

from matrix.harness.select import choose, distinct
from matrix.retarget.exceptions import Reason, load_round_trips
from matrix.retarget.outcomes import FIXED_POINT, NO_PROGRAM, OF_ROUND_TRIPS, VOID
from matrix.retarget.pool import ask_all
from matrix.retarget.result import Entry, Result
from matrix.suites.cache import Case, read_index

__all__ = ["group_cases", "is_miss", "line", "measure"]


def measure(options: argparse.Namespace) -> Result:
    """Check the round trip of the programs of the cases. Return the counts of outcomes of each group.

    A group is `suite/release`. Each case that is wrong, changed, refused or crashed is a miss, unless round_trip.toml
    declares its outcome with a reason. A declared case with another outcome is a miss, too.
    """
    result = Result()
    reasons = load_round_trips()
    for group, cases in group_cases(options.suite or [], options.case).items():
        chosen = cases[:: options.every]
        counted: Counter[str] = Counter()
        tasks = ({"case": list(case)} for case in chosen)
        for case, (outcome, detail) in zip(chosen, ask_all("round_trip_check", tasks, options.jobs)):
            counted[outcome] += 1
            declared = reasons.get(group, {}).get(case.name)
            if outcome not in (FIXED_POINT, NO_PROGRAM, VOID):
                result.details.append({"case": case.id, "outcome": outcome, "detail": detail})
            if is_miss(outcome, declared):
                expected = "" if declared is None else " (declared as %s)" % declared.kind
                result.misses.append("%s: %s%s: %s" % (case.id, outcome, expected, detail))
        result.entries[group] = {"counts": dict(counted)}
        print(line(group, result.entries[group]), flush=True)
    return result


def is_miss(outcome: str, declared: Optional[Reason]) -> bool:
    """Whether a case has another outcome than the declared one; without a declaration: whether it is no fixed point."""
    return outcome != declared.kind if declared is not None else outcome not in (FIXED_POINT, NO_PROGRAM, VOID)


def group_cases(suites: List[str], text: str) -> Dict[str, List[Case]]:
    """Return `suite/release` -> its cases whose names contain `text`, each distinct content once.

    `suites`: names of suites, or keys such as `node/1.18.0`; empty: all suites. Raise NotFetched if one is not in the
    cache.
    """
    names = " ".join(sorted({suite.partition("/")[0] for suite in suites}))
    groups: Dict[str, List[Case]] = {}
    for chosen in distinct(choose(names, read_index)):
        case: Case = chosen.case
        group = "%s/%s" % (case.suite, case.release)
        if text in case.name and (not suites or case.suite in suites or group in suites):
            groups.setdefault(group, []).append(case)
    return groups


def line(group: str, entry: Entry) -> str:
    """Return the counts of outcomes of a group as a line of text."""
    counts = entry["counts"]
    names = [*OF_ROUND_TRIPS, *sorted(counts.keys() - set(OF_ROUND_TRIPS))]
    return "%-24s %s" % (group, ", ".join("%d %s" % (counts[name], name) for name in names if counts.get(name)))
