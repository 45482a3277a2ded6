"""Symbolic sizes: bounds, exact quotients and simplification, each with the reason for its outcome."""

from typing import Any

import pytest

from onnx_compat import limits
from onnx_compat.ir import Node, Ref, Spec, dims
from onnx_compat.ir.dims import Atom, Dim, Undecided
from onnx_compat.ir.dtypes import float32
from onnx_compat.ir.size_bounds import is_positive_for_elements

N, M = Dim.atom("axis", "n", 0), Dim.atom("axis", "m", 0)  # never negative
E = Dim.atom("element", "e", 0)  # any integer


def lower_bound(size: Any) -> Any:
    """Return the lower bound of the only atom of a size."""
    ((monomial, factor),) = size.terms.items()
    assert factor == 1
    (atom,) = monomial
    return atom.lower


@pytest.mark.parametrize(
    ("size", "bound"),
    [
        (N, 0),
        (E, None),
        (Dim.atom("max", N, E), 0),
        (Dim.atom("max", E, 3), 3),
        (Dim.atom("max", N + 2, 5), 5),
        (Dim.atom("max", E, -N), None),
        (Dim.atom("max", E, E - 1), None),
        (Dim.atom("min", N, 7), 0),
        (Dim.atom("min", N + 2, M + 3), 2),
        (Dim.atom("min", E, 3), None),
        (Dim.atom("min", 3, E), None),
        (Dim.atom("floordiv", N, 2), 0),
        (Dim.atom("floordiv", N, E), None),
        (Dim.atom("floordiv", E, 2), None),
        (Dim.atom("floordiv", N, -2), None),
        (Dim.atom("floordiv", N + 7, 3), 2),
        (Dim.atom("floordiv", N - 1, 2), -1),
        (Dim.atom("floordiv", N + 7, M), 0),
        (Dim.atom("mod", E, 3), 0),
        (Dim.atom("mod", E, N), 0),
        (Dim.atom("mod", N, -3), None),
    ],
)
def test_the_lower_bound_of_an_atom(size: Any, bound: Any) -> None:
    assert lower_bound(size) == bound


def _length(computed: bool = False) -> Any:
    """Return the length of an input, or of a computed value."""
    spec = Spec(float32, (None,))
    return Dim.atom("axis", Node("relu", [Ref(spec)], {}, [spec]).outputs[0] if computed else Ref(spec), 0)


LENGTH, OTHER, COMPUTED = _length(), _length(), _length(computed=True)


@pytest.mark.parametrize(
    ("size", "expected"),
    [
        (3, True),
        (0, False),
        (LENGTH, True),
        (LENGTH * OTHER + LENGTH, True),
        (LENGTH - 1, False),
        (LENGTH + OTHER - 1, True),
        (LENGTH - OTHER + 1, False),
        (dims.floordiv(LENGTH - 1, 2) + 1, True),
        (dims.ceildiv(LENGTH, 3), True),
        (dims.floordiv(LENGTH, 2), False),
        (dims.floordiv(LENGTH - 3, 2) + 1, False),
        (dims.floordiv(LENGTH * 4, 2), True),
        (dims.maximum(LENGTH - 5, 0), False),
        (dims.maximum(LENGTH - 5, OTHER), True),
        (dims.minimum(LENGTH, OTHER), True),
        (dims.minimum(LENGTH, COMPUTED), False),
        (COMPUTED, False),
        (COMPUTED + LENGTH, True),
        (E + LENGTH, False),
        (N, False),
    ],
)
def test_whether_a_size_is_positive_if_the_inputs_have_elements(size: Any, expected: bool) -> None:
    assert is_positive_for_elements(size) is expected


