"""Every distribution's version, Python range, dependencies and extras, in its pyproject.toml and package, and its licence."""

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
    """A pyproject.toml holds one block between two marker lines, a package one `__version__` line, a folder the licence."""
    found: dict[Path, str] = {}
    licence = read(root / "LICENSE")
    for distribution in matrix.distributions.values():
        folder = root / distribution.path
        project = folder / "pyproject.toml"
        package = folder / distribution.package / "__init__.py"
        found[project] = replace(_BLOCK, _block(matrix, distribution), project)
        version = rf'__version__\g<type> = "{matrix.version}"'
        found[package] = replace(_VERSION, version, package)
        if folder != root:
            found[folder / "LICENSE"] = licence
    return found


def _block(matrix: Matrix, distribution: Distribution) -> str:
    lines = [
        BEGIN,
        f'version = "{matrix.version}"',
        f'requires-python = "{matrix.requires_python(distribution)}"',
        *array("dependencies", tuple(map(matrix.pinned, distribution.requires))),
    ]
    if published := extras(matrix, distribution):
        lines += ["", "[project.optional-dependencies]"]
        for name, requirements in published.items():
            lines += array(name, requirements)
    # The pattern's replacement gives backslashes a meaning; none may come from here.
    return "\n".join([*lines, END]).replace("\\", "\\\\")


def array(key: str, requirements: tuple[str, ...]) -> list[str]:
    """A TOML array; a JSON string is a TOML string."""
    items = [f"    {json.dumps(each)}," for each in requirements]
    return [f"{key} = [", *items, "]"]
