"""The rule that every random test has a seed, and draws the same numbers when it is run alone."""

from __future__ import annotations

import ast
from collections.abc import Collection, Iterable, Iterator
from typing import TypeGuard

__all__ = ["shared_generators"]

_MAKERS = frozenset(["RandomState", "default_rng", "Random"])
_FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda)


def shared_generators(sources: Iterable[tuple[str, str]]) -> list[str]:
    """Return a text for each generator of random numbers without a seed, and for each that the tests of a module share.

    A module-level generator passes if `per_test` restores it for each test, or if numbers are drawn from it at once.
    `sources`: (path, source text) of each module of tests.
    """
    problems = []
    for path, source in sources:
        tree = ast.parse(source)
        for call, outer in _import_time_calls(tree, ()):
            if not _is_drawn_at_once(outer) and not _is_call_of(outer[-1], {"per_test"}):
                problems.append(
                    f"{path}:{call.lineno}: generator: tests share this generator: use `per_test` of matrix.harness"
                )
        for node in ast.walk(tree):
            if _is_call_of(node, _MAKERS) and not (node.args or node.keywords):
                problems.append(f"{path}:{node.lineno}: generator: this generator has no seed")
    return problems


def _import_time_calls(node: ast.AST, outer: tuple[ast.AST, ...]) -> Iterator[tuple[ast.Call, tuple[ast.AST, ...]]]:
    """Yield (call that makes a generator, the nodes around it) for each call that runs when the module is imported.

    `outer`: the nodes around `node`, the innermost last.
    """
    if _is_call_of(node, _MAKERS):
        yield node, outer
    inner = _import_time_parts(node) if isinstance(node, _FUNCTIONS) else ast.iter_child_nodes(node)
    for child in inner:
        yield from _import_time_calls(child, (*outer, node))


def _import_time_parts(function: ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda) -> list[ast.AST]:
    """Return the decorators and the default values of a function: its body runs later."""
    defaults = [*function.args.defaults, *(value for value in function.args.kw_defaults if value is not None)]
    return [*getattr(function, "decorator_list", []), *defaults]


def _is_drawn_at_once(outer: tuple[ast.AST, ...]) -> bool:
    """Whether a method of the generator is called, as in `RandomState(0).rand(3)`: the generator itself is not kept."""
    if len(outer) < 2:
        return False
    reading, method = outer[-2:]
    return isinstance(method, ast.Attribute) and isinstance(reading, ast.Call) and reading.func is method


def _is_call_of(node: ast.AST, names: Collection[str]) -> TypeGuard[ast.Call]:
    """Whether a syntax node calls a function or method of one of these names."""
    if not isinstance(node, ast.Call):
        return False
    return (getattr(node.func, "attr", None) or getattr(node.func, "id", None)) in names
