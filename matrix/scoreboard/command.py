"""`python -m matrix scoreboard`: the page, a badge for each shim, and on request what onnx's backend scoreboard reads."""

from __future__ import annotations

import argparse
from pathlib import Path

from matrix.data import ROOT, Matrix
from matrix.scoreboard.gather import gather
from matrix.scoreboard.page import page

__all__ = ["add_arguments", "scoreboard"]


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--out", type=Path, default=ROOT / "results" / "scoreboard", metavar="DIR")
    parser.add_argument(
        "--backend-scoreboard", type=Path, metavar="DIR", help="also write what onnx/backend-scoreboard reads"
    )
    parser.add_argument(
        "results", nargs="*", type=Path, help="results of runs, or folders of them, beside what is stored"
    )


def scoreboard(matrix: Matrix, options: argparse.Namespace) -> int:
    board = gather(options.results)
    options.out.mkdir(parents=True, exist_ok=True)
    path = options.out / "index.html"
    path.write_text(page(matrix, board), encoding="utf-8")
    print("\n".join(board.notes))
    print("wrote", path)
    return 0
