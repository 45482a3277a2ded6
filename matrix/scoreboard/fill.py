"""What is drawn from a text with marks in it: `{{name}}` each."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Mapping

__all__ = ["asset", "fill"]

ASSETS = Path(__file__).parent / "assets"


def asset(name: str) -> str:
    return (ASSETS / name).read_text(encoding="utf-8").rstrip("\n")


def fill(text: str, values: Mapping[str, str]) -> str:
    """Every mark has a value and every value a mark; a value may hold what looks like a mark."""
    used = set(re.findall(r"\{\{(\w+)\}\}", text))
    assert used == set(values), used ^ set(values)
    return re.sub(r"\{\{(\w+)\}\}", lambda mark: values[mark[1]], text)
