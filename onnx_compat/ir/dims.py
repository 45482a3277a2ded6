"""Symbolic sizes: polynomials for the lengths of axes that are known at run time only.

A `Dim` is a polynomial with integer coefficients over atoms. An atom is a run-time integer: the length of an axis of a
value, an element of an integer vector, or an expression that does not simplify (`a // 3`). Equal polynomials are equal
sizes. So chains like `Shape -> Gather -> Mul -> Concat -> Reshape` fold while tracing. A comparison that depends on
run-time values raises `Undecided`.

A product or a sum of very many terms is not multiplied out: it becomes an atom of its own (`size_terms` in
`onnx_compat.limits`).
"""

from typing import TYPE_CHECKING, Any, Dict, Iterable, List, Optional, Sequence, Tuple, Union, cast

from onnx_compat.ir.size_bounds import depth, is_nonnegative, is_positive, is_within_limits, lower_bound, weight
from onnx_compat.limits import limit

if TYPE_CHECKING:
    from typing_extensions import TypeIs

    from onnx_compat.ir.program import Ref

__all__ = [
    "Atom",
    "Dim",
    "Extent",
    "Undecided",
    "atoms_of",
    "ceildiv",
    "exact_quotient",
    "floordiv",
    "is_at_most",
    "is_equal",
    "is_equal_shape",
    "is_nonnegative",
    "is_static",
    "is_within_limits",
    "is_zero_with",
    "maximum",
    "minimum",
    "truncdiv",
]

Extent = Union[int, "Dim"]
#: The source of an axis or an element, its index, or an operand of an operation.
AtomArg = Union["Ref", str, Extent, None]
#: A nested tuple of strings and ints that orders atoms.
_Key = Tuple[Any, ...]


class Undecided(Exception):
    """Raised where the comparison of two symbolic sizes depends on their run-time values."""


class Atom:
    """A run-time integer, the variable of a symbolic size.

    kind: "axis", the length of an axis, which is never negative; "element", an element of an integer vector; or the
        name of an operation over sizes: "floordiv", "mod", "max", "min"; "add" and "mul" of sizes with many terms.
    args: the `Ref` and the axis, the `Ref` and the index (None for a scalar), or the operands. A name can replace a
        `Ref` to use the algebra without a program.
    key: orders atoms by the creation of their values. It is the same in every process, which a hash is not.
    weight, depth: the number of terms and atoms in it, and of operations inside of each other; 1 and 0 for a length.
    lower: a number that the atom is never below at run time; None if no lower bound is known.
    """

    __slots__ = ("_hash", "args", "depth", "key", "kind", "lower", "weight")

    def __init__(self, kind: str, *args: Any) -> None:
        self.kind = kind
        self.args = args
        self.key = _atom_key(kind, args)
        self._hash = hash((kind, args))
        self.weight, self.depth = 1, 0
        if kind not in ("axis", "element"):
            self.weight += sum(map(weight, args))
            self.depth += 1 + max(map(depth, args))
        self.lower = lower_bound(kind, args)

    def __eq__(self, rhs: object) -> bool:
        # Structural, because a comparison of Dims can raise Undecided.
        return (
            isinstance(rhs, Atom)
            and self._hash == rhs._hash
            and self.kind == rhs.kind
            and len(self.args) == len(rhs.args)
            and all(
                is_equal(a, b) if isinstance(a, Dim) or isinstance(b, Dim) else a == b
                for a, b in zip(self.args, rhs.args)
            )
        )

    def __hash__(self) -> int:
        return self._hash

    def __repr__(self) -> str:
        if self.kind in ("axis", "element"):  # the repr of a Ref is not unique
            _, source, index = self.key
            return "%s(%s, %d)" % (self.kind, source, index)
        return "%s(%s)" % (self.kind, ", ".join(map(repr, self.args)))


_Monomial = Tuple[Atom, ...]


