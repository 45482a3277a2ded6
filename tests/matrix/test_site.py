"""The check of the built documentation finds dead links, and resources of other hosts."""

from pathlib import Path

import pytest

from matrix.site import main, problems

GOOD = '<link rel="canonical" href="https://example.org/"><h1 id="top">x</h1><a href="#top">y</a><a href="https://example.org">z</a>'


@pytest.mark.parametrize(
    ("html", "problem"),
    [
        ('<script src="https://cdn.example/x.js"></script>', "loads https://cdn.example/x.js"),
        ('<link rel="stylesheet" href="//fonts.example/x.css">', "loads //fonts.example/x.css"),
        ('<a href="gone.html">x</a>', "links to gone.html, which is not there"),
        ('<a href="#gone">x</a>', "links to #gone, which is not there"),
        ('<a href="other.html#gone">x</a>', "links to other.html#gone, which is not there"),
        ('<img src="gone.svg">', "links to gone.svg, which is not there"),
    ],
)
def test_a_problem_is_named(tmp_path: Path, html: str, problem: str) -> None:
    (tmp_path / "index.html").write_text(GOOD + html, encoding="utf-8")
    (tmp_path / "other.html").write_text(GOOD, encoding="utf-8")
    assert problems(tmp_path) == ["index.html " + problem]
    assert main([str(tmp_path)]) == 1


def test_a_good_site_has_no_problem(tmp_path: Path) -> None:
    (tmp_path / "index.html").write_text(GOOD + '<a href="other.html#top">x</a>', encoding="utf-8")
    (tmp_path / "other.html").write_text(GOOD + '<a href=".">x</a>', encoding="utf-8")
    assert problems(tmp_path) == [] and main([str(tmp_path)]) == 0


def test_a_site_without_pages_is_an_error(tmp_path: Path) -> None:
    assert problems(tmp_path)
