"""The style check: every rule reports a violation, and accepts the same content in plain words."""

from __future__ import annotations

from pathlib import Path

import pytest

from matrix.style.__main__ import main
from matrix.style.annotations import any_share, check_annotations
from matrix.style.classes import repeated_classes
from matrix.style.generators import shared_generators
from matrix.style.rules import check_source, check_subject


def rules(source: str, documented: bool = False) -> list[str]:
    return [problem.rule for problem in check_source(source, documented)]


@pytest.mark.parametrize(
    "source",
    [
        "one = 1",
        "def f(told): pass",
        "def turned(x): return x",
        "for place in range(3): pass",
        "class C:\n    def __init__(self): self.made = 1",
        "def recorded(x): return x",
    ],
)
def test_a_name_without_a_role_is_reported(source: str) -> None:
    assert rules(source) == ["identifier"]


@pytest.mark.parametrize(
    "source",
    [
        "port = 1",
        "def permute(x): return x",
        "class C:\n    @property\n    def closed(self): return True",
        "def seed(x): return x",
        "for axis in range(3): pass",
    ],
)
def test_a_name_with_a_role_passes(source: str) -> None:
    assert rules(source) == []


@pytest.mark.parametrize(
    ("text", "rule"),
    [
        ("What the operator writes.", "first word"),
        ("Return the value that nobody reads.", "phrase"),
        ("Return the size; there is none for a scalar.", "phrase"),
        ("Return " + "word " * 30 + "end.", "sentence"),
    ],
)
def test_a_docstring_follows_the_rules(text: str, rule: str) -> None:
    assert rules(f'"""{text}"""') == [rule]


def test_the_value_none_is_no_phrase() -> None:
    assert rules('def find(axis):\n    """Return the axis. The result is None if the axis is None."""') == []


def test_examples_and_lists_are_no_sentences() -> None:
    example = "Fold constants.\n\n    >>> fold(" + "a, " * 30 + ")\n\n- " + "word " * 30
    assert rules(f'"""{example}"""') == []


def test_a_comment_follows_the_rules() -> None:
    assert rules("x = 1  # a door for callers") == ["phrase"]
    assert rules("x = 1  # LiteRT 2.0 ignores the stride") == []


def test_a_public_name_has_a_docstring() -> None:
    assert rules("def f(): pass", documented=True) == ["docstring"]
    assert rules("def _f(): pass", documented=True) == []
    assert rules('def f():\n    """Return nothing."""', documented=True) == []


#: Rule of contracts -> (a function that breaks it, the same function with a complete docstring).
CONTRACTS = {
    "errors": (
        'def f(x):\n    """Check x."""\n    if x:\n        raise ValueError("x")',
        'def f(x):\n    """Check x. Raises ValueError if x is true."""\n    if x:\n        raise ValueError("x")',
    ),
    "none": (
        'def f(x) -> Optional[int]:\n    """Return the axis."""\n    return x',
        'def f(x) -> Optional[int]:\n    """Return the axis, or None."""\n    return x',
    ),
    "optional": (
        'def f(x, axis: "int | None" = None):\n    """Print x."""\n    print(x)',
        'def f(x, axis: "int | None" = None):\n    """Print x. `axis`: the axis to print first."""\n    print(x)',
    ),
    "flags": (
        'def f(x, deep: bool):\n    """Print x."""\n    print(x)',
        'def f(x, deep: bool, keepdims: bool):\n    """Print x, with the items of items if `deep`."""\n    print(x)',
    ),
    "yields": (
        'def f(x):\n    """Return the nodes."""\n    yield from x',
        'def f(x):\n    """Yield the nodes."""\n    yield from x',
    ),
    "returns": (
        'def f(x):\n    """Add a node."""\n    return x',
        'def f(x):\n    """Add a node, and return it."""\n    return x',
    ),
    "mutations": (
        'def f(items):\n    """Add a node."""\n    items.append(1)',
        'def f(items):\n    """Add a node to `items`."""\n    items.append(1)',
    ),
    "guards": (
        'def f(x):\n    """Print x."""\n    if not x:\n        return\n    print(x)',
        'def f(x):\n    """Print x unless it is empty."""\n    if not x:\n        return\n    print(x)',
    ),
}


@pytest.mark.parametrize("rule", CONTRACTS)
def test_a_docstring_tells_what_its_function_does(rule: str) -> None:
    incomplete, complete = CONTRACTS[rule]
    assert rules(incomplete, documented=True) == [rule]
    assert rules(incomplete) == []
    assert rules(complete, documented=True) == []


