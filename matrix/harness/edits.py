"""Find the statements of passes that change fields of a graph, which only the rewriting interface may do."""

import ast
from pathlib import Path
from typing import Any, Collection, Iterator, List

__all__ = ["find_edits"]

_MUTATORS = frozenset(["add", "append", "clear", "extend", "insert", "pop", "remove", "setdefault", "sort", "update"])


def find_edits(path: Path, fields: Collection[str], editors: Collection[str] = ()) -> Iterator[str]:
    """Yield `file:line: name` for each statement of a module that changes a field, or calls an editing method.

    A field is changed by an assignment, by `del`, and by a method of its list or dict. Fields of `self`, and functions
    whose names end with `_example`, are left out.

    - fields: the names of the fields of a graph and its parts.
    - editors: the names of methods that change a part of a graph without its graph. Such a method may be called on
      the graph: on a parameter named `draft`.
    """
    for function in _roots(ast.parse(path.read_text(encoding="utf-8"))):
        for node in ast.walk(function):
            for target in _targets(node):
                while isinstance(target, ast.Subscript):
                    target = target.value
                if isinstance(target, ast.Attribute) and target.attr in fields and not _is_name(target.value, "self"):
                    yield "%s:%d: %s" % (path.name, target.lineno, target.attr)
            method = node.func if isinstance(node, ast.Call) else None
            if isinstance(method, ast.Attribute) and method.attr in editors and not _is_name(method.value, "draft"):
                yield "%s:%d: %s" % (path.name, method.lineno, method.attr)


def _roots(tree: ast.Module) -> List[ast.stmt]:
    """Return the statements of a module without the functions that build examples, which no pass has seen."""
    return [node for node in tree.body if not (isinstance(node, ast.FunctionDef) and node.name.endswith("_example"))]


def _targets(node: Any) -> List[ast.AST]:
    """Return the expressions that a statement or a call changes."""
    if isinstance(node, (ast.Assign, ast.Delete)):
        targets: List[ast.AST] = []
        for target in node.targets:
            targets.extend(target.elts if isinstance(target, (ast.Tuple, ast.List)) else [target])
        return targets
    if isinstance(node, (ast.AugAssign, ast.AnnAssign)):
        return [node.target]
    is_mutator = isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr in _MUTATORS
    return [node.func.value] if is_mutator else []


def _is_name(node: ast.AST, name: str) -> bool:
    return isinstance(node, ast.Name) and node.id == name
