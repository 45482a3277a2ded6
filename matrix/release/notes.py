"""The section of CHANGELOG.md that a version has, as the notes of its release."""

from __future__ import annotations

import re

from matrix.data import MatrixError

__all__ = ["UNRELEASED", "notes", "section"]

UNRELEASED = "Unreleased"


def section(changelog: str, name: str) -> str | None:
    """What stands under `## <name>`, with or without a date behind it; None where there is no such heading."""
    found = re.search(rf"^## {re.escape(name)}\b(?!\.)[^\n]*\n(.*?)(?=^## |\Z)", changelog, re.DOTALL | re.MULTILINE)
    return found.group(1).strip() if found else None


def notes(changelog: str, version: str, tag: str | None) -> str:
    """What is told of the version; with the tag that it is published under, nothing may be left unreleased."""
    text = section(changelog, version)
    if not text:
        raise MatrixError(f"CHANGELOG.md says nothing under `## {version}`")
    if tag is not None:
        if tag != f"v{version}":
            raise MatrixError(f"the tag is {tag}, the version in matrix/matrix.toml {version}")
        if section(changelog, UNRELEASED):
            raise MatrixError(f"CHANGELOG.md has lines under `## {UNRELEASED}`, which {version} would publish unsaid")
    return f"{text}\n"
