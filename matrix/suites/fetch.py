"""From releases of onnx to rows of the cache."""

from __future__ import annotations

from typing import Callable, Dict, Iterable, Iterator, List, Sequence

from matrix.suites.cache import Case, write_case, write_index
from matrix.suites.recorded import Recorded, recorded
from matrix.suites.wheels import FetchError, Files, data_of

__all__ = ["LIGHT_RANDOM", "fetch"]

LIGHT_RANDOM = "light-random"


def fetch(suites: Sequence[str], releases: Dict[str, int], say: Callable[[str], None]) -> None:
    """Write these suites of these releases, whose newest opsets are given, into the cache; `say` is told of each.

    What `light-random` makes is made of the newest release only. A suite's index is written when all of it is stored.
    """
    newest = list(releases)[-1]
    known = {suite: _Known(suite) for suite in suites}
    for release, data in data_of(list(releases)):
        for suite in suites:
            if suite != LIGHT_RANDOM or release == newest:
                cases = known[suite].store(release, _cases(data, suite))
                _check(suite, release, releases[release], cases)
                say(f"{suite} of onnx {release}: {len(cases)} cases")
    for suite in suites:
        known[suite].write()


class _Known:
    """A suite while it is fetched, and where each content of it is stored."""

    def __init__(self, suite: str) -> None:
        self.suite = suite
        self.rows: List[Case] = []
        self.folders: Dict[str, str] = {}

    def store(self, release: str, found: Iterable[Recorded]) -> List[Case]:
        cases = [
            write_case(self.suite, release, case.name, case.model, case.sets, self.folders, case.rtol, case.atol)
            for case in found
        ]
        self.rows += cases
        return cases

    def write(self) -> None:
        write_index(self.suite, self.rows)


def _cases(data: Files, suite: str) -> Iterator[Recorded]:
    if suite == LIGHT_RANDOM:
        from matrix.suites.randomise import randomised  # asks for onnxruntime

        return (randomised(case) for case in recorded(data, "light"))
    return recorded(data, suite)


def _check(suite: str, release: str, opset: int, cases: List[Case]) -> None:
    """The node cases of a release reach up to its newest opset, not further."""
    found = max((case.opset.get("", 0) for case in cases), default=0)
    if suite == "node" and found != opset:
        raise FetchError(f"onnx {release} has cases up to opset {found}: matrix.toml says {opset}")
