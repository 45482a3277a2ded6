"""The rules that compare a docstring with the code of its function: errors, None, results, effects, conditions."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from typing import NamedTuple, Union

from matrix.style.words import RESULT_VERBS

__all__ = ["broken_contracts"]

Function = Union[ast.FunctionDef, ast.AsyncFunctionDef]

_FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef)
#: A method that a subclass defines, and a defect of the code itself, are no part of a contract.
_NO_ERRORS = frozenset(["NotImplementedError", "AssertionError"])
#: The docstring of a command is its help text. It says nothing of exit codes and of errors of usage.
_COMMANDS = frozenset(["command"])
#: A context manager yields once. The result of an operator, a primitive or a native method is the operator's output.
_CONTEXT_MANAGERS = frozenset(["contextmanager", "fixture"])
_VALUES = frozenset(["property", "cached_property", "op", "primitive", "native"]) | _CONTEXT_MANAGERS
_MUTATORS = frozenset(
    "add append appendleft clear discard extend insert pop popitem popleft remove reverse setdefault sort update".split()
)
_RESULT = re.compile(r"\b(?:return|yield|whether|(?:the|its) results? (?:is|are|has|have)\b)", re.IGNORECASE)
_CONDITION = re.compile(
    r"\b(?:if|unless|only|when|without|except|nothing|once|other|else|otherwise|where|that|which|until)\b",
    re.IGNORECASE,
)


class _Contract(NamedTuple):
    """A documented function: its text, its decorators by name, and the syntax nodes of its own body."""

    function: Function
    text: str
    decorators: frozenset[str]
    nodes: list[ast.AST]

    @property
    def results(self) -> list[ast.Return]:
        """The return statements with a value other than None."""
        returns = [node for node in self.nodes if isinstance(node, ast.Return)]
        return [node for node in returns if not (node.value is None or _is_none(node.value))]

    @property
    def yields(self) -> bool:
        """Whether the function is a generator."""
        return any(isinstance(node, (ast.Yield, ast.YieldFrom)) for node in self.nodes)


def broken_contracts(tree: ast.AST) -> Iterator[tuple[int, str, str]]:
    """Yield (line, rule, text) for each docstring that omits a part of what its function does.

    Functions without a docstring, nested functions of others, and help texts of commands have no contract.
    """
    for function in ast.walk(tree):
        if not isinstance(function, _FUNCTIONS):
            continue
        text = ast.get_docstring(function)
        decorators = frozenset(map(_name, function.decorator_list))
        if not text or decorators & _COMMANDS:
            continue
        contract = _Contract(function, text, decorators, list(_own_nodes(function)))
        rules = (_errors, _none, _optional, _flags, _yields, _returns, _mutations, _guards)
        for name, message in ((rule.__name__[1:], rule(contract)) for rule in rules):
            if message:
                yield function.body[0].lineno, name, f"'{function.name}' {message}"


def _errors(contract: _Contract) -> str:
    """Return a message if the docstring does not name an exception that the function raises and does not catch, or ""."""
    handlers = [node for node in contract.nodes if isinstance(node, ast.ExceptHandler)]
    errors = {handler.name for handler in handlers if handler.name}
    caught = {id(node) for node in contract.nodes if isinstance(node, ast.Try) for node in _caught_raises(node)}
    raised = [
        _name(node.exc)
        for node in contract.nodes
        if isinstance(node, ast.Raise) and isinstance(node.exc, ast.Call) and id(node) not in caught
        if _root(node.exc.func) not in errors  # `raise error.at(...)` raises a caught error again
    ]
    raised = [name for name in raised if name not in _NO_ERRORS]
    named = [name for name in raised if name[:1].isupper()]
    omitted = sorted({name for name in named if not re.search(rf"\b{name}\b", contract.text)})
    if omitted:
        return f"raises {', '.join(omitted)}: say when"
    if raised and not named and not re.search(r"\braise", contract.text, re.IGNORECASE):
        return "raises an error: say which and when"
    return ""


def _caught_raises(block: ast.Try) -> Iterator[ast.Raise]:
    """Yield the raise statements in the body of a `try` that one of its handlers catches.

    A handler for Exception, or for a constant tuple of classes such as `_BROKEN`, counts as a handler for every class.
    """
    types = [handler.type for handler in block.handlers if handler.type]
    names = {_name(node) for type_ in types for node in (type_.elts if isinstance(type_, ast.Tuple) else [type_])}
    catches_all = any(name == "Exception" or name.isupper() for name in names)
    for statement in block.body:
        for node in ast.walk(statement):
            if isinstance(node, ast.Raise) and node.exc and (catches_all or _name(node.exc) in names):
                yield node


def _none(contract: _Contract) -> str:
    """Return a message if the annotation of the result allows None and the docstring does not mention None, or ""."""
    is_mentioned = re.search(r"\bNone\b", contract.text)
    return "can return None: say when" if _allows_none(contract.function.returns) and not is_mentioned else ""


def _optional(contract: _Contract) -> str:
    """Return a message if a parameter may be None, and the docstring neither names it nor mentions None, or "".

    Operators, primitives and commands have other places for their parameters. A text on "the arguments" counts.
    """
    is_exempt = contract.decorators & _VALUES or contract.function.name in ("main", "__init__")
    if is_exempt or re.search(r"\b(?:None|arguments)\b", contract.text):
        return ""
    omitted = [
        parameter.arg
        for parameter in _parameters(contract.function)
        if _allows_none(parameter.annotation) and not re.search(rf"\b{parameter.arg}\b", contract.text)
    ]
    return f"takes None for {', '.join(omitted)}: say what it means" if omitted else ""


def _flags(contract: _Contract) -> str:
    """Return a message if the docstring does not name a bool parameter, or "". A text on "the flags" counts.

    Operators and primitives have the parameters of ONNX. `keepdims` has the meaning of numpy.
    """
    is_exempt = contract.decorators & (_VALUES | {"setter"})
    if is_exempt or re.search(r"\b(?:arguments|flags)\b", contract.text, re.IGNORECASE):
        return ""
    omitted = [
        parameter.arg
        for parameter in _parameters(contract.function)
        if isinstance(parameter.annotation, ast.Name) and parameter.annotation.id == "bool"
        if parameter.arg != "keepdims" and not re.search(rf"\b{parameter.arg}\b", contract.text)
    ]
    return f"takes the flag {', '.join(omitted)}: say what it does" if omitted else ""


def _yields(contract: _Contract) -> str:
    """Return a message if a generator's docstring does not say what it yields, or ""."""
    if not contract.yields or contract.decorators & _CONTEXT_MANAGERS:
        return ""
    return "" if re.search(r"\byield", contract.text, re.IGNORECASE) else "is a generator: say what it yields"


