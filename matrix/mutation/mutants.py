"""The mutants of a source file: copies of its syntax tree with one change each."""

from __future__ import annotations

import ast
import copy
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

__all__ = ["Function", "Mutant", "compile_mutant", "find_mutants"]

_COMPARISONS: dict[type[ast.cmpop], type[ast.cmpop]] = {
    ast.Lt: ast.LtE,
    ast.LtE: ast.Lt,
    ast.Gt: ast.GtE,
    ast.GtE: ast.Gt,
    ast.Eq: ast.NotEq,
    ast.NotEq: ast.Eq,
    ast.In: ast.NotIn,
    ast.NotIn: ast.In,
    ast.Is: ast.IsNot,
    ast.IsNot: ast.Is,
}
_ARITHMETIC: dict[type[ast.operator], type[ast.operator]] = {
    ast.Add: ast.Sub,
    ast.Sub: ast.Add,
    ast.Mult: ast.FloorDiv,
    ast.Div: ast.Mult,
    ast.FloorDiv: ast.Mult,
    ast.Mod: ast.Mult,
    ast.Pow: ast.Mult,
    ast.BitAnd: ast.BitOr,
    ast.BitOr: ast.BitAnd,
}
_CALLS = {"any": "all", "all": "any", "min": "max", "max": "min"}
# Functions whose first two arguments are not exchanged: the call would raise a TypeError, which every test finds.
_ORDERED = frozenset(["isinstance", "issubclass", "hasattr", "getattr", "setattr", "map", "filter"])
# Functions that give the same result for exchanged arguments.
_SYMMETRIC = frozenset(["is_equal", "is_equal_shape", "decide_equal", "maximum", "minimum", "max", "min"])
# Nodes that are not mutated: no test has to check the text of an error or of an f-string.
_UNCHANGED = (ast.Raise, ast.Assert, ast.JoinedStr)

Function = tuple[str, int]
"""The qualified name and the first line of a function, as its code object has them."""
_Change = tuple[str, ast.AST, Callable[[Any], ast.AST | None]]
"""(name of the mutation, the node, function from a copy of the node to its replacement; None removes the node)."""


class Mutant(NamedTuple):
    """A change of one expression or statement of a function.

    - number: the index of the mutant among all mutants of the file.
    - line: the first line of the changed code.
    - lines: only a test that executes one of these lines can kill the mutant.
    - function: the outermost function or method around the changed code.
    - operator: the name of the mutation, such as "comparison".
    - before, after: the first line of the code before and after the change.
    """

    number: int
    line: int
    lines: range
    function: Function
    operator: str
    before: str
    after: str


def find_mutants(source: str) -> list[Mutant]:
    """Return the mutants of all functions in the text of a source file, in the order of its lines."""
    tree = ast.parse(source)
    mutants = []
    for number, (function, statement, change) in enumerate(_changes(tree)):
        operator, node, replace = change
        replaced = replace(copy.deepcopy(node))
        after = "pass" if replaced is None else ast.unparse(replaced)
        lines = _header(statement)
        mutants.append(Mutant(number, node.lineno, lines, function, operator, _first_line(node), after.split("\n")[0]))  # type: ignore[attr-defined]  # the selected statements have line numbers
    return mutants


def compile_mutant(source: str, mutant: Mutant, path: str) -> Any:
    """Compile a source text with one mutant applied. Return the code object of the module; `path` is its file name.

    Line numbers stay, so that code objects can be matched with functions.
    """
    tree = ast.parse(source)
    change = next(change for number, (_, _, change) in enumerate(_changes(tree)) if number == mutant.number)
    _, node, replace = change
    replaced = replace(copy.deepcopy(node)) or ast.Pass()
    changed: ast.Module = _Replacement(node, ast.copy_location(replaced, node)).visit(tree)
    return compile(ast.fix_missing_locations(changed), path, "exec")


class _Replacement(ast.NodeTransformer):
    """Replaces one node of a syntax tree by another node."""

    def __init__(self, old: ast.AST, new: ast.AST) -> None:
        self._old = old
        self._new = new

    def visit(self, node: ast.AST) -> Any:
        return self._new if node is self._old else self.generic_visit(node)


def _changes(tree: ast.Module) -> Iterator[tuple[Function, ast.stmt, _Change]]:
    """Yield (outermost function, statement, change) for each possible change of a syntax tree."""
    for name, function in _functions(tree.body, ""):
        first = min([function.lineno, *(decorator.lineno for decorator in function.decorator_list)])
        for statement in _statements(function.body):
            for change in _changes_of_statement(statement):
                yield (name, first), statement, change


def _functions(body: list[ast.stmt], prefix: str) -> Iterator[tuple[str, ast.FunctionDef]]:
    """Yield (qualified name, function) of all functions and methods, without nested functions and `__repr__`."""
    for statement in body:
        if isinstance(statement, ast.ClassDef):
            yield from _functions(statement.body, prefix + statement.name + ".")
        elif isinstance(statement, ast.FunctionDef) and statement.name != "__repr__":
            yield prefix + statement.name, statement


def _statements(body: list[ast.stmt]) -> Iterator[ast.stmt]:
    """Yield each statement, followed by the statements inside it, also those of nested functions."""
    for statement in body:
        yield statement
        for field in ("body", "orelse", "finalbody"):
            yield from _statements(getattr(statement, field, []))
        for handler in getattr(statement, "handlers", []):
            yield from _statements(handler.body)


