"""The rule that no two modules of the core define a public class of the same name."""

from __future__ import annotations

import ast
from collections import defaultdict
from collections.abc import Iterable

__all__ = ["repeated_classes"]


def repeated_classes(sources: Iterable[tuple[str, str]]) -> list[str]:
    """Return a text for each public class name that two modules define. `sources`: (path, source text) of each module."""
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
