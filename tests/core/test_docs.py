"""Execute the code blocks of the documentation that need only the core."""

import sys
from pathlib import Path
from typing import Tuple

import pytest
from building import require_opset

sys.path.insert(0, str(Path(__file__).parents[1] / "pages"))

import pages as documentation

REFERENCE = ("reference",)
PAGES = [
    page
    for page in documentation.pages()
    if any(block.runnable and block.needs == REFERENCE for block in documentation.blocks(page))
]


#: Page -> the newest opset that its blocks write. A release of onnx that does not know it cannot run them.
OPSETS = {"old-runtime": 21, "onnx": 21}


def is_reference(needs: Tuple[str, ...]) -> bool:
    return needs == REFERENCE


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_the_blocks_of_a_page_run(page: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    require_opset(OPSETS.get(page.stem, 1))
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    assert documentation.run(page, tmp_path, is_reference)


def test_a_block_that_fails_is_found(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    for block in (
        "```python\nassert 1 == 2\n```\n",
        "```console\n$ echo one\ntwo\n```\n",
        "```console\n$ false\n```\n",
        "```console\n$ true  # exit code 1\n```\n",
    ):
        folder = tmp_path / str(len(block))
        folder.mkdir()
        page.write_text(block, encoding="utf-8")
        with pytest.raises(AssertionError):
            documentation.run(page, folder, is_reference)


def test_output_is_compared_up_to_its_ellipses(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    text = "<!-- run: reference -->\n```console\n$ printf 'a  12 b\\nc\\nd\\ne\\n'\na … b\n…\ne\n```\n"
    page.write_text(text + "<!-- run: tflite -->\n```python\nassert False\n```\n", encoding="utf-8")
    assert documentation.run(page, tmp_path, is_reference) == 1
