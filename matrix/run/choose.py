"""Choice of the cells of a run, by the arguments of the command line."""

from __future__ import annotations

from collections.abc import Sequence

from matrix.data import Cell, Matrix, MatrixError

__all__ = ["choose"]


def choose(matrix: Matrix, ids: Sequence[str], tiers: Sequence[str], shims: Sequence[str], runner: str) -> list[Cell]:
    """Return the cells of this runner, these tiers and these shims, and every cell that `ids` names.

    An empty list of tiers or shims stands for all. If only `ids` are given, only they are returned. A named cell is
    returned whatever its runner is. A cell without a lock file is returned only if it is named. Raise MatrixError for
    an unknown id or shim.
    """
    unknown = [id for id in ids if id not in matrix.cells]
    if unknown:
        raise MatrixError(f"There is no cell {', '.join(unknown)}. `python -m matrix list` lists all.")
    known = {*matrix.distributions, *(cell.shim for cell in matrix.cells.values())}
    if strange := set(shims) - known:
        raise MatrixError(f"There is no shim {', '.join(sorted(strange))}. The shims are {', '.join(sorted(known))}.")
    if ids and not (tiers or shims):
        return [matrix.cells[id] for id in dict.fromkeys(ids)]
    chosen = [cell for cell in matrix.cells.values() if runner in cell.tags]
    chosen = [cell for cell in chosen if not tiers or cell.tier in tiers]
    chosen = [cell for cell in chosen if not shims or cell.shim in shims]
    return list({cell.id: cell for cell in [*chosen, *(matrix.cells[id] for id in ids)]}.values())
