"""From releases of onnx to rows of the cache."""

from __future__ import annotations

from pathlib import Path
from typing import Callable, Iterable, Iterator, List, Sequence

from matrix.suites.cache import Case, read_index, write_case, write_index
from matrix.suites.randomise import randomised
from matrix.suites.recorded import Recorded, recorded
from matrix.suites.wheels import loaded_data, wheel_data

__all__ = ["LIGHT_RANDOM", "fetch"]

LIGHT_RANDOM = "light-random"


def fetch(suites: Sequence[str], releases: Sequence[str], say: Callable[[str], None]) -> None:
    """Write these suites of these releases into the cache; `say` is told of each as it is done."""
    for release in releases:
        with wheel_data(release) as data:
            for suite in suites:
                cases = _store(suite, release, _cases(data, suite))
                if not cases and suite == "node":
                    with loaded_data(release) as own:
                        cases = _store(suite, release, recorded(own, suite))
                say(f"{suite} of onnx {release}: {len(cases)} cases")


def _cases(data: Path, suite: str) -> Iterator[Recorded]:
    if suite == LIGHT_RANDOM:
        return (randomised(case) for case in recorded(data, "light"))
    return recorded(data, suite)


def _store(suite: str, release: str, found: Iterable[Recorded]) -> List[Case]:
    known = {row.hash: row.folder for row in read_index(suite) if row.release != release}
    cases = [
        write_case(suite, release, case.name, case.model, case.sets, known, case.rtol, case.atol) for case in found
    ]
    write_index(suite, cases)
    return cases
