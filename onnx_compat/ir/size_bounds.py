"""Bounds of symbolic sizes: the least value at run time, and the extent of the expression.

The bound of an atom is computed once, when the atom is made. So the time to compute the bound of a size is proportional
to its number of terms.
"""

from typing import TYPE_CHECKING, Any, Callable, Optional, Sequence

from onnx_compat.limits import limit

if TYPE_CHECKING:
    from onnx_compat.ir.dims import Atom, Extent

__all__ = [
    "depth",
    "is_nonnegative",
    "is_positive",
    "is_positive_for_elements",
    "is_within_limits",
    "lower_bound",
    "weight",
]

#: A function that returns a lower bound of an atom, or None if no bound is known.
LowerBound = Callable[["Atom"], Optional[int]]
#: A size beyond an int64 has no run-time value.
_WIDE = 2**63


def lower_bound(kind: str, args: "Sequence[Any]", lower: "Optional[LowerBound]" = None) -> Optional[int]:
    """Return a lower bound of an atom: a number that the atom is never below at run time. None if no bound is known.

    `kind`, `args`: as in `dims.Atom`. `lower`: gives the lower bounds of the atoms in `args`; None: those that they
    have.
    """
    if kind == "axis":
        return 0
    if kind == "element":
        return None
    bounds = [_bound_of_size(arg, lower) for arg in args]
    known = [bound for bound in bounds if bound is not None]
    if kind == "max":
        return max(known) if known else None
    if kind == "min":
        return min(known) if len(known) == len(bounds) else None
    if kind == "mod":
        return 0 if bounds[1] is not None and bounds[1] >= 0 else None
    if kind == "floordiv" and isinstance(args[1], int) and args[1] > 0:
        return None if bounds[0] is None else bounds[0] // args[1]
    # "floordiv" by a symbolic size, "add" and "mul" of sizes that are never negative
    return 0 if len(known) == len(bounds) and min(known) >= 0 else None


def _bound_of_size(value: "Extent", lower: "Optional[LowerBound]" = None) -> Optional[int]:
    """Return a lower bound of a size, computed from the lower bounds of its atoms. Example: `n - 3` -> -3 for n >= 0.

    Return None if an atom has no bound or a bound below 0, or if an atom has a factor below 0. An int is its own bound.
    `lower`: gives the lower bounds of atoms; None: those that they have.
    """
    terms = getattr(value, "terms", None)
    if terms is None:
        return int(value)  # type: ignore[arg-type]  # a size without terms is an int
    total = 0
    for monomial, factor in terms.items():
        if monomial and factor < 0:
            return None
        product = factor
        for atom in monomial:
            bound = atom.lower if lower is None else lower(atom)
            if bound is None or bound < 0:
                return None
            product *= bound
        total += product
    return total


def is_nonnegative(value: "Extent") -> bool:
    """Whether a size is at least zero for all run-time values. False also means that no proof was found."""
    bound = _bound_of_size(value)
    return bound is not None and bound >= 0


def is_positive(value: "Extent") -> bool:
    """Whether a size is at least one for all run-time values. False also means that no proof was found."""
    bound = _bound_of_size(value)
    return bound is not None and bound > 0


def is_positive_for_elements(value: "Extent") -> bool:
    """Whether a size is at least one, if every input of a region has elements. False also means that no proof was found.

    Example, for the length n of an axis of an input: True for `n` and `floordiv(n - 1, 2) + 1`; False for `n - 1`.
    """
    bound = _bound_of_size(value, _bound_for_elements)
    return bound is not None and bound > 0


def _bound_for_elements(atom: "Atom") -> Optional[int]:
    """Return a lower bound of an atom if every input of a region has elements: 1 for the length of an input's axis.

    Return None if no bound is known.
    """
    if atom.kind in ("axis", "element"):
        is_length_of_input = atom.kind == "axis" and getattr(atom.args[0], "node", atom) is None
        return 1 if is_length_of_input else atom.lower
    return lower_bound(atom.kind, atom.args, _bound_for_elements)


def weight(value: "Extent") -> int:
    """Return the number of terms and atoms in a size, with those in operands of operations; 1 for an int.

    Example: `2 * n + 3` -> 3, two terms and one atom.
    """
    terms = getattr(value, "terms", None)
    if terms is None:
        return 1
    return int(len(terms) + sum(atom.weight for monomial in terms for atom in monomial))


def depth(value: "Extent") -> int:
    """Return the nesting depth of the operations in a size: the `depth` of its deepest atom. 0 for an int or a length.

    Only atoms of operations count, such as floordiv and max. Terms and factors of the polynomial do not count. Example:
    `2 * n + 3` -> 0, `floordiv(n, 2) + 1` -> 1.
    """
    return max((atom.depth for monomial in getattr(value, "terms", ()) for atom in monomial), default=0)


def is_within_limits(value: "Extent") -> bool:
    """Whether a size keeps the limits for recorded sizes.

    - An int: whether it fits an int64.
    - A symbolic size: whether each factor fits an int64, and the size keeps the limits `size_terms` and `size_depth`.

    A size above the limits is recorded as a run-time value. It is then a single atom in the sizes that are computed
    from it.
    """
    terms = getattr(value, "terms", None)
    if terms is None:
        return bool(-_WIDE < value < _WIDE)
    total, deepest = 0, limit("size_depth")  # one loop: constant folding calls this for each of its results
    for monomial, factor in terms.items():
        if not -_WIDE < factor < _WIDE:
            return False
        total += 1
        for atom in monomial:
            total += atom.weight
            if atom.depth > deepest:
                return False
    return total <= limit("size_terms")
