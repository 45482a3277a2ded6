"""Inputs of the outcome of a cell: the files of this repository and the parts of matrix.toml on which it depends.

The same rules decide whether a finished cell is still up to date, and which cells a change can affect.
"""

from __future__ import annotations

import hashlib
import json
import re
import subprocess
import sys
from collections.abc import Iterable
from fnmatch import fnmatchcase
from functools import cache
from pathlib import Path
from typing import Any

from matrix.data import CORE_SHIMS, REFERENCE, ROOT, Cell, Matrix, MatrixError
from matrix.page_cells import page_cell

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

__all__ = ["ENTRIES", "depends_on", "digest", "git", "relevant_entries"]

ENTRIES = "matrix/matrix.toml"
# Patterns of files that no cell reads. On a file that matches no pattern here or below, every cell depends: an unnecessary
# run is the smaller error.
UNREAD = """
    docs/*.svg LICENSE */LICENSE .ci/* .github/* .gitignore .pre-commit-config.yaml tox.ini toxfile.py
    mkdocs.yml benchmarks/* tests/benchmarks/* tests/e2e/* tests/matrix/* tests/scoreboard/* tests/selection/*
    matrix/__main__.py matrix/add.py matrix/branches.py matrix/ci.py matrix/line_process.py matrix/lock.py matrix/matrix.toml
    matrix/outdated.py
    matrix/fuzz/__main__.py matrix/fuzz/campaign.py matrix/fuzz/draft.py matrix/fuzz/draw.py matrix/fuzz/evaluation.py
    matrix/fuzz/generator.py matrix/fuzz/ledger.py matrix/fuzz/oracle.py matrix/fuzz/produce.py matrix/fuzz/reductions.py
    matrix/fuzz/registry.py matrix/fuzz/shrink.py matrix/fuzz/templates/* matrix/fuzz/values.py matrix/fuzz/worker.py
    matrix/peers/* matrix/probes/* matrix/release/* matrix/render/* matrix/results.py matrix/results/* matrix/revision.py
    matrix/run/* matrix/scoreboard/* matrix/selection.py matrix/site.py matrix/support.py matrix/trial.py
""".split()
# Files that only the tests of the core read.
CORE_ONLY = ("examples/toy_shim/*", "tests/core/*")
# Page -> the shims whose tests compare its tables with the code. tests/shims/conftest.py runs these tests in required
# cells only.
COMPARED_PAGES = {"docs/cli.md": {REFERENCE, "tflite"}, "docs/reference/formats.md": {"tf1", "tf2", "tflite", "keras"}}
# The first line of a page, or the line before a block, names the shim and the modules that the block needs: see
# tests/pages/pages.py.
_NEEDS_OF_BLOCK = re.compile(r"^<!-- run: ([^\n]*?) -->", re.MULTILINE)
_BARE_BLOCK = re.compile(r"(?<!-->\n)^```(?:python|console)", re.MULTILINE)
CONSTRAINTS = "matrix/constraints/"


def depends_on(matrix: Matrix, cell: Cell, path: str) -> bool:
    """Whether a change of the file at `path` can change the outcome of a cell. `path` is relative to the repository."""
    if _matches_any(path, CORE_ONLY):
        return cell.shim == REFERENCE
    if path.endswith(".md"):
        return _reads_page(matrix, cell, path)
    if path.startswith(CONSTRAINTS):
        return path == f"{CONSTRAINTS}{cell.id}.txt"
    if _matches_any(path, UNREAD):
        return False
    if path.startswith("shims/"):
        return any(path.startswith(f"{distribution.path}/") for distribution in matrix.closure(cell.shim))
    owner = _owner(matrix, path)
    return owner is None or owner == cell.shim or (owner == "tensorflow" and cell.shim in {"tf1", "tf2"})