class Dim:
    """An immutable polynomial over atoms. Arithmetic returns an `int` if all atoms cancel out: n + 1 - n -> 1.

    A comparison, and `bool` (whether the size is not 0), raises Undecided if the answer is not provable.
    """

    __slots__ = ("_hash", "terms")

    def __init__(self, terms: Dict[_Monomial, int]) -> None:
        self.terms = terms
        self._hash = hash(frozenset(terms.items()))

    @staticmethod
    def atom(kind: str, *args: AtomArg) -> "Dim":
        """Return a size of one atom, with factor 1. The arguments are those of `Atom`."""
        return Dim({(Atom(kind, *args),): 1})

    # -- arithmetic ------------------------------------------------------------------------------------------------
    def __add__(self, rhs: Extent) -> Extent:
        if isinstance(rhs, Dim) and len(self.terms) + len(rhs.terms) > limit("size_terms"):
            return Dim.atom("add", self, rhs)
        terms = dict(self.terms)
        for monomial, factor in _terms(rhs).items():
            terms[monomial] = terms.get(monomial, 0) + factor
        return _simplify(terms)

    def __mul__(self, rhs: Extent) -> Extent:
        if isinstance(rhs, Dim) and len(self.terms) * len(rhs.terms) > limit("size_terms"):
            return Dim.atom("mul", self, rhs)
        terms: Dict[_Monomial, int] = {}
        for left, a in self.terms.items():
            for right, b in _terms(rhs).items():
                monomial = tuple(sorted(left + right, key=_sort_key))
                terms[monomial] = terms.get(monomial, 0) + a * b
        return _simplify(terms)

    __radd__ = __add__
    __rmul__ = __mul__

    def __neg__(self) -> Extent:
        return self * -1

    def __sub__(self, rhs: Extent) -> Extent:
        return self + (rhs * -1)

    def __rsub__(self, rhs: Extent) -> Extent:
        return (self * -1) + rhs

    def __floordiv__(self, rhs: Extent) -> Extent:
        return floordiv(self, rhs)

    def __rfloordiv__(self, rhs: Extent) -> Extent:
        return floordiv(rhs, self)

    def __mod__(self, rhs: Extent) -> Extent:
        return 0 if _exact_division(self, rhs) is not None else Dim.atom("mod", self, rhs)

    def __rmod__(self, rhs: Extent) -> Extent:
        return Dim.atom("mod", rhs, self)

    # -- comparison: the same answer for all run-time values, or Undecided --------------------------------------------
    def __eq__(self, rhs: object) -> bool:
        if not isinstance(rhs, (Dim, int)) and not hasattr(rhs, "__index__"):
            return NotImplemented
        return decide_equal(self, cast(Extent, rhs))

    def __ne__(self, rhs: object) -> bool:
        result = self.__eq__(rhs)
        return result if result is NotImplemented else not result

    def __hash__(self) -> int:
        return self._hash

    def __lt__(self, rhs: Extent) -> bool:
        return _decide_less(self, rhs)

    def __le__(self, rhs: Extent) -> bool:
        return not _decide_less(rhs, self)

    def __gt__(self, rhs: Extent) -> bool:
        return _decide_less(rhs, self)

    def __ge__(self, rhs: Extent) -> bool:
        return not _decide_less(self, rhs)

    def __bool__(self) -> bool:
        return not decide_equal(self, 0)

    def __repr__(self) -> str:
        return " + ".join(
            "*".join(([] if factor == 1 and monomial else [str(factor)]) + [repr(atom) for atom in monomial])
            for monomial, factor in self.terms.items()
        )


def is_static(value: Union[Extent, None]) -> "TypeIs[int]":
    """Whether a size is not a symbolic `Dim`. True for every int, and also for None (a size that is not given)."""
    return not isinstance(value, Dim)


def is_equal(a: object, b: object) -> bool:
    """Whether two sizes are equal for all run-time values. Never raises. False also if equality cannot be proved.

    Two values that are not symbolic are compared by ==: None equals None.
    """
    if not isinstance(a, Dim) and not isinstance(b, Dim):
        return bool(a == b)
    return isinstance(a, Dim) and isinstance(b, Dim) and a.terms == b.terms


def is_equal_shape(a: Sequence[Extent], b: Sequence[Extent]) -> bool:
    """Whether two shapes have the same rank, and `is_equal` holds for the sizes of each axis."""
    return len(a) == len(b) and all(map(is_equal, a, b))


def decide_equal(a: Extent, b: Extent) -> bool:
    """Whether two sizes are equal (True) or differ (False) for all run-time values.

    Raises Undecided if neither can be proved.
    """
    if is_equal(a, b):
        return True
    if is_static(a) and is_static(b):
        return False
    if is_positive(a - b) or is_positive(b - a):
        return False
    raise Undecided("%r == %r" % (a, b))


def floordiv(a: Extent, b: Extent) -> Extent:
    """Return a / b, rounded down. Two ints give an int, and raise ZeroDivisionError for b = 0.

    If b equals a, or is a single term or int that divides every term of a, the result is the exact quotient. Any other
    pair gives a symbolic quotient, also for b = 0.
    """
    if is_static(a) and is_static(b):
        return int(a) // int(b)
    exact = _exact_division(a, b)
    return Dim.atom("floordiv", a, b) if exact is None else exact


def ceildiv(a: Extent, b: Extent) -> Extent:
    """Return a / b rounded up: 4 for 7 and 2. Exact and symbolic quotients, and a b of 0, are as for `floordiv`."""
    exact = None if is_static(a) and is_static(b) else _exact_division(a, b)
    if exact is not None:  # a + b - 1 would hide it
        return exact
    if is_nonnegative(b):  # `is_nonnegative` can prove a bound for this form, not for the other
        return floordiv(a + b - 1, b)
    return -floordiv(-a, b)


def exact_quotient(a: Extent, b: Extent) -> Optional[int]:
    """Return a / b if the quotient is the same positive int for all run-time values: 3 for 3 * n and n.

    None for any other quotient, also for 0, and if b is 0.
    """
    monomial, factor = next(iter(_terms(b).items()), ((), 0))
    times = _terms(a).get(monomial, 0) // factor if factor else 0
    return times if times > 0 and is_equal(b * times, a) else None


