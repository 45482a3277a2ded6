"""Symbolic sizes: what is known of an axis whose length is only known at run time.

A `Dim` is a polynomial with integer coefficients over atoms. An atom is one run-time integer: the length of an axis of
some value, an element of an integer vector, or an expression that does not simplify (`a // 3`). Two sizes that are the
same polynomial are the same size, which is what lets `Shape -> Gather -> Mul -> Concat -> Reshape` chains disappear at
trace time. A question that the algebra cannot answer raises `Undecided`; nothing is ever guessed.
"""

from typing import TYPE_CHECKING, Any, Dict, Iterable, Optional, Sequence, Tuple, Union

if TYPE_CHECKING:
    from typing_extensions import TypeIs

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
    "maximum",
    "minimum",
    "truncdiv",
]

Extent = Union[int, "Dim"]


class Undecided(Exception):
    """The comparison of two symbolic sizes depends on their run-time values."""


class Atom:
    """One run-time integer. `kind` is 'axis' (length, never negative), 'element', or an operation over Dims."""

    __slots__ = ("_hash", "args", "kind")

    def __init__(self, kind: str, *args: Any) -> None:
        self.kind = kind
        self.args = args
        self._hash = hash((kind, args))

    def __eq__(self, other: object) -> bool:
        # Structural, so that it can never be Undecided as a comparison of Dims can.
        return (
            isinstance(other, Atom)
            and self._hash == other._hash
            and self.kind == other.kind
            and len(self.args) == len(other.args)
            and all(
                is_equal(a, b) if isinstance(a, Dim) or isinstance(b, Dim) else a == b
                for a, b in zip(self.args, other.args)
            )
        )

    def __hash__(self) -> int:
        return self._hash

    def __repr__(self) -> str:
        if self.kind in ("axis", "element"):  # its source is a whole graph: a short label that tells atoms apart
            return "%s%04x" % (self.kind[0], self._hash & 0xFFFF)
        return "%s(%s)" % (self.kind, ", ".join(map(repr, self.args)))

    @property
    def lower(self) -> Optional[int]:
        """The least value it can have, if there is one."""
        if self.kind == "axis":
            return 0
        if self.kind == "max":
            bounds = [b for b in map(_lower, self.args) if b is not None]
            return max(bounds) if bounds else None
        if self.kind == "min":
            least = [b for b in map(_lower, self.args) if b is not None]
            return min(least) if len(least) == len(self.args) else None
        if self.kind == "floordiv":
            return 0 if is_nonnegative(self.args[0]) and is_nonnegative(self.args[1]) else None
        if self.kind == "mod":
            return 0 if is_nonnegative(self.args[1]) else None
        return None


_Monomial = Tuple[Atom, ...]


class Dim:
    """An immutable polynomial over atoms. Arithmetic gives an `int` again as soon as nothing is unknown."""

    __slots__ = ("_hash", "terms")

    def __init__(self, terms: Dict[_Monomial, int]) -> None:
        self.terms = terms
        self._hash = hash(frozenset(terms.items()))

    @staticmethod
    def atom(kind: str, *args: Any) -> "Dim":
        return Dim({(Atom(kind, *args),): 1})

    # -- arithmetic ------------------------------------------------------------------------------------------------
    def __add__(self, other: Extent) -> Extent:
        terms = dict(self.terms)
        for monomial, factor in _terms(other).items():
            terms[monomial] = terms.get(monomial, 0) + factor
        return _simplified(terms)

    def __mul__(self, other: Extent) -> Extent:
        terms: Dict[_Monomial, int] = {}
        for left, a in self.terms.items():
            for right, b in _terms(other).items():
                monomial = tuple(sorted(left + right, key=_order))
                terms[monomial] = terms.get(monomial, 0) + a * b
        return _simplified(terms)

    __radd__ = __add__
    __rmul__ = __mul__

    def __neg__(self) -> Extent:
        return self * -1

    def __sub__(self, other: Extent) -> Extent:
        return self + (other * -1)

    def __rsub__(self, other: Extent) -> Extent:
        return (self * -1) + other

    def __floordiv__(self, other: Extent) -> Extent:
        return floordiv(self, other)

    def __rfloordiv__(self, other: Extent) -> Extent:
        return floordiv(other, self)

    def __mod__(self, other: Extent) -> Extent:
        return 0 if _exact(self, other) is not None else Dim.atom("mod", self, other)

    def __rmod__(self, other: Extent) -> Extent:
        return Dim.atom("mod", other, self)

    # -- comparison: decided for every run-time value, or Undecided ---------------------------------------------------
    def __eq__(self, other: object) -> bool:
        if not isinstance(other, (Dim, int)) and not hasattr(other, "__index__"):
            return NotImplemented
        return decide_equal(self, other)  # type: ignore[arg-type]

    def __ne__(self, other: object) -> bool:
        result = self.__eq__(other)
        return result if result is NotImplemented else not result

    def __hash__(self) -> int:
        return self._hash

    def __lt__(self, other: Extent) -> bool:
        return _less(self, other)

    def __le__(self, other: Extent) -> bool:
        return not _less(other, self)

    def __gt__(self, other: Extent) -> bool:
        return _less(other, self)

    def __ge__(self, other: Extent) -> bool:
        return not _less(self, other)

    def __bool__(self) -> bool:
        return not decide_equal(self, 0)

    def __repr__(self) -> str:
        return " + ".join(
            "*".join(([] if factor == 1 and monomial else [str(factor)]) + [repr(atom) for atom in monomial])
            for monomial, factor in self.terms.items()
        )


