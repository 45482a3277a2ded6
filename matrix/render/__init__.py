"""What follows from matrix.toml and is stored elsewhere: render it, or say where the stored text differs.

One module for each thing that is rendered; each gives its files, whole, from what is stored.
"""

from __future__ import annotations

from pathlib import Path

from matrix import passes
from matrix.data import ROOT, Matrix
from matrix.real import chart
from matrix.real import page as real
from matrix.render import ci, commands, offers, projects, readme, tox
from matrix.render.text import read
from matrix.support import PAGE, page

__all__ = ["drifted", "render", "rendered"]


def rendered(matrix: Matrix) -> dict[Path, str]:
    """Every file with rendered text in it, as it should be."""
    return {
        **projects.files(matrix, ROOT),
        **offers.files(matrix, ROOT),
        **tox.files(matrix, ROOT),
        **ci.files(matrix, ROOT),
        **readme.files(matrix, ROOT),
        **commands.files(ROOT),
        ROOT / PAGE: page(matrix),
        ROOT / real.PAGE: real.page(),
        ROOT / chart.PICTURE: chart.svg(real.stored()),
        ROOT / passes.PAGE: passes.page(),
    }


def drifted(matrix: Matrix) -> list[Path]:
    """The files whose stored text is not the rendered one."""
    return [path for path, text in rendered(matrix).items() if not path.exists() or read(path) != text]


def render(matrix: Matrix) -> list[Path]:
    """Write what drifted; gives the files that were written."""
    changed = drifted(matrix)
    texts = rendered(matrix)
    for path in changed:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(texts[path], encoding="utf-8")
    return changed