def relevant_entries(matrix: Matrix, cell: Cell, text: str) -> dict[str, Any]:
    """Return the parts of a matrix.toml on which the outcome of a cell depends, by name.

    `text`: the file, of any revision.
    """
    raw = _parse(text)
    shims, tools = raw.get("distributions", {}), raw.get("tools", {})
    return {
        **{name: raw.get(name) for name in ("version", "suites")},
        f"cells.{cell.id}": raw.get("cells", {}).get(cell.id),
        **{
            f"distributions.{distribution.key}": shims.get(distribution.key)
            for distribution in matrix.closure(cell.shim)
        },
        # Tools that make the cases; the other tools of a cell are in its constraints.
        **{f"tools.{name}": tools.get(name) for name in ("oracle", "zoo")},
    }


def digest(matrix: Matrix, cell: Cell) -> str:
    """Return the SHA-256 of all inputs of a cell, as they are in the working tree."""
    files = {path: content for path, content in _contents().items() if depends_on(matrix, cell, path)}
    document = json.dumps([files, relevant_entries(matrix, cell, (ROOT / ENTRIES).read_text(encoding="utf-8"))])
    return hashlib.sha256(document.encode()).hexdigest()


def git(*arguments: str) -> str:
    """Return the output of a git command in this repository. Raise a MatrixError if it fails."""
    try:
        command = ["git", "-C", str(ROOT), *arguments]
        return subprocess.run(command, capture_output=True, text=True, encoding="utf-8", check=True).stdout
    except FileNotFoundError as error:
        raise MatrixError("git is not on PATH. Install it: it lists the files of this repository.") from error
    except subprocess.CalledProcessError as error:
        raise MatrixError(f"git {' '.join(arguments)}: {error.stderr.strip()}") from error


@cache
def _parse(text: str) -> dict[str, Any]:
    return tomllib.loads(text)


@cache
def _contents() -> dict[str, str]:
    """Return path -> SHA-256 for each file of the working tree that git does not ignore."""
    paths = sorted(set(git("ls-files", "-z", "--cached", "--others", "--exclude-standard").split("\0")) - {""})
    return {path: _digest(ROOT / path) for path in paths if (ROOT / path).is_file()}


def _digest(path: Path) -> str:
    """Return the SHA-256 of a file."""
    return hashlib.sha256(path.read_bytes()).hexdigest()


def _reads_page(matrix: Matrix, cell: Cell, page: str) -> bool:
    """Whether the tests of a cell execute code blocks of a page, or compare its tables with the code.

    Each cell of the reference executes the blocks of the core.
    """
    if cell.shim in COMPARED_PAGES.get(page, ()) and (cell.shim == REFERENCE or cell.is_required):
        return True
    text = (ROOT / page).read_text(encoding="utf-8") if (ROOT / page).exists() else ""
    needs = [marker.split() for marker in _NEEDS_OF_BLOCK.findall(text)]
    # Blocks without a marker, on a page without one on its first line, are those of the core.
    if not text.startswith("<!-- run:") and _BARE_BLOCK.search(text) is not None:
        needs.append([REFERENCE])
    if cell.shim == REFERENCE:
        return any(words[0] == REFERENCE for words in needs)
    return any(page_cell(matrix, words) == cell for words in needs)


def _owner(matrix: Matrix, path: str) -> str | None:
    """Return the shim that a file in tests/shims or tests/gaps is for, by its name.

    None: the file is for no single shim.

    tests/shims/conftest.py has the same rule.
    """
    for key, distribution in matrix.distributions.items():
        tests = (f"tests/shims/{key}/*", f"tests/shims/test_{key}.py", f"tests/shims/test_{key}_*.py")
        gaps = (f"tests/gaps/{key}.toml", f"tests/gaps/primitives-{key}.toml")
        if distribution.path.startswith("shims/") and _matches_any(path, (*tests, *gaps)):
            return key
    owned = (f"tests/gaps/{shim}.toml" for shim in CORE_SHIMS)
    named = (f"tests/gaps/primitives-{shim}.toml" for shim in CORE_SHIMS)
    return next((shim for shim, *paths in zip(CORE_SHIMS, owned, named) if path in paths), None)


def _matches_any(path: str, patterns: Iterable[str]) -> bool:
    return any(fnmatchcase(path, pattern) for pattern in patterns)
