"""What the outcome of a cell follows from: files of this repository, and its part of matrix.toml.

One table for both questions: whether a cell that was run would still find the same, and what a change can affect.
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

from matrix.data import REFERENCE, ROOT, Cell, Matrix, MatrixError

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

__all__ = ["ENTRIES", "digest", "git", "reads", "reads_entries"]

ENTRIES = "matrix/matrix.toml"
# No cell reads these. Whatever is in no room at all is read by every cell: better once too often.
UNREAD = """
    docs/*.svg LICENSE */LICENSE .ci/* .github/* .gitignore .pre-commit-config.yaml tox.ini toxfile.py
    mkdocs.yml benchmarks/* tests/benchmarks/* tests/e2e/* tests/matrix/* tests/scoreboard/* tests/selection/*
    matrix/__main__.py matrix/add.py matrix/branches.py matrix/ci.py matrix/lock.py matrix/matrix.toml matrix/packages.py
    matrix/peers/* matrix/probes/* matrix/release/* matrix/render/* matrix/results.py matrix/results/* matrix/revision.py
    matrix/run/* matrix/scoreboard/* matrix/selection.py matrix/site.py matrix/support.py matrix/trial.py
""".split()
# What only the tests of the core read.
TRIED = ("examples/toy_shim/*", "tests/core/*")
# Pages whose tables tests compare with the code, by shim; tests/shims/conftest.py runs those of pages in the cells of the gate.
COMPARED = {"docs/cli.md": {REFERENCE, "tflite"}, "docs/reference/formats.md": {"tf1", "tf2", "tflite", "keras"}}
# The first line of a page, or the line before a block, names the shim that executes the block: see tests/pages/pages.py.
_SHIM_OF_BLOCK = re.compile(r"^<!-- run: (\S+)", re.MULTILINE)
_BARE_BLOCK = re.compile(r"(?<!-->\n)^```(?:python|console)", re.MULTILINE)
CONSTRAINTS = "matrix/constraints/"


def reads(matrix: Matrix, cell: Cell, path: str) -> bool:
    """Whether what is in this file can change what the cell finds."""
    if _any(path, TRIED):
        return cell.shim == REFERENCE
    if path.endswith(".md"):
        return cell.shim in _shims_of(path) and (cell.shim == REFERENCE or cell.tier == "gate")
    if path.startswith(CONSTRAINTS):
        return path == f"{CONSTRAINTS}{cell.id}.txt"
    if _any(path, UNREAD):
        return False
    if path.startswith("shims/"):
        return any(path.startswith(f"{each.path}/") for each in matrix.closure(cell.shim))
    owner = _owner(matrix, path)
    return owner is None or owner == cell.shim or (owner == "tensorflow" and cell.shim in {"tf1", "tf2"})


def reads_entries(matrix: Matrix, cell: Cell, text: str) -> dict[str, Any]:
    """The part of a matrix.toml, of this or another revision, that a cell follows from, by what it says."""
    raw = _parsed(text)
    shims, tools = raw.get("distributions", {}), raw.get("tools", {})
    return {
        **{name: raw.get(name) for name in ("version", "suites")},
        f"cells.{cell.id}": raw.get("cells", {}).get(cell.id),
        **{f"distributions.{each.key}": shims.get(each.key) for each in matrix.closure(cell.shim)},
        # What makes the cases; the other tools of a cell are in its constraints.
        **{f"tools.{name}": tools.get(name) for name in ("oracle", "zoo")},
    }


def digest(matrix: Matrix, cell: Cell) -> str:
    """Of all that the outcome of a cell follows from, as it is in the working tree."""
    files = {path: content for path, content in _contents().items() if reads(matrix, cell, path)}
    told = json.dumps([files, reads_entries(matrix, cell, (ROOT / ENTRIES).read_text(encoding="utf-8"))])
    return hashlib.sha256(told.encode()).hexdigest()


def git(*arguments: str) -> str:
    try:
        command = ["git", "-C", str(ROOT), *arguments]
        return subprocess.run(command, capture_output=True, text=True, encoding="utf-8", check=True).stdout
    except FileNotFoundError as error:
        raise MatrixError("git is not on PATH: it tells which files belong here") from error
    except subprocess.CalledProcessError as error:
        raise MatrixError(f"git {' '.join(arguments)}: {error.stderr.strip()}") from error


@cache
def _parsed(text: str) -> dict[str, Any]:
    return tomllib.loads(text)


@cache
def _contents() -> dict[str, str]:
    """The digest of each file that is not ignored."""
    paths = sorted(set(git("ls-files", "-z", "--cached", "--others", "--exclude-standard").split("\0")) - {""})
    return {path: _digest(ROOT / path) for path in paths if (ROOT / path).is_file()}


def _digest(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()


def _shims_of(page: str) -> set[str]:
    """The shims whose tests execute blocks of a page, or compare its tables."""
    text = (ROOT / page).read_text(encoding="utf-8") if (ROOT / page).exists() else ""
    named = set(_SHIM_OF_BLOCK.findall(text)) | COMPARED.get(page, set())
    # Blocks without a marker, on a page without one on its first line, are those of the core.
    bare = not text.startswith("<!-- run:") and _BARE_BLOCK.search(text) is not None
    return named | ({REFERENCE} if bare else set())


def _owner(matrix: Matrix, path: str) -> str | None:
    """The shim that a test or a gap belongs to by its name, as tests/shims/conftest.py tells them apart."""
    for key, each in matrix.distributions.items():
        tests = (f"tests/shims/{key}/*", f"tests/shims/test_{key}.py", f"tests/shims/test_{key}_*.py")
        gaps = (f"tests/gaps/{key}.toml", f"tests/gaps/primitives-{key}.toml")
        if each.path.startswith("shims/") and _any(path, (*tests, *gaps)):
            return key
    return REFERENCE if path == f"tests/gaps/{REFERENCE}.toml" else None


def _any(path: str, patterns: Iterable[str]) -> bool:
    return any(fnmatchcase(path, pattern) for pattern in patterns)
