"""Mutants: which changes of a statement are made, and where. The report fails below the floor."""

import ast
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any, Dict, List

import pytest

from matrix.data import ROOT
from matrix.mutation.__main__ import FLOOR, report, sample_mutants
from matrix.mutation.mutants import compile_mutant, find_mutants
from matrix.mutation.plugin import KILLED, LIVES, NOT_APPLIED, Module

SOURCE = '''\
"""A module."""


def clamp(value, low, high):
    """Limit a value."""
    if value < low:
        return low
    return min(value, high)


class Range:
    def __init__(self, start, stop):
        self.start = start
        self.stop = stop

    def contains(self, value):
        return value >= self.start and not value >= self.stop

    def __repr__(self):
        return "Range(%d)" % (self.start + 1)
'''


def changes(body: str) -> List[str]:
    """Return the changed code of each mutant of a function with this body."""
    return [mutant.after for mutant in find_mutants("def function(a, b, c):\n    %s\n" % body)]


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        ("return a < b", ["return None", "a <= b"]),
        ("return a is None", ["return None", "a is not None"]),
        ("return a and b and c", ["return None", "b and c", "a and c", "a and b", "a or b or c"]),
        ("return not a", ["return None", "a"]),
        ("return a if b else c", ["return None", "a", "c"]),
        ("return a + b", ["return None", "a - b"]),
        ("return a[3]", ["return None", "4"]),
        ("return True", ["return None", "False"]),
        ("return a(b, c)", ["return None", "a(c, b)"]),
        ("return any(a)", ["return None", "all(a)"]),
        ("a.append(b)", ["pass"]),
        ("a[b] = c", ["pass"]),
        ("a.b: int = c < 1", ["c <= 1", "2"]),
        ("raise ValueError('%d' % (a + 1))", ["pass"]),
    ],
)
def test_each_operator(body: str, expected: List[str]) -> None:
    assert changes(body) == expected


@pytest.mark.parametrize("body", ["return", "return None", "pass", "a = b", "import os", "'a docstring'"])
def test_statements_without_behaviour_of_their_own_have_no_mutant(body: str) -> None:
    assert changes(body) == []


def test_a_text_and_its_format_stay() -> None:
    assert changes("return 'rank %d' % a") == ["return None"]
    assert changes("return f'{a + 1}'") == ["return None"]


def test_the_functions_and_lines_of_mutants() -> None:
    mutants = find_mutants(SOURCE)
    assert {mutant.function for mutant in mutants} == {("clamp", 4), ("Range.__init__", 12), ("Range.contains", 16)}
    assert [mutant.number for mutant in mutants] == list(range(len(mutants)))
    condition = next(mutant for mutant in mutants if mutant.operator == "comparison")
    assert (condition.line, list(condition.lines)) == (6, [6]), "the branch of an `if` does not execute its condition"


def run(source: str) -> Dict[str, Any]:
    scope: Dict[str, Any] = {}
    exec(source, scope)  # noqa: S102 (the source above)
    return scope


def test_a_compiled_mutant_computes_its_change() -> None:
    seen = set()
    for mutant in find_mutants(SOURCE):
        scope: Dict[str, Any] = {}
        exec(compile_mutant(SOURCE, mutant, "module.py"), scope)  # noqa: S102
        if mutant.function[0] == "clamp":
            seen.add(tuple(scope["clamp"](value, 0, 5) for value in (-1, 0, 7)))
        if mutant.operator == "drop statement" and mutant.before == "self.stop = stop":
            assert not hasattr(scope["Range"](1, 2), "stop")
    original = run(SOURCE)["clamp"]
    assert tuple(original(value, 0, 5) for value in (-1, 0, 7)) == (0, 0, 5)
    assert seen == {(-1, 0, 5), (None, 0, 5), (0, 0, 5), (0, None, None), (0, 5, 7)}


