"""Files with rendered text: read them, and replace a part of them."""

from __future__ import annotations

import re
from pathlib import Path

from matrix.data import MatrixError

__all__ = ["read", "replace", "replace_in"]


def replace(pattern: re.Pattern[str], text: str, path: Path) -> str:
    """Return the text of a file in which the match of the pattern is replaced by `text`.

    Raise a MatrixError unless it has one match.
    """
    return replace_in(pattern, text, read(path), path)


def replace_in(pattern: re.Pattern[str], text: str, whole: str, path: Path) -> str:
    """Return `whole`, the text for the file at `path`, in which the match of the pattern is replaced by `text`.

    Raise a MatrixError unless it has one match.
    """
    result, count = pattern.subn(text, whole)
    if count != 1:
        raise MatrixError(f"{path}: expected 1 block of rendered text, found {count}. Restore its marker lines.")
    return result


def read(path: Path) -> str:
    """Return the text of a file. Raise a MatrixError if the file is missing."""
    try:
        return path.read_text(encoding="utf-8")
    except FileNotFoundError:
        raise MatrixError(f"{path} is missing") from None
