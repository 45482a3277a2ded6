"""Execute the code blocks of the documentation that need the shim of this environment."""

import os
import sys
from pathlib import Path
from typing import Tuple

import pytest

sys.path.insert(0, str(Path(__file__).parents[1] / "pages"))

import pages as documentation

from matrix.data import load
from matrix.page_cells import page_cell

MATRIX = load()
CELL = MATRIX.cells[os.environ["ONNX_COMPAT_CELL"]]


def is_here(needs: Tuple[str, ...]) -> bool:
    """Return whether this cell executes the blocks with these needs."""
    return page_cell(MATRIX, needs) == CELL


PAGES = [
    page
    for page in documentation.pages()
    if any(block.runnable and is_here(block.needs) for block in documentation.blocks(page))
]


def test_a_cell_of_the_gate_executes_some_pages() -> None:
    assert PAGES or CELL.tier != "gate"


@pytest.mark.parametrize("page", PAGES, ids=lambda page: getattr(page, "stem", "none"))
def test_the_blocks_of_a_page_run(page: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    assert documentation.run(page, tmp_path, is_here)
