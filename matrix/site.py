"""Check the built site of the documentation: no dead local link, and no resource that a page loads from another host.

python -m matrix.site results/docs

mkdocs checks only the links that its own Markdown pages contain. This check reads the HTML that a visitor gets, with
the links of the theme and of the API pages.
"""

from __future__ import annotations

import sys
from html.parser import HTMLParser
from pathlib import Path
from typing import NamedTuple
from urllib.parse import unquote, urlsplit

__all__ = ["Page", "main", "problems", "read"]

# The attributes whose address a browser loads with the page. The `href` of <a> is loaded only when a visitor follows it.
_LOADED = {
    ("img", "src"),
    ("script", "src"),
    ("link", "href"),
    ("iframe", "src"),
    ("source", "src"),
    ("object", "data"),
}
_NOT_LOADED = {"canonical", "prev", "next", "edit"}  # `rel` of links that browsers do not fetch


class Page(NamedTuple):
    """The anchors of an HTML page, the targets of its links, and the addresses that a browser loads with the page."""

    anchors: set[str]
    links: list[str]
    loaded: list[str]


class _Reader(HTMLParser):
    """Parser of one HTML page, which fills `page` while the text is fed to it."""

    def __init__(self) -> None:
        super().__init__()
        self.page = Page(set(), [], [])

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = {name: value or "" for name, value in attrs}
        self.page.anchors.update(given[name] for name in ("id", "name") if given.get(name))
        for name, value in given.items():
            if (tag, name) in _LOADED and given.get("rel", "") not in _NOT_LOADED:
                self.page.loaded.append(value)
            elif (tag, name) == ("a", "href"):
                self.page.links.append(value)


def read(path: Path) -> Page:
    """Parse an HTML page, and return its anchors, its links and the addresses that it loads."""
    reader = _Reader()
    reader.feed(path.read_text(encoding="utf-8"))
    return reader.page


def problems(site: Path) -> list[str]:
    """Return a text for each dead local link and each resource of another host, in all pages of a site except 404.html.

    A site without pages has a problem too.
    """
    pages = {path.resolve(): read(path) for path in sorted(site.rglob("*.html")) if path.name != "404.html"}
    messages = [] if pages else [f"{site} has no page"]
    for path, page in pages.items():
        name = path.relative_to(site.resolve()).as_posix()
        messages += [f"{name} loads {url}" for url in page.loaded if urlsplit(url).netloc]
        local = [url for url in (*page.links, *page.loaded) if not urlsplit(url).scheme and not urlsplit(url).netloc]
        messages += [f"{name} links to {url}, which is not there" for url in local if not _leads(path, url, pages)]
    return messages


def _leads(path: Path, url: str, pages: dict[Path, Page]) -> bool:
    """Whether a relative link leads to a file of the site, and its fragment (`#name`) to an anchor of that page."""
    parts = urlsplit(url)
    target = (path.parent / unquote(parts.path)).resolve() if parts.path else path
    target = target / "index.html" if target.is_dir() else target
    if not target.exists():
        return False
    return not parts.fragment or target not in pages or unquote(parts.fragment) in pages[target].anchors


def main(arguments: list[str]) -> int:
    """Print the problems of the sites in the folders `arguments`; return 1 if there are any, else 0."""
    lines = [problem for site in arguments for problem in problems(Path(site))]
    print("\n".join(lines) or "every link leads somewhere, and nothing is loaded from elsewhere")
    return 1 if lines else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
