"""Execute the code blocks of the documentation that need the shim of this environment."""

import importlib.util
import os
import sys
from pathlib import Path
from typing import Tuple

import pytest

sys.path.insert(0, str(Path(__file__).parents[1] / "pages"))

import pages as documentation

SHIM = os.environ["ONNX_COMPAT_SHIM"]


def is_here(needs: Tuple[str, ...]) -> bool:
    """Return whether this environment has the shim and the modules that a block needs."""
    shim, modules = needs[0], needs[1:]
    if shim != SHIM or any(importlib.util.find_spec(module) is None for module in modules):
        return False
    # A block for Keras names the back end; the environment selects another with KERAS_BACKEND.
    return shim != "keras" or not modules or os.environ.get("KERAS_BACKEND", "tensorflow") in modules


PAGES = [
    page
    for page in documentation.pages()
    if any(block.runnable and is_here(block.needs) for block in documentation.blocks(page))
]


def test_some_pages_are_about_this_shim() -> None:
    assert PAGES


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_the_blocks_of_a_page_run(page: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    assert documentation.run(page, tmp_path, is_here)