@pytest.mark.parametrize(
    ("size", "expected"),
    [
        (0, True),
        (-1, False),
        (N, True),
        (N - 1, False),
        (1 - N, False),
        (N * M + 2 * N, True),
        (N * E, False),
        (N * N - M, False),
        (Dim.atom("max", N, 5) * Dim.atom("max", M, 2) - 10, True),
        (Dim.atom("max", N, 5) * Dim.atom("max", M, 2) - 11, False),
        (Dim.atom("max", N, 5) + Dim.atom("max", E, -3) - 2, False),
    ],
)
def test_the_sign_of_a_polynomial_follows_from_its_atoms(size: Any, expected: bool) -> None:
    assert dims.is_nonnegative(size) is expected


@pytest.mark.parametrize(
    ("dividend", "divisor", "times"),
    [
        (6, 2, 3),
        (7, 2, None),
        (-6, 2, None),
        (6, 0, None),
        (0, 2, None),
        (0, 0, None),
        (N, N, 1),
        (6 * N, 2 * N, 3),
        (6 * N + 3 * M, 2 * N + M, 3),
        (6 * N + 2 * M, 2 * N + M, None),
        (6 * N, 4 * N, None),
        (-6 * N, 2 * N, None),
        (-6 * N, -2 * N, 3),
        (N * M, N, None),
        (N, 2, None),
        (2 * N, M, None),
    ],
)
def test_an_exact_quotient_is_a_positive_number(dividend: Any, divisor: Any, times: Any) -> None:
    assert dims.exact_quotient(dividend, divisor) == times


@pytest.mark.parametrize(
    ("dividend", "divisor", "quotient"),
    [
        (7, 2, 3),
        (-7, 2, -4),
        (6 * N, 3, 2 * N),
        (6 * N * M + 4 * M, 2 * M, 3 * N + 2),
        (N * N * M, N * M, N),
        (N + M, N + M, 1),
        (N * N, N * N, 1),
    ],
)
def test_a_division_without_remainder_is_a_polynomial(dividend: Any, divisor: Any, quotient: Any) -> None:
    assert dims.is_equal(dims.floordiv(dividend, divisor), quotient)
    assert dims.is_equal(dividend % divisor, dividend - quotient * divisor if isinstance(dividend, int) else 0)


@pytest.mark.parametrize(
    ("dividend", "divisor"),
    [(N, 2), (2 * N + 1, 2), (N, M), (N * N, N * M), (7, N), (N + 1, N), (N, N + M), (2 * N, N + M)],
)
def test_a_division_with_a_remainder_is_an_atom(dividend: Any, divisor: Any) -> None:
    quotient, rest = dividend // divisor, dividend % divisor
    for size, kind in ((quotient, "floordiv"), (rest, "mod")):
        ((monomial, factor),) = size.terms.items()
        (atom,) = monomial
        assert (atom.kind, factor) == (kind, 1)
        assert dims.is_equal_shape(atom.args, (dividend, divisor)), "the dividend comes first"


def test_a_polynomial_without_atoms_is_an_int() -> None:
    for size, number in ((N - N, 0), (N + 3 - N, 3), (N * 0, 0), (0 * N, 0), (3 - N + N, 3), (-N + N, 0)):
        assert type(size) is int
        assert size == number


def test_sums_and_products_do_not_depend_on_the_order() -> None:
    assert dims.is_equal(N * M, M * N)
    assert hash(N * M * E) == hash(E * N * M)
    assert dims.is_equal(5 - N, -N + 5)
    assert not dims.is_equal(5 - N, N - 5)
    assert not dims.is_equal(N, M) and not dims.is_equal(N, 3) and not dims.is_equal(3, N)


def test_shapes_are_equal_axis_by_axis() -> None:
    assert dims.is_equal_shape((N, 3), (N, 3))
    assert not dims.is_equal_shape((N, 3), (N, 4))
    assert not dims.is_equal_shape((N, 3), (N,))
    assert not dims.is_equal_shape((N,), (N, 3))


