"""Which cells a run is of, by what the command line says of them."""

from __future__ import annotations

from collections.abc import Sequence

from matrix.data import Cell, Matrix, MatrixError

__all__ = ["choose"]


def choose(matrix: Matrix, ids: Sequence[str], tiers: Sequence[str], shims: Sequence[str], runner: str) -> list[Cell]:
    """Those of this runner, and of these tiers and shims, where any are named. A cell that is named itself is meant,
    whatever it is.
    """
    unknown = [id for id in ids if id not in matrix.cells]
    if unknown:
        raise MatrixError(f"no cell {', '.join(unknown)}: `python -m matrix list` has all")
    known = {*matrix.distributions, *(cell.shim for cell in matrix.cells.values())}
    if strange := set(shims) - known:
        raise MatrixError(f"no shim {', '.join(sorted(strange))}, of {', '.join(sorted(known))}")
    if ids and not (tiers or shims):
        return [matrix.cells[id] for id in dict.fromkeys(ids)]
    found = [cell for cell in matrix.cells.values() if cell.runner == runner]
    found = [cell for cell in found if not tiers or cell.tier in tiers]
    found = [cell for cell in found if not shims or cell.shim in shims]
    return list({cell.id: cell for cell in [*found, *(matrix.cells[id] for id in ids)]}.values())
