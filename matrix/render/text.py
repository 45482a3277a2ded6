"""Files with rendered text: read them, and replace a part of them."""

from __future__ import annotations

import re
from pathlib import Path

from matrix.data import MatrixError

__all__ = ["read", "replace", "replace_in"]


def replace(pattern: re.Pattern[str], text: str, path: Path) -> str:
    """Return the text of a file in which the match of the pattern is replaced by `text`, a template as `re.sub` takes
    it.

    Raise a MatrixError unless the file has exactly one match.
    """
    return replace_in(pattern, text, read(path), path)


def replace_in(pattern: re.Pattern[str], text: str, whole: str, path: Path) -> str:
    """Return `whole` with the match of the pattern replaced by `text`, a template as `re.sub` takes it.

    `path`: the file to name in the error. Raise a MatrixError unless `whole` has exactly one match.
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