def _returns(contract: _Contract) -> str:
    """Return a message if the docstring does not say what the function returns, or "".

    A first word such as "Convert" needs no more, because its object is the result. A noun phrase names the result.
    """
    first = contract.text.split()[0]
    is_exempt = contract.decorators & _VALUES or contract.function.name.startswith(("__", "test_"))
    if is_exempt or not contract.results or _RESULT.search(contract.text):
        return ""
    if contract.function.name == "main":
        return "returns an exit code: say which"
    is_noun_phrase = first in ("A", "An", "Each", "Every", "The") or not first[0].isupper()
    return "" if is_noun_phrase or first in RESULT_VERBS else f"returns a value: '{first}' does not say which"


def _mutations(contract: _Contract) -> str:
    """Return a message if the docstring does not name a parameter whose object the function changes, or ""."""
    parameters = [parameter.arg for parameter in _parameters(contract.function)]
    assigned = {node.id for node in contract.nodes if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store)}
    mutated = {_root(target) for node in contract.nodes for target in _changed_objects(node)}
    omitted = [
        name
        for name in parameters
        if name in mutated - assigned - {"self", "cls"} and not re.search(rf"\b{name}\b", contract.text)
    ]
    return f"changes the argument {', '.join(omitted)}: name it" if omitted else ""


def _changed_objects(node: ast.AST) -> Iterator[ast.AST]:
    """Yield the expressions of the objects that a statement changes by assignment, deletion or a method such as append."""
    targets: list[ast.expr] = []
    if isinstance(node, (ast.Assign, ast.Delete)):
        targets = [item for target in node.targets for item in getattr(target, "elts", [target])]
    elif isinstance(node, (ast.AugAssign, ast.AnnAssign)):
        targets = [node.target]
    elif isinstance(node, ast.Expr) and isinstance(node.value, ast.Call):
        function = node.value.func
        targets = [function] if isinstance(function, ast.Attribute) and function.attr in _MUTATORS else []
    yield from (target for target in targets if isinstance(target, (ast.Attribute, ast.Subscript)))


def _guards(contract: _Contract) -> str:
    """Return a message if a function without a result has a guard `if ...: return`, and its docstring no condition."""
    guards = [
        node
        for node in contract.function.body
        if isinstance(node, ast.If) and isinstance(node.body[0], ast.Return) and node.body[0].value is None
    ]
    if guards and not contract.results and not contract.yields and not _CONDITION.search(contract.text):
        return f"does nothing if {ast.unparse(guards[0].test)}: say so"
    return ""


def _own_nodes(function: Function) -> Iterator[ast.AST]:
    """Yield the syntax nodes of a function's body, without the insides of nested functions and classes."""
    pending: list[ast.AST] = list(function.body)
    while pending:
        node = pending.pop()
        yield node
        if not isinstance(node, (*_FUNCTIONS, ast.Lambda, ast.ClassDef)):
            pending.extend(ast.iter_child_nodes(node))


def _parameters(function: Function) -> list[ast.arg]:
    """Return the parameters of a function, without `*args` and `**kwargs`."""
    return [*function.args.posonlyargs, *function.args.args, *function.args.kwonlyargs]


def _allows_none(annotation: ast.expr | None) -> bool:
    """Whether an annotation is `Optional[X]`, `X | None` or `None | X`, also as a text. False for None alone."""
    text = ast.unparse(annotation).strip("'\"") if annotation else ""
    return bool(re.match(r"(typing\.)?Optional\[|None \|", text) or re.search(r"\| None( \||$)", text))


def _name(node: ast.AST) -> str:
    """Return the last part of the name that an expression calls or reads: `click.BadParameter("x")` -> BadParameter.

    "" for any other expression.
    """
    if isinstance(node, ast.Call):
        return _name(node.func)
    return str(getattr(node, "attr", getattr(node, "id", "")))


def _root(node: ast.AST) -> str:
    """Return the variable that an attribute or an item belongs to: `a` of `a.b[0].c`. "" for any other expression."""
    while isinstance(node, (ast.Attribute, ast.Subscript)):
        node = node.value
    return getattr(node, "id", "")


def _is_none(node: ast.AST) -> bool:
    return isinstance(node, ast.Constant) and node.value is None
