"""The style check: every rule reports a violation, and accepts the same content in plain words."""

from __future__ import annotations

from pathlib import Path

import pytest

from matrix.style.__main__ import main
from matrix.style.annotations import any_share, check_annotations
from matrix.style.classes import repeated_classes
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