def is_static(value: Any) -> "TypeIs[int]":
    """Whether a size is an int; the other sizes are symbolic."""
    return not isinstance(value, Dim)


def is_equal(a: Any, b: Any) -> bool:
    """Whether the two are provably equal; False means 'not provably', and never raises."""
    if not isinstance(a, Dim) and not isinstance(b, Dim):
        return bool(a == b)
    return isinstance(a, Dim) and isinstance(b, Dim) and a.terms == b.terms


def is_equal_shape(a: Sequence[Extent], b: Sequence[Extent]) -> bool:
    return len(a) == len(b) and all(map(is_equal, a, b))


def decide_equal(a: Extent, b: Extent) -> bool:
    if is_equal(a, b):
        return True
    if is_static(a) and is_static(b):
        return False
    if _positive(a - b) or _positive(b - a):
        return False
    raise Undecided("%r == %r" % (a, b))


def floordiv(a: Extent, b: Extent) -> Extent:
    if is_static(a) and is_static(b):
        return int(a) // int(b)
    exact = _exact(a, b)
    return Dim.atom("floordiv", a, b) if exact is None else exact


def ceildiv(a: Extent, b: Extent) -> Extent:
    if is_nonnegative(b):  # in this form it is also seen not to be negative
        return floordiv(a + b - 1, b)
    return -floordiv(-a, b)


def exact_quotient(a: Extent, b: Extent) -> Optional[int]:
    """How many times b is a, if that is a whole number whatever the run-time values."""
    monomial, factor = next(iter(_terms(b).items()), ((), 0))
    times = _terms(a).get(monomial, 0) // factor if factor else 0
    return times if times > 0 and is_equal(b * times, a) else None


def truncdiv(a: Extent, b: Extent) -> Extent:
    """a / b toward zero, for a positive b: what is below zero is raised, to zero at most, before it is rounded down."""
    return floordiv(maximum(a, minimum(a + b - 1, 0)), b)


def maximum(a: Extent, b: Extent) -> Extent:
    try:
        return max(a, b)
    except Undecided:
        return b if is_at_most(a, b) else a if is_at_most(b, a) else Dim.atom("max", a, b)


def minimum(a: Extent, b: Extent) -> Extent:
    try:
        return min(b, a)
    except Undecided:
        return a if is_at_most(a, b) else b if is_at_most(b, a) else Dim.atom("min", a, b)


def is_at_most(a: Extent, b: Extent) -> bool:
    """Whether a is min(b, ...)."""
    if not isinstance(a, Dim) or len(a.terms) != 1:
        return False
    ((monomial, factor),) = a.terms.items()
    return (
        factor == 1
        and len(monomial) == 1
        and monomial[0].kind == "min"
        and any(is_equal(b, one) for one in monomial[0].args)
    )


def atoms_of(value: Extent) -> Iterable[Atom]:
    """The run-time values it depends on: its 'axis' and 'element' atoms, also those inside operations."""
    for monomial in _terms(value):
        for atom in monomial:
            if atom.kind in ("axis", "element"):
                yield atom
            else:
                for arg in atom.args:
                    yield from atoms_of(arg)


# -- the algebra underneath ------------------------------------------------------------------------------------------
def _terms(value: Extent) -> Dict[_Monomial, int]:
    if isinstance(value, Dim):
        return value.terms
    return {(): int(value)} if value else {}


def _simplified(terms: Dict[_Monomial, int]) -> Extent:
    kept = {monomial: factor for monomial, factor in terms.items() if factor}
    if not kept:
        return 0
    if len(kept) == 1 and () in kept:
        return kept[()]
    return Dim(kept)


def _order(atom: Atom) -> Tuple[str, int]:
    return (atom.kind, hash(atom))


def _exact(a: Extent, b: Extent) -> Optional[Extent]:
    """a / b where b is one monomial that divides every term of a."""
    divisor = _terms(b)
    if len(divisor) != 1:
        return 1 if is_equal(a, b) and divisor else None
    ((monomial, factor),) = divisor.items()
    terms: Dict[_Monomial, int] = {}
    for term, count in _terms(a).items():
        rest = list(term)
        if count % factor or any(_remove(rest, atom) for atom in monomial):
            return None
        terms[tuple(rest)] = count // factor
    return _simplified(terms)


def _remove(atoms: Any, atom: Atom) -> bool:
    """Take one `atom` out of the list; True if it was not there."""
    if atom in atoms:
        atoms.remove(atom)
        return False
    return True


def _lower(value: Extent) -> Optional[int]:
    """A lower bound, from the bounds of the atoms."""
    total = 0
    for monomial, factor in _terms(value).items():
        if monomial and factor < 0:
            return None
        product = factor
        for atom in monomial:
            if atom.lower is None or atom.lower < 0:
                return None
            product *= atom.lower
        total += product
    return total


def is_nonnegative(value: Extent) -> bool:
    """Whether it is provably at least zero, whatever the run-time values."""
    bound = _lower(value)
    return bound is not None and bound >= 0


def _positive(value: Extent) -> bool:
    bound = _lower(value)
    return bound is not None and bound > 0


def _less(a: Extent, b: Extent) -> bool:
    if _positive(b - a):
        return True
    if is_nonnegative(a - b):
        return False
    raise Undecided("%r < %r" % (a, b))
