"""`python -m matrix scoreboard`: write the page, a badge for each shim, and on request files for
onnx/backend-scoreboard.
"""

from __future__ import annotations

import argparse
from pathlib import Path

from matrix.data import ROOT, Matrix
from matrix.scoreboard.backends import export
from matrix.scoreboard.badges import draw_badges
from matrix.scoreboard.gather import gather
from matrix.scoreboard.page import render_page

__all__ = ["add_arguments", "scoreboard"]


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of the command `scoreboard` to its parser."""
    parser.add_argument("--out", type=Path, default=ROOT / "results" / "scoreboard", metavar="DIR")
    parser.add_argument(
        "--backend-scoreboard", type=Path, metavar="DIR", help="also write files for onnx/backend-scoreboard"
    )
    parser.add_argument(
        "results", nargs="*", type=Path, help="results of runs, or folders of results, beside the stored results"
    )


def scoreboard(matrix: Matrix, options: argparse.Namespace) -> int:
    """Write the page, the badges and, with --backend-scoreboard, the files for that project. Return 0."""
    board = gather(options.results)
    written = {"index.html": render_page(matrix, board)}
    written.update((f"badge-{shim}.svg", text) for shim, text in draw_badges(board).items())
    options.out.mkdir(parents=True, exist_ok=True)
    for name, text in written.items():
        (options.out / name).write_text(text, encoding="utf-8")
    for note in board.notes:
        print(note)
    print(f"wrote {options.out}: {', '.join(written)}")
    if options.backend_scoreboard:
        backends = export(matrix, board, options.backend_scoreboard)
        print(f"wrote {options.backend_scoreboard}: {len(backends)} backends")
    return 0
