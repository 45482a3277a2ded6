"""The common set of cases, on which the newest run of each line is compared, and the opsets that each can read."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from matrix.scoreboard.cases import Known
from matrix.scoreboard.lines import count_outcomes

__all__ = ["Share", "common_cases", "measure_share", "newest_opset"]

REFUSED = ("gap", "void")


@dataclass(frozen=True)
class Share:
    """The outcomes of a run on a common set, as counts in the order of `FOUND`.

    `readable`: of the cases whose opset the run can read. `whole`: of all cases.
    """

    readable: list[int]
    whole: list[int]


def common_cases(runs: Iterable[Mapping[str, str]]) -> set[str]:
    """Return the cases that every run has, without those that are recorded wrong.

    `runs`: case -> outcome of each run. Runs without cases are ignored.
    """
    results = [outcomes for outcomes in runs if outcomes]
    if not results:
        return set()
    common = set(results[0]).intersection(*results[1:])
    return {id for id in common if all(outcomes[id] != "void" for outcomes in results)}


def newest_opset(outcomes: Mapping[str, str], cases: Mapping[str, Known]) -> int:
    """Return the newest opset of the default domain of which a run has a case that is no gap and not void.

    This is the newest opset that the run can read. 0: there is no such case.
    """
    read = (cases[id].opset for id, outcome in outcomes.items() if outcome not in REFUSED)
    return max(read, default=0)


def measure_share(outcomes: Mapping[str, str], cases: Mapping[str, Known], common: set[str]) -> Share:
    """Count the outcomes of a run on the common set, and return them.

    Cases of the set that the run does not have are not counted: a run may be a sample.
    """
    opset = newest_opset(outcomes, cases)
    ids = [id for id in outcomes if id in common]
    readable = (outcomes[id] for id in ids if cases[id].opset <= opset)
    return Share(count_outcomes(readable), count_outcomes(outcomes[id] for id in ids))
