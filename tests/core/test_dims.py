"""Symbolic sizes: their arithmetic agrees with that of ints in place of the atoms.

Terms have one order in every process.
"""

import os
import subprocess
import sys
from typing import Any, Dict, List

import pytest
from hypothesis import given
from hypothesis import strategies as st

from onnx_compat import limits
from onnx_compat.ir import Ref, Spec, dims
from onnx_compat.ir.dims import Dim, Undecided
from onnx_compat.ir.dtypes import int64

AXES = [Dim.atom("axis", Ref(Spec(int64, (None,))), 0) for _ in range(3)]  # never negative
ELEMENTS = [Dim.atom("element", Ref(Spec(int64, (1,))), 0) for _ in range(2)]  # any integer

_BINARY = {
    "+": lambda a, b: a + b,
    "-": lambda a, b: a - b,
    "*": lambda a, b: a * b,
    "//": dims.floordiv,
    "%": lambda a, b: a % b,
    "max": dims.maximum,
    "min": dims.minimum,
    "ceildiv": dims.ceildiv,
}
_KINDS = {"floordiv": "//", "mod": "%", "max": "max", "min": "min", "add": "+", "mul": "*"}
_COMPARED = {
    "==": lambda a, b: a == b,
    "!=": lambda a, b: a != b,
    "<": lambda a, b: a < b,
    "<=": lambda a, b: a <= b,
    ">": lambda a, b: a > b,
    ">=": lambda a, b: a >= b,
}

leaves = st.sampled_from([*AXES, *ELEMENTS]) | st.integers(-4, 8)
#: Expressions as trees: a leaf, or an operation with two trees.
trees = st.recursive(leaves, lambda inner: st.tuples(st.sampled_from(sorted(_BINARY)), inner, inner), max_leaves=6)
lengths = st.lists(st.integers(0, 7), min_size=len(AXES), max_size=len(AXES))
numbers = st.lists(st.integers(-7, 7), min_size=len(ELEMENTS), max_size=len(ELEMENTS))


class Undefined(Exception):
    """The expression divides by zero."""


def _evaluate(tree: Any, values: Any) -> Any:
    """Return the value of an expression tree. `values` maps each leaf to a Dim, or to an int."""
    if not isinstance(tree, tuple):
        return values(tree)
    operation, left, right = tree
    return _apply(operation, _evaluate(left, values), _evaluate(right, values))


def _apply(operation: str, a: Any, b: Any) -> Any:
    if operation in ("//", "%", "ceildiv") and not isinstance(b, Dim) and b == 0:
        raise Undefined
    return _BINARY[operation](a, b)


def _value(size: Any, numbers: Dict[Any, int]) -> int:
    """Return the value of a size after each of its atoms is replaced by a number."""
    total = 0
    for monomial, factor in dims._terms(size).items():
        product = factor
        for atom in monomial:
            if atom.kind in ("axis", "element"):
                product *= numbers[atom]
            else:
                left, right = (_value(arg, numbers) for arg in atom.args)
                product *= _apply(_KINDS[atom.kind], left, right)
        total += product
    return total


def _atoms(sizes: List[int], elements: List[int]) -> Dict[Any, int]:
    return {next(iter(dims.atoms_of(dim))): number for dim, number in zip([*AXES, *ELEMENTS], [*sizes, *elements])}


def _both(tree: Any, known: Dict[Any, int]) -> Any:
    """Evaluate a tree symbolically and over ints. Return (symbolic result with ints for its atoms, int result, the Dim)."""
    symbolic = _evaluate(tree, lambda leaf: leaf)
    return _value(symbolic, known), _evaluate(tree, lambda leaf: _value(leaf, known)), symbolic


@given(trees, lengths, numbers)
def test_arithmetic_agrees_with_ints(tree: Any, sizes: List[int], elements: List[int]) -> None:
    try:
        replaced, plain, _ = _both(tree, _atoms(sizes, elements))
    except Undefined:
        return
    assert replaced == plain


@given(trees, trees, lengths, numbers, st.integers(1, 4))
def test_sizes_above_the_limit_of_terms_agree_with_ints(
    left: Any, right: Any, sizes: List[int], elements: List[int], most: int
) -> None:
    """A product that is not multiplied out, and a sum that is not joined, are atoms with the same values and bounds."""
    known = _atoms(sizes, elements)
    with limits.override(size_terms=most):
        try:
            replaced, plain, symbolic = _both(("*", ("+", left, right), ("+", right, left)), known)
        except Undefined:
            return
        assert replaced == plain
        assert not dims.is_nonnegative(symbolic) or plain >= 0


@given(trees, st.integers(1, 9), lengths, numbers)
def test_division_toward_zero_agrees_with_ints(tree: Any, by: int, sizes: List[int], elements: List[int]) -> None:
    known = _atoms(sizes, elements)
    try:
        _, plain, symbolic = _both(tree, known)
    except Undefined:
        return
    assert _value(dims.truncdiv(symbolic, by), known) == abs(plain) // by * (1 if plain > 0 else -1)


@given(trees, trees, st.sampled_from(sorted(_COMPARED)), lengths, numbers)
def test_a_decided_comparison_holds_for_every_value(
    left: Any, right: Any, operation: str, sizes: List[int], elements: List[int]
) -> None:
    known = _atoms(sizes, elements)
    try:
        a, plain_a, symbolic_a = _both(left, known)
        b, plain_b, symbolic_b = _both(right, known)
        decided = _COMPARED[operation](symbolic_a, symbolic_b)
    except (Undecided, Undefined):
        return
    assert decided == _COMPARED[operation](plain_a, plain_b)
    assert (a, b) == (plain_a, plain_b)