def test_a_mutant_keeps_the_first_line_of_each_function() -> None:
    def first_lines(code: Any) -> Any:
        inner = [constant for constant in code.co_consts if hasattr(constant, "co_firstlineno")]
        return code.co_name, code.co_firstlineno, [first_lines(second) for second in inner]

    original = first_lines(compile(ast.parse(SOURCE), "module.py", "exec"))
    for mutant in find_mutants(SOURCE):
        assert first_lines(compile_mutant(SOURCE, mutant, "module.py")) == original


def test_a_sample_is_the_same_for_the_same_seed() -> None:
    module = Module("range", "range.py", SOURCE)
    assert sample_mutants(module, 5, 1) == sample_mutants(module, 5, 1) != sample_mutants(module, 5, 2)
    assert sample_mutants(module, 0, 1) == sample_mutants(module, 10**6, 1) == find_mutants(SOURCE)


@pytest.mark.parametrize(("killed", "status"), [(FLOOR, 0), (FLOOR - 1, 1)])
def test_the_report_fails_below_the_floor(killed: int, status: int, capsys: pytest.CaptureFixture) -> None:
    module = Module("range", "range.py", SOURCE)
    mutants = [(module, find_mutants(SOURCE)[0])] * 101
    outcomes = [KILLED] * killed + [LIVES] * (100 - killed) + [NOT_APPLIED]
    assert report(mutants, outcomes) == status
    output = capsys.readouterr().out
    assert "range: %d of 100 mutants killed, %d.0 %%" % (killed, killed) in output
    assert ("Below 85 %: range." in output) == (status == 1)


MODULE = "def lower(a, b):\n    if a < b:\n        return a\n    return b\n\n\ndef loop(n):\n    while n > 0:\n        n = n - 1\n"
TESTS = """\
from example import loop, lower

def test_lower():
    assert lower(1, 2) == 1 and lower(2, 1) == 1

def test_loop():
    loop(2)
"""
SCRIPT = """\
import json, pytest, sys
import example
from matrix.mutation.mutants import find_mutants
from matrix.mutation.plugin import Module, Runner, Trace

source = open(example.__file__).read()
module = Module("example", example.__file__, source)
mutants = [(module, mutant) for mutant in find_mutants(source)]
tests = ["test_example.py::test_lower", "test_example.py::test_loop"]
lines = {"%s:%d" % (example.__file__, line): tests for line in range(1, 10) if line != 4}
outcomes = []

def work(runner):
    outcomes.extend(runner.run(mutants, Trace(lines, dict.fromkeys(tests, 0.01), []), 60))

pytest.main(["-qq", "-s", "-p", "no:cacheprovider", "--rootdir=."], plugins=[Runner(work, 2)])
print(json.dumps({m.before + " => " + m.after: outcome for (_, m), outcome in zip(mutants, outcomes)}))
"""


def test_mutants_are_killed_by_the_tests_that_execute_them(tmp_path: Path) -> None:
    for name, text in [("example.py", MODULE), ("test_example.py", TESTS), ("script.py", SCRIPT)]:
        (tmp_path / name).write_text(text, encoding="utf-8")
    env = {**os.environ, "PYTHONPATH": os.pathsep.join([str(ROOT), str(tmp_path)]), "PYTEST_ADDOPTS": ""}
    command = [sys.executable, "script.py"]
    result = subprocess.run(command, cwd=tmp_path, env=env, capture_output=True, text=True, timeout=120, check=True)
    outcomes = json.loads(result.stdout.splitlines()[-1])
    assert outcomes == {
        "if a < b: => pass": KILLED,
        "a < b => a <= b": LIVES,  # the same function
        "return a => return None": KILLED,
        "return b => return None": LIVES,  # no test executes line 4, by the trace
        "n > 0 => n >= 0": LIVES,  # loops once more
        "0 => 1": LIVES,
        "n - 1 => n + 1": KILLED,  # never ends
        "1 => 2": LIVES,
    }
