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
    """The outcomes of a run on a common set. `readable`: of the cases whose opset it can read. `whole`: of all of them."""

    readable: list[int]
    whole: list[int]


def common_cases(runs: Iterable[Mapping[str, str]]) -> set[str]:
    """Return the cases that every run ran, without those that are recorded wrong. `runs`: case -> outcome of each run."""
    results = [outcomes for outcomes in runs if outcomes]
    if not results:
        return set()
    common = set(results[0]).intersection(*results[1:])
    return {id for id in common if all(outcomes[id] != "void" for outcomes in results)}


def newest_opset(outcomes: Mapping[str, str], cases: Mapping[str, Known]) -> int:
    """Return the newest opset of the default domain that a run can read.

    Of each newer opset, the run refuses all cases by name. 0: it can read none.
    """
    read = (cases[id].opset for id, outcome in outcomes.items() if outcome not in REFUSED)
    return max(read, default=0)


def measure_share(outcomes: Mapping[str, str], cases: Mapping[str, Known], common: set[str]) -> Share:
    """Return the outcomes of a run on the common set, of which a sample ran only a part."""
    opset = newest_opset(outcomes, cases)
    ids = [id for id in outcomes if id in common]
    readable = (outcomes[id] for id in ids if cases[id].opset <= opset)
    return Share(count_outcomes(readable), count_outcomes(outcomes[id] for id in ids))