@given(trees, lengths, numbers)
def test_a_size_without_negative_atoms_is_not_negative(tree: Any, sizes: List[int], elements: List[int]) -> None:
    try:
        replaced, _, symbolic = _both(tree, _atoms(sizes, elements))
    except Undefined:
        return
    if dims.is_nonnegative(symbolic):
        assert replaced >= 0


@given(trees, trees)
def test_equal_polynomials_are_the_same_size(left: Any, right: Any) -> None:
    try:
        a, b = (_evaluate(tree, lambda leaf: leaf) for tree in (left, right))
    except Undefined:
        return
    assert dims.is_equal(a + b, b + a)
    assert dims.is_equal((a + b) * (a - b), a * a - b * b)
    if isinstance(a * 2, Dim):
        assert hash(a + a) == hash(a * 2)


@given(trees, st.integers(1, 9), lengths, numbers)
def test_a_multiple_is_recognised(tree: Any, times: int, sizes: List[int], elements: List[int]) -> None:
    try:
        _, plain, symbolic = _both(tree, _atoms(sizes, elements))
    except Undefined:
        return
    if isinstance(symbolic, Dim) or plain:
        assert dims.exact_quotient(symbolic * times, symbolic) == times
    for dividend in (symbolic * times + 1, symbolic * -times):
        quotient = dims.exact_quotient(dividend, symbolic)
        assert quotient is None or dims.is_equal(symbolic * quotient, dividend)


def test_a_comparison_that_depends_on_run_time_values_is_undecided() -> None:
    n, m, _ = AXES
    for question in (lambda: n == m, lambda: n < 3, lambda: n == 0, lambda: bool(n), lambda: ELEMENTS[0] >= 0):
        with pytest.raises(Undecided):
            question()


def test_a_comparison_that_holds_for_all_run_time_values_is_decided() -> None:
    n, m, _ = AXES
    assert n + 1 > 0 and n >= 0 and n != n + 1 and n * m + 3 > 2 and n - 1 < n
    assert n - n == 0 and isinstance(n - n, int)
    assert dims.floordiv(n * m * 6, m * 2) == n * 3
    assert n * m % m == 0
    assert dims.maximum(n + 2, n) == n + 2 and dims.minimum(n, -1) == -1
    less = dims.minimum(n, 512)
    assert dims.is_equal(dims.maximum(less, n), n) and dims.is_equal(dims.maximum(n, less), n)
    assert dims.is_equal(dims.minimum(n, less), less) and dims.is_equal(dims.minimum(less, n), less)
    assert not dims.is_equal(dims.maximum(less, m), m) and not dims.is_equal(dims.maximum(less * 2, n), n)


def test_a_size_that_is_0_wherever_another_is() -> None:
    n, m, k = AXES
    quotient = dims.floordiv(n - 1, 2) + 1  # no bound is known of n - 1
    for a, b in (
        (n, n),
        (n * 3, n * m),
        (n * m, n * m * k),
        (n + m, n * k + m * k),
        (n + m, n),
        (n + 1, m),
        (0, 0),
        (2, n),
        (n, 0),
    ):
        assert dims.is_zero_with(a, b), (a, b)
    assert dims.is_zero_with(quotient, quotient)
    for a, b in ((n, m), (n * m, n), (n + m, k), (n, n + 1), (0, n), (n - 1, n), (n, 2)):
        assert not dims.is_zero_with(a, b), (a, b)


def test_atoms_inside_operations_are_found() -> None:
    n, m, k = AXES
    atoms = set(dims.atoms_of(dims.floordiv(n + m, 3) * dims.maximum(k, n)))
    assert atoms == {next(iter(dims.atoms_of(dim))) for dim in (n, m, k)}


def test_atoms_are_ordered_by_the_creation_of_their_values() -> None:
    n, m, k = AXES
    (product,) = (k * m * n * m).terms
    assert product == tuple(atom for dim in (n, m, m, k) for atom in dims.atoms_of(dim))
    assert list((dims.floordiv(k, 2) * dims.floordiv(n, 2)).terms) == list(
        (dims.floordiv(n, 2) * dims.floordiv(k, 2)).terms
    )


_SCRIPT = """
from onnx_compat.ir import Ref, Spec
from onnx_compat.ir.dims import Dim, maximum
from onnx_compat.ir.dtypes import int64

a, b, c, d = (Dim.atom("axis", Ref(Spec(int64, (None,))), 0) for _ in range(4))
e, f = (Dim.atom("element", Ref(Spec(int64, (2,))), k) for k in range(2))
print((d + 1) * c * (b // 3) * (a // 2) * f * e * (d % 5) * maximum(a, b))
"""


def test_a_size_has_one_form_in_every_process() -> None:
    forms = set()
    for seed in "012":  # changes the hashes of strings; the addresses of values change by themselves
        environment = dict(os.environ, PYTHONHASHSEED=seed)
        result = subprocess.run([sys.executable, "-c", _SCRIPT], env=environment, stdout=subprocess.PIPE, check=True)
        forms.add(result.stdout)
    assert len(forms) == 1
