"""Metadata of every distribution: version, Requires-Python, classifiers, authors, addresses, dependencies, extras, licence."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from pathlib import Path

from packaging.version import Version

from matrix.branches import extras
from matrix.data import Distribution, Matrix
from matrix.render.text import read, replace

__all__ = ["BEGIN", "END", "files", "pythons", "urls"]

BEGIN = "# >>> rendered from matrix/matrix.toml by `python -m matrix render`: edit there"
END = "# <<< rendered"
_BLOCK = re.compile(f"^{re.escape(BEGIN)}$.*?^{re.escape(END)}$", re.DOTALL | re.MULTILINE)
_CLASSIFIERS = (
    "Development Status :: 3 - Alpha",
    "Intended Audience :: Developers",
    "Operating System :: OS Independent",
    "Programming Language :: Python :: 3 :: Only",
    "Topic :: Scientific/Engineering :: Artificial Intelligence",
    "Typing :: Typed",
)
WIDTH = 120
_VERSION = re.compile(r'^__version__(?P<type>: \w+)? = ".*"$', re.MULTILINE)


def files(matrix: Matrix, root: Path) -> dict[Path, str]:
    """Return path -> text of the files with metadata: pyproject.toml, `__init__.py` and LICENSE of each distribution.

    In pyproject.toml, the block between two markers is rendered; in `__init__.py`, the line `__version__ = ...`.
    """
    texts: dict[Path, str] = {}
    licence = read(root / "LICENSE")
    for distribution in matrix.distributions.values():
        folder = root / distribution.path
        project = folder / "pyproject.toml"
        package = folder / distribution.package / "__init__.py"
        texts[project] = replace(_BLOCK, _block(matrix, distribution), project)
        version = rf'__version__\g<type> = "{matrix.version}"'
        texts[package] = replace(_VERSION, version, package)
        if folder != root:
            texts[folder / "LICENSE"] = licence
    return texts


def pythons(matrix: Matrix, distribution: Distribution) -> list[str]:
    """Return the Pythons of the cells that install a distribution, the oldest first: those that it is tested on."""
    cells = [cell for cell in matrix.cells.values() if distribution in matrix.closure(cell.shim)]
    return sorted({cell.python for cell in cells}, key=Version)


def urls(matrix: Matrix) -> dict[str, str]:
    """Return label -> address of the pages of the project, as the package index shows them."""
    metadata = matrix.metadata
    return {
        "Documentation": metadata.documentation,
        "Source": metadata.repository,
        "Issues": f"{metadata.repository}/issues",
        "Changelog": f"{metadata.blob}CHANGELOG.md",
    }


def _block(matrix: Matrix, distribution: Distribution) -> str:
    """Return the rendered block of the pyproject.toml of a distribution, as a template of `re.sub`."""
    tested = [f"Programming Language :: Python :: {python}" for python in pythons(matrix, distribution)]
    authors = ", ".join(f"{{ name = {json.dumps(author)} }}" for author in matrix.metadata.authors)
    lines = [
        BEGIN,
        f'version = "{matrix.version}"',
        f'requires-python = "{matrix.requires_python(distribution)}"',
        f"authors = [{authors}]",
        *_array("classifiers", sorted([*_CLASSIFIERS, *tested], key=_natural_order)),
        *_array("dependencies", tuple(map(matrix.pin_own, distribution.requires))),
        "",
        "[project.urls]",
        *(f"{label} = {json.dumps(address)}" for label, address in urls(matrix).items()),
    ]
    if published := extras(matrix, distribution):
        lines += ["", "[project.optional-dependencies]"]
        for name, requirements in published.items():
            lines += _array(name, requirements)
    # The block is a replacement of a regular expression, in which backslashes are special.
    return "\n".join([*lines, END]).replace("\\", "\\\\")


def _natural_order(classifier: str) -> list[str]:
    """Return a sort key that puts Python 3.7 before 3.10."""
    return re.sub(r"\d+", lambda match: match.group().zfill(3), classifier).split(" :: ")


def _array(key: str, values: Sequence[str]) -> list[str]:
    """Return the lines of a TOML array: one line if it fits. A JSON string is also a TOML string."""
    items = [json.dumps(value) for value in values]
    line = f"{key} = [{', '.join(items)}]"
    return [line] if len(line) <= WIDTH else [f"{key} = [", *(f"    {item}," for item in items), "]"]
