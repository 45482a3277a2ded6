"""Rendered files: files whose text follows from matrix.toml, the code and the stored results.

Each module renders some of them: its function `files` returns path -> whole text.
"""

from __future__ import annotations

from pathlib import Path

from matrix import derivatives, passes
from matrix.data import ROOT, Matrix
from matrix.real import chart
from matrix.real import page as real
from matrix.render import ci, commands, offers, projects, readme, tox, versions
from matrix.render.text import read
from matrix.retarget import page as retarget
from matrix.simplified import page as simplified
from matrix.support import PAGE, page

__all__ = ["find_drift", "render", "render_texts"]


def render_texts(matrix: Matrix) -> dict[Path, str]:
    """Return path -> rendered text, for every file that is rendered in whole or in part."""
    return {
        **projects.files(matrix, ROOT),
        **offers.files(matrix, ROOT),
        **tox.files(matrix, ROOT),
        **ci.files(matrix, ROOT),
        **readme.files(matrix, ROOT),
        **versions.files(matrix, ROOT),
        **commands.files(ROOT),
        **simplified.files(ROOT),
        ROOT / PAGE: page(matrix),
        ROOT / real.PAGE: real.render_page(),
        ROOT / chart.PICTURE: chart.svg(real.load_measured()),
        ROOT / retarget.PAGE: retarget.render_page(),
        ROOT / passes.PAGE: passes.page(),
        ROOT / derivatives.PAGE: derivatives.page(),
    }


def find_drift(matrix: Matrix) -> list[Path]:
    """Return the paths of the files whose stored text differs from the rendered text."""
    return [path for path, text in render_texts(matrix).items() if not path.exists() or read(path) != text]


def render(matrix: Matrix) -> list[Path]:
    """Write the files whose stored text differs from the rendered text. Return their paths."""
    drifted_paths = find_drift(matrix)
    texts = render_texts(matrix)
    for path in drifted_paths:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(texts[path], encoding="utf-8")
    return drifted_paths