def test_atoms_are_equal_by_structure() -> None:
    assert Atom("max", N, 3) == Atom("max", N, 3)
    assert hash(Atom("max", N, 3)) == hash(Atom("max", N, 3))
    for different_atom in (Atom("min", N, 3), Atom("max", M, 3), Atom("max", N, 4), Atom("max", N), "max"):
        assert Atom("max", N, 3) != different_atom


def test_comparisons_are_decided_only_for_all_values() -> None:
    assert N + 1 > N and N >= 0 and not N < 0 and not N + 1 <= 0 and N + M + 1 > M
    assert N != -1 and N + 1 != N and (N + 0 == N) is True and (N + 1 == 0) is False and (N + 1 == N + 1) is True
    assert bool(N + 1) is True
    for undecided in (
        lambda: N == 0,
        lambda: bool(N),
        lambda: N > 0,
        lambda: N <= 0,
        lambda: N < M,
        lambda: N >= 1,
        lambda: E == 0,
        lambda: E != 3,
    ):
        with pytest.raises(Undecided):
            undecided()
    assert N != "n" and (N == "n") is False, "another type is never a size"


@pytest.mark.parametrize(
    ("larger", "smaller"), [(N + 1, N), (5, 3), (N, -2), (N, dims.minimum(N, 4)), (4, dims.minimum(N, 4))]
)
def test_the_maximum_and_minimum_of_ordered_sizes_is_one_of_them(larger: Any, smaller: Any) -> None:
    for a, b in ((larger, smaller), (smaller, larger)):
        assert dims.is_equal(dims.maximum(a, b), larger)
        assert dims.is_equal(dims.minimum(a, b), smaller)


@pytest.mark.parametrize(("larger", "smaller"), [(N, 0), (N + M, M), (2 * N, N)])
def test_sizes_that_may_be_equal_are_ordered_too(larger: Any, smaller: Any) -> None:
    assert dims.is_equal(dims.maximum(larger, smaller), larger)
    assert dims.is_equal(dims.minimum(larger, smaller), smaller)


def test_the_maximum_of_other_sizes_is_an_atom() -> None:
    for function, kind in ((dims.maximum, "max"), (dims.minimum, "min")):
        ((monomial, _),) = function(N, M).terms.items()
        assert monomial[0].kind == kind


@pytest.mark.parametrize(
    ("size", "expected"),
    [
        (dims.minimum(N, 4), True),
        (dims.minimum(M, N), True),
        (N, False),
        (3, False),
        (2 * dims.minimum(N, 4), False),
        (dims.minimum(N, 4) + 1, False),
        (dims.minimum(N, 4) * M, False),
        (Dim.atom("max", N, 4), False),
        (dims.minimum(M, 4), False),
    ],
)
def test_a_minimum_is_at_most_each_of_its_sizes(size: Any, expected: bool) -> None:
    assert dims.is_at_most(size, N) is expected