@pytest.mark.parametrize(
    ("source", "rule"),
    [
        # Every class is named, not only one; an error of a helper needs a word at least.
        ('"""Raise KeyError for a name."""\n    if x:\n        raise ValueError(x)\n    raise KeyError(x)', "errors"),
        ('"""Check x."""\n    raise damaged_error(x)', "errors"),
        ('"""Check x. Raises an error if x is damaged."""\n    raise damaged_error(x)', ""),
        # No part of the contract: an abstract method, an error that is caught here or raised again, a nested function.
        ('"""Check x."""\n    raise NotImplementedError("a subclass")', ""),
        ('"""Check x."""\n    try:\n        raise KeyError(x)\n    except (KeyError, OSError):\n        print(x)', ""),
        ('"""Check x."""\n    try:\n        raise KeyError(x)\n    except _BROKEN:\n        print(x)', ""),
        ('"""Check x."""\n    try:\n        raise KeyError(x)\n    except OSError:\n        print(x)', "errors"),
        ('"""Check x."""\n    try:\n        print(x)\n    except E as error:\n        raise error.at(x) from None', ""),
        ('"""Check x."""\n    def g():\n        raise KeyError(x)\n    g()', ""),
        # The object of the verb, or a noun phrase, is the result.
        ('"""Convert x to a list."""\n    return list(x)', ""),
        ('"""The list of x."""\n    return list(x)', ""),
        ('"""Add a node. The result is its output."""\n    return list(x)', ""),
        ('"""Replace the results of x."""\n    return list(x)', "returns"),
        ('"""Print x."""\n    return None', ""),
        ('"""Flip the flags of x."""\n    print(x)', ""),
        # A new object of the function may change; self has its own state.
        ('"""Print x."""\n    items = []\n    items.append(x)', ""),
        ('"""Print x."""\n    x = list(x)\n    x.append(1)', ""),
        ('"""Print self.x."""\n    self.seen = True', ""),
        ('"""Print a number."""\n    x.count += 1', "mutations"),
        ('"""Print a number."""\n    del x[0].count', "mutations"),
    ],
)
def test_the_limits_of_contracts(source: str, rule: str) -> None:
    assert rules("def f(self, x):\n    " + source, documented=True) == ([rule] if rule else [])


def test_a_text_on_all_arguments_covers_those_that_may_be_none() -> None:
    body = '\n    """Print axis 0. %s"""\n    print(x)'
    for header in ("def f(x: Optional[int]):", "def f(x: int | None):", "def f(*, x: None | int):"):
        assert rules(header + body % "", documented=True) == ["optional"]
        assert rules(header + body % "The arguments are those of g.", documented=True) == []
    assert rules("def f(x: None, y: List[Optional[int]]):" + body % "", documented=True) == []


def test_some_functions_have_no_contract_of_a_result() -> None:
    body = '\n    """Add a node."""\n    return x'
    for header in ("@property\ndef f(x):", "@op('Add')\ndef f(x):", "def __add__(x):", "@click.command()\ndef f(x):"):
        assert rules(header + body, documented=True) == []
    generator = '\ndef f(x):\n    """Open a file."""\n    yield x'
    assert rules("@contextlib.contextmanager" + generator, documented=True) == []


@pytest.mark.parametrize(
    ("subject", "count"),
    [
        ("tflite: fold Pad into SAME convolutions", 0),
        ("ir, tracing: move symbolic sizes", 0),
        ("Merge branch 'main'", 0),
        ("# a comment of git\ntflite: fold Pad", 0),
        ("Fold Pad into SAME convolutions", 1),
        ("tflite: " + "x" * 80, 1),
        ("Results " + "x" * 80, 2),
    ],
)
def test_the_subject_of_a_commit(subject: str, count: int) -> None:
    assert len(check_subject(subject)) == count


def test_a_class_name_has_one_meaning() -> None:
    sources = [("a.py", "class Node: pass"), ("b.py", "class Node: pass"), ("c.py", "class _Node: pass")]
    assert repeated_classes(sources) == ["a.py, b.py: the class name 'Node' has 2 meanings"]


def test_the_share_of_untyped_parameters() -> None:
    source = "from typing import Any\ndef f(self, x: Any, *y: Any, z: int, **w: list[Any]) -> Any: pass"
    assert any_share([source]) == (2, 4)
    assert check_annotations([("shims/keras/a.py", source)]) == [
        "shims/keras/: 2 of 4 parameters are typed `Any` alone; at most 15% may be"
    ]
    assert check_annotations([("tests/a.py", source)]) == []
    ignored = "x = 1  # type: ignore[misc]\n" * 21
    assert len(check_annotations([("onnx_compat/a.py", ignored)])) == 1


def test_the_command(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    message = tmp_path / "COMMIT_EDITMSG"
    message.write_text("Something\n", encoding="utf-8")
    assert main(["--commit-msg", str(message)]) == 1
    assert "area: verb object" in capsys.readouterr().err
    message.write_text("docs: say what a pass is\n", encoding="utf-8")
    assert main(["--commit-msg", str(message)]) == 0


@pytest.mark.parametrize(
    "source",
    [
        "RANDOM = np.random.RandomState(0)",
        "from numpy.random import default_rng\nRANDOM = default_rng(0)",
        "random = random.Random(0)",
        "draw = np.random.RandomState(0).rand",
        "class Test:\n    random = np.random.RandomState(0)",
        "def f(random=np.random.RandomState(0)): pass",
        "GENERATORS = [np.random.RandomState(k) for k in range(3)]",
        "def test():\n    random = np.random.default_rng()",
    ],
)
def test_a_generator_that_tests_share_is_reported(source: str) -> None:
    assert len(shared_generators([("tests/test_it.py", source)])) == 1


@pytest.mark.parametrize(
    "source",
    [
        "RANDOM = per_test(np.random.RandomState(0))",
        "X = np.random.RandomState(0).rand(3)",
        "def test():\n    random = np.random.default_rng(0)",
        "numbers = lambda: np.random.RandomState(0)",
        "import random\nrandom.Random",
    ],
)
def test_a_generator_of_one_test_passes(source: str) -> None:
    assert shared_generators([("tests/test_it.py", source)]) == []