def _header(statement: ast.stmt) -> range:
    """Return the lines of a compound statement before its first inner statement; all lines of any other statement."""
    inner = list(_statements([statement]))[1:]
    end = min(replacement.lineno for replacement in inner) - 1 if inner else statement.end_lineno or statement.lineno
    return range(statement.lineno, max(end, statement.lineno) + 1)


def _changes_of_statement(statement: ast.stmt) -> Iterator[_Change]:
    yield from _changes_of_whole(statement)
    if isinstance(statement, (*_UNCHANGED, ast.FunctionDef, ast.Import, ast.ImportFrom)):
        return
    for node in _expressions(statement):
        yield from _changes_of_expression(node)


def _changes_of_whole(statement: ast.stmt) -> Iterator[_Change]:
    """Yield changes that remove the statement, or replace a returned value by None.

    Assignments to names stay: without one, a NameError would kill the mutant in any test.
    """
    docstring = isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Constant)
    guard = isinstance(statement, ast.If) and not statement.orelse
    if guard or (
        isinstance(statement, (ast.Expr, ast.Raise, ast.AugAssign, ast.Continue, ast.Break)) and not docstring
    ):
        yield "drop statement", statement, lambda copied: None
    if isinstance(statement, ast.Assign) and isinstance(statement.targets[0], (ast.Subscript, ast.Attribute)):
        yield "drop statement", statement, lambda copied: None
    if isinstance(statement, ast.Return) and statement.value is not None and not _is_none(statement.value):
        yield "return None", statement, lambda copied: ast.Return(ast.Constant(None))


def _expressions(statement: ast.stmt) -> Iterator[ast.expr]:
    """Yield the expressions of a statement, without annotations and without the expressions of inner statements."""
    fields = [value for name, value in ast.iter_fields(statement) if name not in ("annotation", "body", "orelse")]
    waiting = [item for field in fields for item in (field if isinstance(field, list) else [field])]
    while waiting:
        node = waiting.pop(0)
        if not isinstance(node, ast.AST) or isinstance(node, (ast.stmt, ast.ExceptHandler, *_UNCHANGED)):
            continue
        if isinstance(node, ast.expr):
            yield node
        waiting[:0] = ast.iter_child_nodes(node)


def _changes_of_expression(node: ast.expr) -> Iterator[_Change]:
    if isinstance(node, ast.Compare):
        for k, operator in enumerate(node.ops):
            yield "comparison", node, _set_item("ops", k, _COMPARISONS[type(operator)]())
    elif isinstance(node, ast.BoolOp):
        for k in range(len(node.values)):
            yield "drop condition", node, _drop_value(k)
        yield "boolean", node, _set("op", ast.And() if isinstance(node.op, ast.Or) else ast.Or())
    elif isinstance(node, ast.UnaryOp) and isinstance(node.op, (ast.Not, ast.USub)):
        yield "boolean" if isinstance(node.op, ast.Not) else "arithmetic", node, lambda copied: copied.operand
    elif isinstance(node, ast.IfExp):
        yield "boolean", node, lambda copied: copied.body
        yield "boolean", node, lambda copied: copied.orelse
    elif isinstance(node, ast.BinOp) and type(node.op) in _ARITHMETIC and not _is_text(node):
        yield "arithmetic", node, _set("op", _ARITHMETIC[type(node.op)]())
    elif isinstance(node, ast.Constant) and isinstance(node.value, (bool, int)):
        yield "constant", node, _set("value", not node.value if isinstance(node.value, bool) else node.value + 1)
    elif isinstance(node, ast.Call):
        yield from _changes_of_call(node)


def _changes_of_call(node: ast.Call) -> Iterator[_Change]:
    name = node.func.id if isinstance(node.func, ast.Name) else ""
    if name in _CALLS:
        yield "call", node, _set("func", ast.Name(_CALLS[name], ast.Load()))
    plain = not any(isinstance(argument, ast.Starred) for argument in node.args[:2])
    if len(node.args) > 1 and plain and name not in _ORDERED | _SYMMETRIC:
        yield "swap arguments", node, _swap_arguments


def _swap_arguments(copied: Any) -> ast.AST:
    copied.args[:2] = copied.args[1::-1]
    return copied  # type: ignore[no-any-return]  # the callers pass syntax nodes of many classes


def _set(field: str, value: Any) -> Callable[[Any], ast.AST]:
    """Return a function that sets a field of a copied node, and returns this node."""

    def replace(copied: Any) -> ast.AST:
        setattr(copied, field, value)
        return copied  # type: ignore[no-any-return]  # the callers pass syntax nodes of many classes

    return replace


def _set_item(field: str, index: int, value: Any) -> Callable[[Any], ast.AST]:
    """Return a function that sets an item of a list field of a copied node, and returns this node."""

    def replace(copied: Any) -> ast.AST:
        getattr(copied, field)[index] = value
        return copied  # type: ignore[no-any-return]  # the callers pass syntax nodes of many classes

    return replace


def _drop_value(index: int) -> Callable[[Any], Any]:
    """Return a function that removes a value of a copied `and` or `or`. It returns the node, or its only value left."""

    def replace(copied: Any) -> Any:
        del copied.values[index]
        return copied.values[0] if len(copied.values) == 1 else copied

    return replace


def _is_none(node: ast.expr) -> bool:
    return isinstance(node, ast.Constant) and node.value is None


def _is_text(node: ast.BinOp) -> bool:
    """Whether an operand of a binary operator is a string constant: the operator joins or formats text."""
    return any(isinstance(side, ast.Constant) and isinstance(side.value, str) for side in (node.left, node.right))


def _first_line(node: ast.AST) -> str:
    return ast.unparse(node).split("\n")[0]
