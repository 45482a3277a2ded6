"""Limits on weak annotations: the share of parameters that are typed `Any` alone, and the number of `type: ignore`."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable

__all__ = ["IGNORES", "SHARES", "any_share", "check_annotations"]

SHARES = {
    "onnx_compat/": 0.05,
    "shims/tflite/": 0.05,
    "shims/tensorflow/": 0.15,
    "shims/tf1/": 0.15,
    "shims/tf2/": 0.15,
    "shims/keras/": 0.15,
}
"""Folder -> the largest share of its parameters that may be typed `Any` alone."""
IGNORES = 20
"""The largest number of `type: ignore` in the distributions, each with its reason."""


def any_share(sources: Iterable[str]) -> tuple[int, int]:
    """Return (number of parameters that are typed `Any` alone, number of all parameters), over all functions of the
    sources.

    `*args` and `**kwargs` count; `self` and `cls` do not.
    """
    untyped = total = 0
    for source in sources:
        for node in ast.walk(ast.parse(source)):
            if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
                arguments = node.args
                named = [
                    *arguments.posonlyargs,
                    *arguments.args,
                    *arguments.kwonlyargs,
                    arguments.vararg,
                    arguments.kwarg,
                ]
                annotations = [
                    parameter.annotation for parameter in named if parameter and parameter.arg not in ("self", "cls")
                ]
                total += len(annotations)
                untyped += sum(
                    isinstance(annotation, ast.Name) and annotation.id == "Any" for annotation in annotations
                )
    return untyped, total


def check_annotations(sources: Iterable[tuple[str, str]]) -> list[str]:
    """Return a text for each limit that is exceeded. `sources`: (path, source text) of each file."""
    kept = [(path, source) for path, source in sources if path.startswith(tuple(SHARES))]
    lines = []
    for folder, limit in SHARES.items():
        untyped, total = any_share(source for path, source in kept if path.startswith(folder))
        if untyped > limit * total:
            lines.append(f"{folder}: {untyped} of {total} parameters are typed `Any` alone; at most {limit:.0%} may be")
    ignores = sum(len(re.findall(r"#\s*type:\s*ignore", source)) for _, source in kept)
    if ignores > IGNORES:
        lines.append(f"{ignores} comments `type: ignore` in the distributions; at most {IGNORES}")
    return lines
