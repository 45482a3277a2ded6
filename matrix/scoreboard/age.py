"""Age of results: the changes since the revision of a run that can affect its outcome."""

from __future__ import annotations

import sys
from collections.abc import Iterable
from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import Any

from matrix.data import ROOT, Matrix, MatrixError, Peer
from matrix.results import PEER
from matrix.run.inputs import ENTRIES, git
from matrix.run.since import changed_files, find_affected
from matrix.scoreboard.gather import Run

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

__all__ = ["Moved", "find_moved"]

DIRTY = "-dirty"
EXAMPLES = 3
#: The files on which the outcome of a peer depends, in addition to its constraints and its entry in matrix.toml.
PEER_INPUTS = (
    "matrix/harness/*",
    "matrix/line_process.py",
    "matrix/peers/*",
    "matrix/suites/*",
    "tests/gaps/recorded.toml",
)


@dataclass(frozen=True)
class Moved:
    """Why a result is older than the code. `changes`: the number of changed inputs; `examples`: some of them."""

    reason: str
    changes: int = 0
    examples: tuple[str, ...] = ()


def find_moved(matrix: Matrix, runs: Iterable[Run]) -> dict[int, Moved]:
    """Return id(run) -> why its result is older than the code. A run of the code as it is here is absent."""
    by_revision: dict[str, list[Run]] = {}
    for run in runs:
        by_revision.setdefault(str(run.small.get("revision", "")), []).append(run)
    by_run: dict[int, Moved] = {}
    for revision, its in by_revision.items():
        moved = _find_moved_since(matrix, revision, its)
        by_run.update((id(run), moved[run.cell]) for run in its if run.cell in moved)
    return by_run


def _find_moved_since(matrix: Matrix, revision: str, runs: list[Run]) -> dict[str, Moved]:
    """Return cell -> why its result is older than the code, for runs of one revision. Other cells are absent."""
    if not revision:
        return {run.cell: Moved("the revision of this run is unknown") for run in runs}
    commit = revision.removesuffix(DIRTY)
    cells = [matrix.cells[run.cell] for run in runs if run.cell in matrix.cells]
    peers = [matrix.peers[id] for id in (run.cell.removeprefix(PEER) for run in runs) if id in matrix.peers]
    try:
        changes = {**find_affected(matrix, cells, commit), **_find_affected_peers(peers, commit)}
    except MatrixError:  # git is missing, or the history here lacks the commit
        return {run.cell: Moved(f"this repository does not have revision {commit}") for run in runs}
    known = {*(cell.id for cell in cells), *(PEER + peer.id for peer in peers)}
    moved = {run.cell: Moved("matrix.toml has no entry for it") for run in runs if run.cell not in known}
    if revision.endswith(DIRTY):
        moved.update((id, Moved("it ran with changes that were not committed")) for id in known)
    for id, paths in changes.items():
        reason = f"{len(paths)} {'input has' if len(paths) == 1 else 'inputs have'} changed since"
        moved[id] = Moved(reason, len(paths), tuple(paths[:EXAMPLES]))
    return moved


def _find_affected_peers(peers: list[Peer], commit: str) -> dict[str, list[str]]:
    """Return `peer-<id>` -> the changes since a commit that can affect the outcome of the peer.

    A change is a path, or the entry of the peer in matrix.toml. Peers that no change can affect are absent.
    """
    paths = changed_files(commit) if peers else []
    then: dict[str, Any] = {}
    now: dict[str, Any] = {}
    if ENTRIES in paths:
        then = tomllib.loads(git("show", f"{commit}:{ENTRIES}")).get("peers", {})
        now = tomllib.loads((ROOT / ENTRIES).read_text(encoding="utf-8")).get("peers", {})
    affected = {}
    for peer in peers:
        patterns = (*PEER_INPUTS, f"matrix/constraints/{peer.id}.txt")
        changes = [path for path in paths if any(fnmatchcase(path, pattern) for pattern in patterns)]
        if then.get(peer.id) != now.get(peer.id):
            changes.append(f"{ENTRIES}: peers.{peer.id}")
        if changes:
            affected[PEER + peer.id] = changes
    return affected
