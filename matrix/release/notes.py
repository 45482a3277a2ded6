"""Release notes: the section of a version in CHANGELOG.md."""

from __future__ import annotations

import re

from matrix.data import MatrixError

__all__ = ["UNRELEASED", "notes", "section"]

UNRELEASED = "Unreleased"


def section(changelog: str, name: str) -> str | None:
    """Return the text under the heading `## <name>`, with or without a date after the name.

    None: there is no such heading.
    """
    match = re.search(rf"^## {re.escape(name)}\b(?!\.)[^\n]*\n(.*?)(?=^## |\Z)", changelog, re.DOTALL | re.MULTILINE)
    return match.group(1).strip() if match else None


def notes(changelog: str, version: str, tag: str | None) -> str:
    """Return the release notes of a version: its section in the changelog.

    Raise a MatrixError if the section is missing.

    With a tag, also raise a MatrixError if the tag differs from the version, or the changelog has unreleased lines.
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
