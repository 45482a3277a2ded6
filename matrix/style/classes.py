"""The rule that a class name has one meaning in a distribution."""

from __future__ import annotations

import ast
from collections import defaultdict
from collections.abc import Iterable

__all__ = ["repeated_classes"]


def repeated_classes(sources: Iterable[tuple[str, str]]) -> list[str]:
    """Return a line for each public class name that two modules of (path, source) define."""
    modules: dict[str, list[str]] = defaultdict(list)
    for path, source in sources:
        for node in ast.parse(source).body:
            if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                modules[node.name].append(path)
    return [
        f"{', '.join(paths)}: the class name '{name}' has {len(paths)} meanings"
        for name, paths in sorted(modules.items())
        if len(paths) > 1
    ]
