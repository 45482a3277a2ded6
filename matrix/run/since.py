"""Which cells a change can affect, and by what."""

from __future__ import annotations

from collections.abc import Iterable

from matrix.data import ROOT, Cell, Matrix
from matrix.run.inputs import ENTRIES, git, reads, reads_entries

__all__ = ["affected", "changed"]


def changed(revision: str) -> list[str]:
    """The files that differ from a revision: committed since, not committed, or new."""
    differing = git("diff", "-z", "--no-renames", "--name-only", revision, "--").split("\0")
    new = git("ls-files", "-z", "--others", "--exclude-standard").split("\0")
    return sorted({*differing, *new} - {""})


def affected(matrix: Matrix, cells: Iterable[Cell], revision: str) -> dict[str, list[str]]:
    """The cells that can find something else than at that revision, each with the changes that are why."""
    paths = changed(revision)
    why = {cell.id: [path for path in paths if reads(matrix, cell, path)] for cell in cells}
    if ENTRIES in paths:
        now, then = (ROOT / ENTRIES).read_text(encoding="utf-8"), git("show", f"{revision}:{ENTRIES}")
        for cell in cells:
            new, old = reads_entries(matrix, cell, now), reads_entries(matrix, cell, then)
            why[cell.id] += [f"{ENTRIES}: {part}" for part in new if new[part] != old[part]]
    return {id: reasons for id, reasons in why.items() if reasons}
