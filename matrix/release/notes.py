"""Release notes: the section of a version in CHANGELOG.md, and the commands that install the exact versions of a cell."""

from __future__ import annotations

import re

from matrix.data import Matrix, MatrixError
from matrix.release import constraints

__all__ = ["UNRELEASED", "exact_versions", "notes", "section"]

UNRELEASED = "Unreleased"


def section(changelog: str, name: str) -> str | None:
    """Return the text under the heading `## <name>`, with or without a date after the name.

    None: there is no such heading.
    """
    match = re.search(rf"^## {re.escape(name)}\b(?!\.)[^\n]*\n(.*?)(?=^## |\Z)", changelog, re.DOTALL | re.MULTILINE)
    return match.group(1).strip() if match else None


def notes(changelog: str, version: str, tag: str | None) -> str:
    """Return the release notes of a version: its section in the changelog.

    Raise a MatrixError if the section is missing or empty. With a `tag`, also raise a MatrixError if it is not
    `v<version>`, or the changelog has unreleased lines. None: there is no tag yet.
    """
    text = section(changelog, version)
    if not text:
        raise MatrixError(f"CHANGELOG.md says nothing under `## {version}`. Write its section.")
    if tag is not None:
        if tag != f"v{version}":
            raise MatrixError(f"the tag is {tag}, the version in matrix/matrix.toml {version}")
        if section(changelog, UNRELEASED):
            raise MatrixError(f"CHANGELOG.md has lines under `## {UNRELEASED}`. Move them under `## {version}`.")
    return f"{text}\n"


def exact_versions(matrix: Matrix) -> str:
    """Return the last section of the release notes: for each cell with constraints, the command that installs them."""
    cells = [cell for cell in matrix.cells.values() if cell.constraints.exists()]
    commands = [f"# Python {cell.python}\n{constraints.install_command(matrix, cell)}" for cell in cells]
    return "\n".join(["## Exact versions", "", "```sh", *commands, "```", ""])
