"""Fetch suites: download releases of onnx, and write their recorded cases into the cache."""

from __future__ import annotations

from typing import Callable, Dict, Iterable, Iterator, List, Sequence

from matrix.suites.cache import Case, write_case, write_index
from matrix.suites.recorded import Recorded, read_recorded
from matrix.suites.wheels import FetchError, Files, fetch_data

__all__ = ["LIGHT_RANDOM", "fetch"]

LIGHT_RANDOM = "light-random"


def fetch(suites: Sequence[str], releases: Dict[str, int], say: Callable[[str], None]) -> None:
    """Write these suites of these releases into the cache. `say`: a function that prints a line of text.

    `releases`: release -> its newest opset, the oldest release first. The suite `light-random` is generated, for the
    newest release only. The indexes are written after all cases. Raises FetchError if a release cannot be fetched, or
    if its newest opset is another.
    """
    newest = list(releases)[-1]
    known = {suite: _Suite(suite) for suite in suites}
    for release, data in fetch_data(list(releases)):
        for suite in suites:
            if suite != LIGHT_RANDOM or release == newest:
                cases = known[suite].store(release, _read_cases(data, suite))
                _check_opset(suite, release, releases[release], cases)
                say(f"{suite} of onnx {release}: {len(cases)} cases")
    for suite in suites:
        known[suite].write()


class _Suite:
    """A suite that is being fetched. `rows`: the rows of its written cases. `folders`: content hash -> folder."""

    def __init__(self, suite: str) -> None:
        self.suite = suite
        self.rows: List[Case] = []
        self.folders: Dict[str, str] = {}

    def store(self, release: str, recorded_cases: Iterable[Recorded]) -> List[Case]:
        """Write the cases of a release into the cache, and return their rows."""
        cases = [
            write_case(self.suite, release, case.name, case.model, case.sets, self.folders, case.rtol, case.atol)
            for case in recorded_cases
        ]
        self.rows += cases
        return cases

    def write(self) -> None:
        """Write the index of the suite."""
        write_index(self.suite, self.rows)


def _read_cases(data: Files, suite: str) -> Iterator[Recorded]:
    """Return the cases of a suite in the data of a release; for `light-random`, `light` with random weights."""
    if suite == LIGHT_RANDOM:
        from matrix.suites.randomise import randomise  # needs onnxruntime

        return (randomise(case) for case in read_recorded(data, "light"))
    return read_recorded(data, suite)


def _check_opset(suite: str, release: str, opset: int, cases: List[Case]) -> None:
    """Raise a FetchError unless the newest opset of the node cases of a release is `opset`, which matrix.toml has.

    Other suites are not checked.
    """
    newest_opset = max((case.opset.get("", 0) for case in cases), default=0)
    if suite == "node" and newest_opset != opset:
        raise FetchError(
            f"onnx {release} has cases up to opset {newest_opset}, but matrix.toml has {opset}. Correct it."
        )
