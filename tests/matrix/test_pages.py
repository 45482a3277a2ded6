"""The pages of the documentation: the length of their sentences, and that the commands and files that they name exist."""

from __future__ import annotations

import re
import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parents[1] / "pages"))

import pages as documentation

from matrix.__main__ import main
from matrix.branches import extras as published_extras
from matrix.data import ROOT, load
from matrix.page_cells import page_cell

MATRIX = load()
PAGES = documentation.pages()
# Written by code, from stored results: tables whose cells are long. Their texts are checked where they are prose.
WORDS_OF_A_SENTENCE, WORDS_OF_A_PARAGRAPH, LINES_OF_A_PARAGRAPH, WIDTH = 25, 80, 5, 120
BANNED = (
    "room", "rooms", "door", "doors", "house", "houses", "neighbour", "neighbours", "manner", "manners", "fate", "fates", "seam", "seams",
    "nobody", "whoever", "whatever", "all that", "what is more", "as such", "one another", "told", "hands it on", "by itself, it", "asked for it",
)  # fmt: skip


def prose(text: str) -> list[str]:
    """Return the paragraphs and list items of a page, without code, tables, headings, comments and API directives."""
    text = re.sub(r"^( *)```.*?^\1```$", "", text, flags=re.MULTILINE | re.DOTALL)
    text = re.sub(r"<!-- (?!>>>|<<<).*?-->", "", text)
    matches = []
    for paragraph in re.split(r"\n\s*\n", text):
        lines = [
            line
            for line in paragraph.splitlines()
            if not re.match(r"\s*(\||#|<!--|:::|--8<--|!\[|options:|members:|show_|\[[^\]]+\]: )", line)
        ]
        item: list[str] = []
        for line in lines:
            if re.match(r"\s*([-*]|\d+\.) ", line) and item:
                matches.append("\n".join(item))
                item = []
            item.append(line)
        if item:
            matches.append("\n".join(item))
    return [paragraph for paragraph in matches if paragraph.strip()]


def sentences(paragraph: str) -> list[str]:
    """Split a paragraph into sentences. A code span or a link counts as one word."""
    text = re.sub(r"`[^`]*`", "CODE", " ".join(paragraph.split()))
    text = re.sub(r"\[([^\]]*)\](\([^)]*\)|\[[^\]]*\])", r"\1", text)
    return [sentence for sentence in re.split(r"(?<=[.?!:])\s+", text) if sentence]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.relative_to(ROOT).as_posix())
def test_paragraphs_and_sentences_are_short(page: Path) -> None:
    for paragraph in prose(page.read_text(encoding="utf-8")):
        lines = paragraph.splitlines()
        assert len(lines) <= LINES_OF_A_PARAGRAPH, paragraph
        assert len(paragraph.split()) <= WORDS_OF_A_PARAGRAPH, paragraph
        assert max(map(len, lines)) <= WIDTH, paragraph
        for sentence in sentences(paragraph):
            assert len(sentence.split()) <= WORDS_OF_A_SENTENCE, sentence


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.relative_to(ROOT).as_posix())
def test_no_banned_word(page: Path) -> None:
    text = " ".join(" ".join(prose(page.read_text(encoding="utf-8"))).split()).lower()
    assert [word for word in BANNED if re.search(r"\b%s\b" % re.escape(word), text)] == []


