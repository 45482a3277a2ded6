"""The rules of the style check, applied to the syntax tree and the comments of one Python file."""

from __future__ import annotations

import ast
import io
import re
import tokenize
from collections.abc import Iterator
from typing import NamedTuple

from matrix.style.contracts import broken_contracts
from matrix.style.words import FIRST_WORDS, IDENTIFIERS, PHRASES, is_participle

__all__ = ["LONGEST_SENTENCE", "LONGEST_SUBJECT", "Problem", "check_source", "check_subject"]

LONGEST_SUBJECT = 72
"""The largest number of characters of a commit subject."""
LONGEST_SENTENCE = 25
"""The largest number of words of a sentence in a docstring."""

_PHRASES = [(re.compile(r"\b(?:%s)\b" % pattern, re.IGNORECASE), term) for pattern, term in PHRASES.items()]
_SUBJECT = re.compile(r"[a-z0-9_./, -]+: [a-z0-9`]")
_FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef)
_PROPERTIES = frozenset(["property", "cached_property", "setter"])


class Problem(NamedTuple):
    """A violation of a rule at a line."""

    line: int
    rule: str
    text: str


def check_source(source: str, documented: bool = True) -> list[Problem]:
    """Return the violations in the text of a Python file, sorted by line.

    `documented`: public names need docstrings, and docstrings must be complete.
    """
    tree = ast.parse(source)
    problems = [*_identifiers(tree), *_docstrings(tree), *_comments(source)]
    if documented:
        problems += _missing_docstrings(tree)
        problems += (Problem(*broken) for broken in broken_contracts(tree))
    return sorted(set(problems))


def check_subject(message: str) -> list[Problem]:
    """Return the violations of a commit message: its first line must be `area: verb object`, at most 72 characters.

    The subjects of merges, reverts and fixups have no violations.
    """
    subject = next((line for line in message.splitlines() if not line.startswith("#")), "")
    if subject.startswith(("Merge ", "Revert ", "fixup! ", "squash! ")):
        return []
    problems = []
    if len(subject) > LONGEST_SUBJECT:
        problems.append(Problem(1, "subject", f"the subject has {len(subject)} characters; at most {LONGEST_SUBJECT}"))
    if not _SUBJECT.match(subject):
        problems.append(
            Problem(1, "subject", "the subject is not `area: verb object`, as in `tflite: fold Pad into Conv`")
        )
    return problems


def _identifiers(tree: ast.AST) -> Iterator[Problem]:
    """Yield a problem for each bound name that is banned, and for each function whose name is a participle."""
    for node in ast.walk(tree):
        name = _bound_name(node)
        hint = IDENTIFIERS.get(name.strip("_")) if name else None
        if name and hint:
            yield Problem(_line(node), "identifier", f"the name '{name}' says no role: {hint}")
        elif isinstance(node, _FUNCTIONS) and is_participle(node.name) and not _is_property(node):
            yield Problem(node.lineno, "identifier", f"the function '{node.name}' is a participle: name it by a verb")


def _bound_name(node: ast.AST) -> str | None:
    """Return the name that a syntax node binds (function, class, parameter, assignment), or None."""
    if isinstance(node, (*_FUNCTIONS, ast.ClassDef)):
        return node.name
    if isinstance(node, ast.arg):
        return node.arg
    if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
        return node.id
    if isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store):
        return node.attr
    return None


def _is_property(function: ast.FunctionDef | ast.AsyncFunctionDef) -> bool:
    """Whether the decorators of a function make it a property or the setter of one."""
    names = {getattr(decorator, "id", getattr(decorator, "attr", "")) for decorator in function.decorator_list}
    return bool(names & _PROPERTIES)


def _docstrings(tree: ast.Module) -> Iterator[Problem]:
    """Yield a problem for each docstring with a banned first word, a banned phrase, or a sentence that is too long."""
    for node in ast.walk(tree):
        if not isinstance(node, (ast.Module, ast.ClassDef, *_FUNCTIONS)):
            continue
        text = ast.get_docstring(node)
        if not text:
            continue
        line = node.body[0].lineno
        first = re.match(r"\W*(\w+)", text)
        if first and first.group(1).lower() in FIRST_WORDS:
            yield Problem(
                line,
                "first word",
                f"the docstring begins with '{first.group(1)}': begin with a verb or the standard term",
            )
        yield from _phrases(text, line)
        for sentence in _sentences(text):
            words = len(sentence.split())
            if words > LONGEST_SENTENCE:
                yield Problem(
                    line, "sentence", f"{words} words, at most {LONGEST_SENTENCE}: {' '.join(sentence.split()[:8])} …"
                )


def _sentences(text: str) -> Iterator[str]:
    """Yield the sentences of a docstring. A colon or a semicolon before a space ends a sentence too.

    These lines are left out: examples, lines indented by four spaces or more, table rows, the first line of a list
    item, and a word with a colon. The text may be empty.
    """
    for paragraph in re.split(r"\n\s*\n", text):
        lines = paragraph.splitlines()
        prose = [line for line in lines if not re.match(r"\s{4,}|\s*(>>>|\.\.\.|[-*|]|\d+\. |\w+:$)", line)]
        yield from re.split(r"(?<=[.:;?!])\s+", " ".join(prose))


def _comments(source: str) -> Iterator[Problem]:
    """Yield a problem for each comment that holds a banned phrase."""
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        if token.type == tokenize.COMMENT:
            yield from _phrases(token.string, token.start[0])


def _phrases(text: str, line: int) -> Iterator[Problem]:
    """Yield a problem at `line` for each banned phrase that a text holds, once for each."""
    for pattern, term in _PHRASES:
        match = pattern.search(text)
        if match:
            yield Problem(line, "phrase", f"'{match.group()}' is no standard term: {term}")


def _missing_docstrings(tree: ast.Module) -> Iterator[Problem]:
    """Yield a problem for each public function and class at the top level that has no docstring."""
    for node in tree.body:
        if (
            isinstance(node, (ast.ClassDef, *_FUNCTIONS))
            and not node.name.startswith("_")
            and not ast.get_docstring(node)
        ):
            yield Problem(node.lineno, "docstring", f"the public name '{node.name}' has no docstring")


def _line(node: ast.AST) -> int:
    """Return the line of a syntax node; 1 for a node without one."""
    return int(getattr(node, "lineno", 1))
