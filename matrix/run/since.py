"""Cells whose outcome the changes since a revision can affect, with these changes."""

from __future__ import annotations

from collections.abc import Iterable

from matrix.data import ROOT, Cell, Matrix
from matrix.run.inputs import ENTRIES, depends_on, git, relevant_entries

__all__ = ["changed_files", "find_affected"]


def changed_files(revision: str) -> list[str]:
    """Return the paths that differ from a revision: committed since then, changed but not committed, or untracked.

    Raises MatrixError if git fails, for example at an unknown revision.
    """
    tracked = git("diff", "-z", "--no-renames", "--name-only", revision, "--").split("\0")
    new = git("ls-files", "-z", "--others", "--exclude-standard").split("\0")
    return sorted({*tracked, *new} - {""})


def find_affected(matrix: Matrix, cells: Iterable[Cell], revision: str) -> dict[str, list[str]]:
    """Return cell -> the changes since a revision that can affect its outcome: paths, and entries of matrix.toml.

    Cells that no change can affect are absent. Raises MatrixError if git fails.
    """
    paths = changed_files(revision)
    reasons = {cell.id: [path for path in paths if depends_on(matrix, cell, path)] for cell in cells}
    if ENTRIES in paths:
        now, then = (ROOT / ENTRIES).read_text(encoding="utf-8"), git("show", f"{revision}:{ENTRIES}")
        for cell in cells:
            new, old = relevant_entries(matrix, cell, now), relevant_entries(matrix, cell, then)
            reasons[cell.id] += [f"{ENTRIES}: {part}" for part in new if new[part] != old[part]]
    return {id: paths_of_cell for id, paths_of_cell in reasons.items() if paths_of_cell}
