"""Templates with marks, `{{name}}` each."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Mapping

__all__ = ["asset", "fill"]

ASSETS = Path(__file__).parent / "assets"


def asset(name: str) -> str:
    """Return the text of a template."""
    return (ASSETS / name).read_text(encoding="utf-8").rstrip("\n")


def fill(text: str, values: Mapping[str, str]) -> str:
    """Replace the marks by their values. Each mark needs a value and each value a mark; values are not searched for marks."""
    used = set(re.findall(r"\{\{(\w+)\}\}", text))
    assert used == set(values), used ^ set(values)
    return re.sub(r"\{\{(\w+)\}\}", lambda mark: values[mark[1]], text)
