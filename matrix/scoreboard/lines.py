"""Lines of the scoreboard: the versions of one framework, and the ranges of versions whose results are the same."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from packaging.version import InvalidVersion, Version

from matrix.data import CORE_SHIMS, REFERENCE, Matrix
from matrix.results import FOUND, PEER
from matrix.scoreboard.gather import Run

__all__ = ["CellName", "Line", "Range", "collapse", "count_outcomes", "list_lines", "parse_cell"]

_PYTHON = re.compile(r"-py(\d)(\d+)$")
_VERSION = re.compile(r"\d+(?:\.\d+)+")
PEERS = "peer"


@dataclass(frozen=True)
class CellName:
    """Parts of the name of a cell: the shim, the line (`litert`, `jax-gpu`, ""), the framework's version, the Python."""

    shim: str
    line: str
    version: str
    python: str


@dataclass
class Line:
    """The runs of one framework, the newest version first; of equal versions, the newest Python first.

    `name`: the line in the names of its cells, such as "litert". `cell_names`: the parsed name of the cell of each run.
    """

    shim: str
    name: str
    runs: list[Run]
    cell_names: list[CellName]


@dataclass
class Range:
    """Consecutive runs of a line with the same results. `outcomes`: case -> outcome, of all cases that any of them ran."""

    runs: list[Run]
    outcomes: dict[str, str] = field(default_factory=dict)

    def admits(self, run: Run, outcomes: Mapping[str, str]) -> bool:
        """Whether a run belongs to this range: it has the same state, and each case that both ran ended the same.

        The run and the range must have a case in common, because otherwise nothing shows that the results are the same.
        A run without cases belongs only to a range without cases.
        """
        if run.small["state"] != self.runs[0].small["state"]:
            return False
        if not outcomes or not self.outcomes:
            return not outcomes and not self.outcomes
        common = outcomes.keys() & self.outcomes.keys()
        return bool(common) and all(outcomes[id] == self.outcomes[id] for id in common)


def parse_cell(matrix: Matrix, run: Run) -> CellName:
    """Return the parts of the name of a run's cell: `<shim>-<framework and version>-py<version>`.

    If the results list versions of packages, as those of peers do, the version is that of the first package. The line
    is then the whole name between the shim and the Python.
    """
    cell = matrix.cells.get(run.cell)
    shim = cell.shim if cell else run.shim
    suffix = _PYTHON.search(run.cell)
    python = f"{suffix[1]}.{suffix[2]}" if suffix else str(run.small.get("python", ""))
    middle = _PYTHON.sub("", run.cell).removeprefix(PEER).removeprefix(f"{shim}-")
    versions = list(run.small.get("versions", {}).values())
    number = None if versions else _VERSION.search(middle)
    rest = [middle[: number.start()], middle[number.end() :]] if number else [middle]
    version = versions[0] if versions else number[0] if number else ""
    return CellName(shim, " ".join(filter(None, (part.strip("-") for part in rest))), version, python)


def list_lines(matrix: Matrix, runs: Iterable[Run]) -> list[Line]:
    """Return the lines of these runs: shims and peers in the order of matrix.toml, with the reference between them."""
    order = [*matrix.distributions, *CORE_SHIMS, PEERS]
    lines: dict[tuple[str, str], list[tuple[CellName, Run]]] = {}
    for run in runs:
        cell_name = parse_cell(matrix, run)
        lines.setdefault((cell_name.shim, cell_name.line), []).append((cell_name, run))
    result = []
    peers = list(matrix.peers)

    def position(key: tuple[str, str]) -> tuple[int, int, str]:
        shim, name = key
        at = order.index(shim) if shim in order else order.index(REFERENCE)
        return at, peers.index(name) if shim == PEERS and name in peers else len(peers), name

    for shim, name in sorted(lines, key=position):
        members = sorted(lines[shim, name], key=lambda member: _sort_key(member[0]), reverse=True)
        result.append(Line(shim, name, [run for _, run in members], [cell_name for cell_name, _ in members]))
    return result


def collapse(members: Sequence[tuple[Run, Mapping[str, str]]]) -> list[Range]:
    """Return the ranges of consecutive runs whose results are the same. `members`: each run with case -> outcome."""
    ranges: list[Range] = []
    for run, outcomes in members:
        if not ranges or not ranges[-1].admits(run, outcomes):
            ranges.append(Range([]))
        ranges[-1].runs.append(run)
        ranges[-1].outcomes.update(outcomes)
    return ranges


def count_outcomes(outcomes: Iterable[str]) -> list[int]:
    """Return the number of cases with each outcome, in the order of `FOUND`."""
    counts = [0] * len(FOUND)
    for outcome in outcomes:
        counts[FOUND.index(outcome)] += 1
    return counts


def _sort_key(cell_name: CellName) -> tuple[Version, Version]:
    """Return the version of the framework and the Python, by which the runs of a line are sorted."""
    return _parse(cell_name.version), _parse(cell_name.python)


def _parse(text: str) -> Version:
    """Parse a version. 0 stands for a text that is no version."""
    try:
        return Version(text)
    except InvalidVersion:  # a name without a number, such as a peer that was never run
        return Version("0")
