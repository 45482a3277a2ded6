"""Operators on strings, and the regular expressions of RE2: cases that onnx has not recorded."""

import re

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from meanings import apply_operator, meaning, record_function

from onnx_compat.errors import InvalidModelError, LimitError, UnsupportedError
from onnx_compat.reference import automaton
from onnx_compat.reference.automaton import Automaton
from onnx_compat.reference.regex import translate


def _texts(*texts):
    return np.asarray(texts, object)


def _split(x, **attributes):
    runs = [
        record_function(lambda t: meaning("StringSplit", 20)(t, **attributes), s, dtype="string")
        for s in (x.shape, [None])
    ]
    (pieces, counts), again = runs[0](x), runs[1](x)
    np.testing.assert_array_equal(pieces, again[0])
    np.testing.assert_array_equal(counts, again[1])
    return pieces.tolist(), counts.tolist()


def test_split_at_white_space_of_ascii():
    assert _split(_texts(" a\t\nb ", "", "x\u00a0y")) == ([["a", "b"], ["", ""], ["x\u00a0y", ""]], [2, 0, 1])
    assert _split(_texts(" a  b c ", " a "), maxsplit=1) == ([["a", "b c"], ["a", ""]], [2, 1])
    assert _split(_texts(" a  b ", " "), maxsplit=0) == ([["a  b"], [""]], [1, 0])


def test_split_at_a_delimiter_keeps_empty_parts():
    assert _split(_texts(",a,,b", "-"), delimiter=",") == ([["", "a", "", "b"], ["-", "", "", ""]], [4, 1])
    assert _split(_texts(",a,,b", ""), delimiter=",", maxsplit=2) == ([["", "a", ",b"], ["", "", ""]], [3, 1])
    assert _split(_texts("a--b-c"), delimiter="--") == ([["a", "b-c"]], [2])


def test_concat_of_unknown_sizes():
    joined = record_function(meaning("StringConcat", 20), [None, 1], [None], dtype="string")
    result = joined(np.asarray([["a"], ["é"]], object), _texts("", "日本"))
    assert result.tolist() == [["a", "a日本"], ["é", "é日本"]]


def test_without_a_pattern_only_the_empty_text_matches():
    np.testing.assert_array_equal(apply_operator("RegexFullMatch", 20, _texts("", "a")), [True, False])


@pytest.mark.parametrize(
    ("pattern", "yes", "no"),
    [
        (r"\d+", "12", "\u0663"),  # digits are those of ASCII
        (r"\w", "_", "é"),
        (r"\s", "\f", "\v"),
        (r"[^\s]", "\v", "\f"),
        (r"[\D]", "a", "1"),
        ("a$", "a", "a\n"),
        ("(?m)a$\nb", "a\nb", "a"),
        (r"\Aa\z", "a", "a\n"),
        (r"\Qa.b\E+", "a.bb", "a.a.b"),
        (r"\x{1F600}|\x41", "A", "x"),
        (r"\101", "A", "B"),
        ("[[:alpha:]-]+", "a-b", "1"),
        ("[[:^digit:]]", "é", "1"),
        ("[]a]+", "]a", "b"),
        ("[a&&b[]+", "&[", "|"),
        ("a{,2}", "a{,2}", "aa"),
        ("a(?i)b|c", "C", "AB"),
        ("(a(?i)b|c)d", "aBd", "cD"),
        ("(?i)a(?-i)b", "Ab", "AB"),
        ("(?U)a+(?P<n>b)(?<m>c)", "aabc", "bc"),
        ("(?s).", "\n", ""),
        (".", "é", "\n"),
    ],
)
def test_matches_of_re2(pattern, yes, no):
    assert re.fullmatch(translate(pattern), yes)
    assert not re.fullmatch(translate(pattern), no)
    assert Automaton(pattern).fullmatch(yes)
    assert not Automaton(pattern).fullmatch(no)


@pytest.mark.parametrize(
    "pattern",
    [
        "(?=a)a",
        "(?!b)a",
        "(?<=a)b",
        r"(a)\1",
        "a++",
        "(?>a)",
        "[",
        "(",
        ")",
        "*a",
        "a**",
        "\\",
        r"\y",
        "[z-a]",
        "[[:no:]]",
        "a{1001}",
        "a{2}+",
        "a{99999999999}",
    ],
)
def test_patterns_that_re2_refuses(pattern):
    with pytest.raises(InvalidModelError, match="RE2"):
        translate(pattern)


def test_classes_of_unicode_are_unsupported():
    with pytest.raises(UnsupportedError, match="reference"):
        apply_operator("RegexFullMatch", 20, _texts("a"), pattern=r"\pL")


_pieces = st.sampled_from(["a", "b", ".", "[ab]", "[^a]", r"\b", r"\B", "^", "$", r"\d", r"\A", r"\z", "(?i)", "A", ""])
_patterns = st.recursive(
    _pieces,
    lambda inner: st.one_of(
        st.tuples(inner, inner).map("".join),
        st.tuples(inner, inner).map("(%s|%s)".__mod__),
        st.tuples(inner, st.sampled_from(["*", "+", "?", "*?", "+?", "{2}", "{1,3}", "{0,}", "{0}"])).map(
            "(%s)%s".__mod__
        ),
        st.tuples(st.sampled_from(["(?i:", "(?m:", "(?s:", "(?-i:"]), inner).map("%s%s)".__mod__),
    ),
    max_leaves=8,
)


@given(_patterns, st.text("abA1\n ", max_size=7))
def test_the_automaton_matches_what_python_matches(pattern, text):
    try:
        expected = re.fullmatch(translate(pattern), text) is not None
    except InvalidModelError:
        return
    assert Automaton(pattern).fullmatch(text) is expected


@pytest.mark.parametrize(
    "pattern", ["(a+)+$", "(a|a)*b", "(a*)*c", "(a?){60}a{60}b", "((a{1,9}){1,9}){1,9}b", "(.*)(.*)(.*)(.*)x"]
)
def test_a_pattern_takes_few_steps_for_each_character(pattern):
    """Python's `re` needs 2^n or n^k steps for these texts."""
    text = "a" * 3000 + "!"
    matcher = Automaton(pattern)
    steps = []
    compute = matcher._step
    matcher._step = lambda *args: steps.append(args) or compute(*args)
    assert not matcher.fullmatch(text)
    assert len(steps) <= len(text)


def test_an_automaton_forgets_what_it_cached(monkeypatch):
    monkeypatch.setattr(automaton, "_CACHED", 10)
    matcher = Automaton("(ab?|ba)+")
    for text, expected in (("abba", True), ("ababab", True), ("bb", False), ("a" * 50, True), ("ba" * 50, True)):
        assert matcher.fullmatch(text) is expected
        assert len(matcher._steps) + len(matcher._closures) <= 20


def test_a_pattern_with_too_many_states_or_groups_is_refused():
    with pytest.raises(LimitError, match="the regular expression") as caught:
        Automaton("((((a{1,1000}){1,1000}){1,1000}){1,1000})")
    assert caught.value.limit == "regex_states"
    with pytest.raises(UnsupportedError, match="nested too deeply"):
        Automaton("(" * 5000 + "a" + ")" * 5000)