def truncdiv(a: Extent, b: Extent) -> Extent:
    """Return a / b rounded toward zero: -3 for -7 and 2. b must be positive; the sign of b is not checked.

    Computed as floordiv(a, b) for a >= 0, and as floordiv(min(a + b - 1, 0), b) for a < 0.
    """
    return floordiv(maximum(a, minimum(a + b - 1, 0)), b)


def maximum(a: Extent, b: Extent) -> Extent:
    """Return the larger of two sizes: a or b if one of them is provably not the smaller, else a symbolic maximum."""
    if is_nonnegative(b - a) or is_at_most(a, b):
        return b
    return a if is_nonnegative(a - b) or is_at_most(b, a) else Dim.atom("max", a, b)


def minimum(a: Extent, b: Extent) -> Extent:
    """Return the smaller of two sizes: a or b if one of them is provably not the larger, else a symbolic minimum."""
    if is_nonnegative(b - a) or is_at_most(a, b):
        return a
    return b if is_nonnegative(a - b) or is_at_most(b, a) else Dim.atom("min", a, b)


def is_at_most(a: Extent, b: Extent) -> bool:
    """Whether a is a symbolic minimum that has b as an operand, as in min(b, c) <= b.

    False does not mean that a > b: no other proof is tried. Two ints give False.
    """
    if not isinstance(a, Dim) or len(a.terms) != 1:
        return False
    ((monomial, factor),) = a.terms.items()
    return (
        factor == 1
        and len(monomial) == 1
        and monomial[0].kind == "min"
        and any(is_equal(b, operand) for operand in monomial[0].args)
    )


def is_zero_with(a: Extent, b: Extent) -> bool:
    """Whether b is 0 for all run-time values for which a is 0. Example: a = n, b = n * m.

    True for any b if a is an int other than 0. False also means that no proof was found.
    """
    if is_static(a):
        return a != 0 or is_equal(b, 0)
    if any(factor < 0 or any(atom.lower is None or atom.lower < 0 for atom in m) for m, factor in a.terms.items()):
        return _exact_division(b, a) is not None
    # A sum of terms that are never negative is 0 if each term is, and a term is if one of its atoms is.
    return all(any(set(own) <= set(term) for own in a.terms) for term in _terms(b))


def atoms_of(value: Extent) -> Iterable[Atom]:
    """Yield the "axis" and "element" atoms in a size, also the atoms in operands of operations: n // m + 1 -> n, m.

    An atom can be yielded several times. An int has no atoms.
    """
    for monomial in _terms(value):
        for atom in monomial:
            if atom.kind in ("axis", "element"):
                yield atom
            else:
                for arg in atom.args:
                    yield from atoms_of(arg)


# -- the algebra underneath ------------------------------------------------------------------------------------------
def _terms(value: Extent) -> Dict[_Monomial, int]:
    """Return monomial -> factor of a size. An int is the factor of the empty monomial; 0 has no terms."""
    if isinstance(value, Dim):
        return value.terms
    return {(): int(value)} if value else {}


def _simplify(terms: Dict[_Monomial, int]) -> Extent:
    """Return the size with these terms, without those of factor 0: an int if only the constant term is left."""
    kept = {monomial: factor for monomial, factor in terms.items() if factor}
    if not kept:
        return 0
    if len(kept) == 1 and () in kept:
        return kept[()]
    return Dim(kept)


def _sort_key(atom: Atom) -> _Key:
    return atom.key


def _atom_key(kind: str, args: Sequence[Any]) -> _Key:
    """Return a sort key that only equal atoms share.

    The key has the kind of the atom first. The serial number of the value and the index follow, or the operand keys.
    """
    if kind in ("axis", "element"):
        source, index = args
        return (kind, getattr(source, "serial", source), -1 if index is None else index)
    return (kind, *map(_extent_key, args))


def _extent_key(extent: Extent) -> _Key:
    return tuple(sorted((tuple(map(_sort_key, monomial)), factor) for monomial, factor in _terms(extent).items()))


def _exact_division(a: Extent, b: Extent) -> Optional[Extent]:
    """Return a / b if a equals b, or if b is a single term that divides each term of a without remainder; else None."""
    divisor = _terms(b)
    if len(divisor) != 1:
        return 1 if is_equal(a, b) and divisor else None
    ((monomial, factor),) = divisor.items()
    terms: Dict[_Monomial, int] = {}
    for term, count in _terms(a).items():
        rest = list(term)
        if count % factor or any(_cannot_remove(rest, atom) for atom in monomial):
            return None
        terms[tuple(rest)] = count // factor
    return _simplify(terms)


def _cannot_remove(atoms: List[Atom], atom: Atom) -> bool:
    """Remove the first occurrence of `atom` from `atoms`. Return True if the list does not contain `atom`."""
    if atom in atoms:
        atoms.remove(atom)
        return False
    return True


def _decide_less(a: Extent, b: Extent) -> bool:
    """Whether a < b for all run-time values (True), or a >= b for all (False). Raises Undecided without a proof."""
    if is_positive(b - a):
        return True
    if is_nonnegative(a - b):
        return False
    raise Undecided("%r < %r" % (a, b))