def test_long_and_banned_prose_is_found(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text(" ".join(["word"] * 26) + ".\n", encoding="utf-8")
    with pytest.raises(AssertionError):
        test_paragraphs_and_sentences_are_short(page)
    page.write_text("a\n" * 6, encoding="utf-8")
    with pytest.raises(AssertionError):
        test_paragraphs_and_sentences_are_short(page)
    page.write_text("The shim lives in\nits own room.\n\n```text\ndoor\n```\n", encoding="utf-8")
    with pytest.raises(AssertionError, match="room"):
        test_no_banned_word(page)


def test_every_block_that_runs_runs_in_a_required_cell() -> None:
    """A block with a marker that no required cell meets would never run."""
    for page in PAGES:
        for block in documentation.blocks(page):
            if block.needs and block.needs[0] not in {"any", "e2e"}:
                assert page_cell(MATRIX, block.needs) is not None, (page, block.line, block.needs)


def test_a_block_runs_in_the_cell_of_the_gate_unless_only_another_has_its_modules() -> None:
    ids = [
        cell and cell.id for cell in (page_cell(MATRIX, needs) for needs in (["keras"], ["keras", "torch"], ["any"]))
    ]
    gate = next(cell.id for cell in MATRIX.cells.values() if cell.shim == "keras" and cell.tier == "gate")
    torch = next(cell.id for cell in MATRIX.cells.values() if cell.id.startswith("keras") and cell.tier == "merge")
    assert ids == [gate, torch, None]
    assert page_cell(MATRIX, ["keras", "no_such_module"]) is None


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.relative_to(ROOT).as_posix())
def test_each_block_is_executed_or_marked(page: Path) -> None:
    for block in documentation.blocks(page):
        if not block.rendered and not block.runnable:
            assert block.reason in documentation.NOT_RUN, (block.line, block.language, block.reason)


def test_each_reason_is_in_use_and_has_its_test() -> None:
    used = {block.reason for page in PAGES for block in documentation.blocks(page)} - {""}
    assert used == set(documentation.NOT_RUN)
    for test in filter(None, documentation.NOT_RUN.values()):
        assert (ROOT / test).exists()


def test_a_block_without_a_marker_is_found(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    for text in ("```toml\na = 1\n```\n", "```text\n$ rm -r /\n```\n", "<!-- not run: too slow -->\n```sh\nls\n```\n"):
        page.write_text(text, encoding="utf-8")
        with pytest.raises(AssertionError):
            test_each_block_is_executed_or_marked(page)
    page.write_text("<!-- not run: needs Docker -->\n```sh\ndocker ps\n```\n```console\n$ ls\n```\n", encoding="utf-8")
    test_each_block_is_executed_or_marked(page)


def test_files_that_blocks_name_exist() -> None:
    for page in PAGES:
        for block in documentation.blocks(page):
            for path in re.findall(r"(?<![\w/.])(?:matrix|tests|examples|docs)/[\w./-]*\w", block.text):
                assert (ROOT / path).exists(), (page, block.line, path)


def test_extras_that_pages_name_exist() -> None:
    extras = set(published_extras(MATRIX, MATRIX.distributions["core"])) | {"EXTRA", "NAME"}
    for page in PAGES:
        for named in re.findall(r"onnx-compat\[([\w,.-]+)\]", page.read_text(encoding="utf-8")):
            assert set(named.split(",")) <= extras, (page, named)


def test_subcommands_of_matrix_that_pages_name_exist(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main(["--help"])
    known = set(re.findall(r"\{([\w,]+)\}", capsys.readouterr().out)[0].split(","))
    text = "\n".join(page.read_text(encoding="utf-8") for page in PAGES)
    assert set(re.findall(r"python -m matrix (\w+)", text)) <= known


def test_every_page_is_in_the_navigation() -> None:
    """`nox -s docs` checks the same; this test also runs where mkdocs is not installed."""
    named = set(re.findall(r"([\w/-]+\.md)$", (ROOT / "mkdocs.yml").read_text(encoding="utf-8"), re.MULTILINE))
    assert named == {page.relative_to(ROOT / "docs").as_posix() for page in (ROOT / "docs").rglob("*.md")}


def test_the_texts_of_the_networks_page_are_those_of_the_code() -> None:
    """docs/networks.md is written only when networks are measured. Its texts must still follow a change of the code."""
    from benchmarks import page

    text = (ROOT / "docs" / "networks.md").read_text(encoding="utf-8")
    for part in (page._INTRODUCTION, page._MILLISECONDS, page._CONVERSION, page._FILES, page._NUMBERS):
        assert part in text