def test_a_ceiling_keeps_its_sign() -> None:
    assert dims.ceildiv(7, 2) == 4 and dims.ceildiv(-7, 2) == -3 and dims.ceildiv(6, 2) == 3
    assert dims.ceildiv(7, -2) == -3 and dims.ceildiv(-7, -2) == 4
    assert dims.is_nonnegative(dims.ceildiv(N, 2)), "rounded up as (n + 1) // 2, whose terms are all positive"
    assert dims.is_equal(dims.ceildiv(N, -2), -(-N // -2)), "a negative divisor is rounded the other way"


def test_an_exact_ceiling_is_the_quotient() -> None:
    for size, divisor, quotient in (
        (2 * N, 2, N),
        (6 * N + 4, 2, 3 * N + 2),
        (N * N, N, N),
        (N + 1, N + 1, 1),
        (2 * N, -2, -N),
    ):
        assert dims.is_equal(dims.ceildiv(size, divisor), quotient)
    assert not dims.is_equal(dims.ceildiv(2 * N + 1, 2), N)


@pytest.mark.parametrize("number", range(-7, 8))
def test_a_division_toward_zero(number: int) -> None:
    assert dims.truncdiv(number, 3) == int(number / 3)


def test_a_size_names_its_atoms_and_factors() -> None:
    atom = repr(N)
    assert repr(2 * N + 3) in ("2*%s + 3" % atom, "3 + 2*%s" % atom)
    assert (atom, repr(E)) == ("axis(n, 0)", "element(e, 0)")
    assert repr(N // 3) == "floordiv(%s, 3)" % atom
    assert repr(N * M) in ("%s*%s" % (atom, repr(M)), "%s*%s" % (repr(M), atom))


def test_a_number_has_no_atoms() -> None:
    assert list(dims.atoms_of(3)) == []
    assert [atom.args[0] for atom in dims.atoms_of(dims.maximum(N // 3, E) + 1)] == ["n", "e"]
    assert dims.is_static(3) and not dims.is_static(N)


@pytest.mark.parametrize(
    ("function", "a", "b", "expected"),
    [
        (dims.maximum, 0, N, N),
        (dims.maximum, N, 0, N),
        (dims.maximum, -3, N * M, N * M),
        (dims.maximum, N, N + M, N + M),
        (dims.maximum, 5, 7, 7),
        (dims.minimum, 0, N, 0),
        (dims.minimum, N, 0, 0),
        (dims.minimum, N + M, M, M),
        (dims.minimum, 5, 7, 5),
    ],
)
def test_the_extreme_of_sizes_that_are_provably_in_order_is_one_of_them(
    function: Any, a: Any, b: Any, expected: Any
) -> None:
    assert dims.is_equal(function(a, b), expected)


@pytest.mark.parametrize(("a", "b"), [(1, N), (N, M), (0, E), (N - 1, 0)])
def test_the_extreme_of_sizes_in_an_unknown_order_is_symbolic(a: Any, b: Any) -> None:
    for function, kind in ((dims.maximum, "max"), (dims.minimum, "min")):
        assert dims.is_equal(function(a, b), Dim.atom(kind, a, b))


# -- large sizes -------------------------------------------------------------------------------------------------------
def test_the_weight_of_a_size_counts_its_terms_and_atoms_and_its_depth_the_operations() -> None:
    assert (dims.weight(N + 1), dims.depth(N + 1)) == (3, 0)
    assert (dims.weight(N * N * M), dims.weight(7), dims.depth(7)) == (4, 1, 0)
    half = (N + 7) // 3
    assert (dims.weight(half), dims.depth(half)) == (1 + 1 + dims.weight(N + 7) + 1, 1)
    assert (dims.depth(half // 2 + half), dims.depth(half // 2)) == (2, 2)


def test_terms_do_not_multiply_without_limit() -> None:
    letters = [Dim.atom("axis", letter, 0) for letter in "abcdefgh"]
    size = sum(letters)
    for _ in range(12):  # (a + … + h) ^ 4096 has more terms than a computer has bits
        size = size * size
        assert len(size.terms) <= limits.limit("size_terms")
    assert not dims.is_within_limits(size)
    assert dims.is_within_limits(sum(letters) * sum(letters))


def test_a_deep_or_extreme_size_is_above_the_limits() -> None:
    size = N
    for _ in range(limits.limit("size_depth")):
        assert dims.is_within_limits(size)
        size = size // 3 + 7
    assert dims.is_within_limits(size)
    assert not dims.is_within_limits(size // 3)
    assert not dims.is_within_limits(N * 2**63)
    assert not dims.is_within_limits(2**63)
    assert dims.is_within_limits(-(2**62))


def test_bounds_of_nested_sizes_are_computed_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Compute one bound for each atom: a bound that asks its operands again takes 3^n steps for n divisions."""
    calls = []
    compute = dims.lower_bound
    monkeypatch.setattr(dims, "lower_bound", lambda *args: calls.append(args) or compute(*args))
    size = N
    for _ in range(100):
        size = size // 3 + 7
        assert dims.is_nonnegative(size)
    assert len(calls) == 100
