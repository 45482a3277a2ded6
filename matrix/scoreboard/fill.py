"""Templates of the scoreboard, whose marks are `{{name}}`."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Mapping

__all__ = ["asset", "fill"]

ASSETS = Path(__file__).parent / "assets"


def asset(name: str) -> str:
    """Return the text of the template `name` in the folder `assets`."""
    return (ASSETS / name).read_text(encoding="utf-8").rstrip("\n")


def fill(text: str, values: Mapping[str, str]) -> str:
    """Return a template with each mark replaced by its value. Marks inside a value stay.

    An AssertionError is raised for a mark without a value, or a value without a mark.
    """
    used = set(re.findall(r"\{\{(\w+)\}\}", text))
    assert used == set(values), used ^ set(values)
    return re.sub(r"\{\{(\w+)\}\}", lambda mark: values[mark[1]], text)
