"""Metadata of every distribution: version, Requires-Python, dependencies, extras and licence."""

from __future__ import annotations

import json
import re
from pathlib import Path

from matrix.branches import extras
from matrix.data import Distribution, Matrix
from matrix.render.text import read, replace

__all__ = ["BEGIN", "END", "array", "files"]

BEGIN = "# >>> rendered from matrix/matrix.toml by `python -m matrix render`: edit there"
END = "# <<< rendered"
_BLOCK = re.compile(f"^{re.escape(BEGIN)}$.*?^{re.escape(END)}$", re.DOTALL | re.MULTILINE)
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


def _block(matrix: Matrix, distribution: Distribution) -> str:
    lines = [
        BEGIN,
        f'version = "{matrix.version}"',
        f'requires-python = "{matrix.requires_python(distribution)}"',
        *array("dependencies", tuple(map(matrix.pin_own, distribution.requires))),
    ]
    if published := extras(matrix, distribution):
        lines += ["", "[project.optional-dependencies]"]
        for name, requirements in published.items():
            lines += array(name, requirements)
    # The block is a replacement of a regular expression, in which backslashes are special.
    return "\n".join([*lines, END]).replace("\\", "\\\\")


def array(key: str, requirements: tuple[str, ...]) -> list[str]:
    """Return the lines of a TOML array of requirements under a key. A JSON string is also a TOML string."""
    items = [f"    {json.dumps(requirement)}," for requirement in requirements]
    return [f"{key} = [", *items, "]"]
