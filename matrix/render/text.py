"""Text between two places of a file, and the files themselves."""

from __future__ import annotations

import re
from pathlib import Path

from matrix.data import MatrixError

__all__ = ["read", "replace"]


def replace(pattern: re.Pattern[str], text: str, path: Path) -> str:
    """The file with the one place that the pattern finds in it replaced."""
    result, count = pattern.subn(text, read(path))
    if count != 1:
        raise MatrixError(f"{path}: expected one place to render into, found {count}")
    return result


def read(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8")
    except FileNotFoundError:
        raise MatrixError(f"{path} is missing") from None
