"""Remove guards that the target's operators make needless, or that the lowering writes again.

    take(x, where(less(i, 0), add(i, n), i))                 =>  take(x, i), where n is the length of the axis
    where(equal(y, -1), neg(x), div(x, where(or(equal(y, 0), equal(y, -1)), 1, y)))
                                                             =>  div(x, y), of signed integers
    div(x, where(equal(y, 0), 1, y))                         =>  div(x, y), of unsigned integers
    where(is_nan(x), x, sign(x))                             =>  sign(x)
    div(floor(mul(r, s)), s), s = 2^(digits of the dtype)    =>  r, of random_uniform

The meanings of operators guard the arguments of primitives: an index of a primitive is not negative. The lowering guards
the arguments of operators: an integer is not divided by 0, and a random number is rounded below 1. A model that was
written from a program, read and written again would get one more guard each time.

Conditions: indices lose their guard only for operators that count negative indices from the end, from opset 11 on.
"""

from typing import Any, Callable, List, Optional, Sequence, Tuple

import numpy as np

from onnx_compat.ir import Const, Extents, Node, Ref, Region
from onnx_compat.ir.dims import Extent, is_equal, is_equal_shape
from onnx_compat.ir.rewriter import Replacement, rewrite_region
from onnx_compat.onnx_shim.operator_sets import OperatorOffer
from onnx_compat.shim.activation_matches import number_of, producer_of

__all__ = ["remove_guards"]

#: The first operator set whose operators count negative indices from the end.
_FROM_END = 11


def remove_guards(region: Region, offer: OperatorOffer) -> Region:
    """Return a copy of a region without needless guards, also in the bodies of branches and loops.

    `offer`: the operators of the target. If nothing is removed, return `region` itself. An index of the copy may be
    negative: `take` means Gather there. The other primitives of indices have the parameter `from_end` then.
    """
    finders = [_find_quotient, _find_unsigned_quotient, _find_remainder, _find_sign, _find_below_one]
    if offer.opset >= _FROM_END:
        finders.append(_find_index)
    return rewrite_region(region, lambda node: _first(finders, node), nested=True)[0]


def _first(finders: Sequence[Callable[[Node], Optional[Replacement]]], node: Node) -> Optional[Replacement]:
    return next(filter(None, (find(node) for find in finders)), None)


# -- indices -----------------------------------------------------------------------------------------------------------
def _find_index(node: Node) -> Optional[Replacement]:
    """Return a primitive of indices with indices that count from the end; None if they have no guard."""
    if node.primitive not in ("take", "take_along", "gather_nd", "scatter_nd"):
        return None
    x, indices = node.args[:2]
    if not isinstance(x, (Ref, Const)):
        return None
    if "axis" in node.params:
        lengths = [x.spec.shape[node.params["axis"]]]
    else:
        lengths = list(x.spec.shape[node.params.get("batch_dims", 0) :])
    index = _match_guarded_index(indices, lengths, by_row="axis" not in node.params)
    if index is None:
        return None
    params = dict(node.params) if node.primitive == "take" else dict(node.params, from_end=True)
    return Replacement(node.primitive, [x, index, *node.args[2:]], params)


def _match_guarded_index(arg: Any, lengths: Sequence[Extent], by_row: bool) -> Optional[Ref]:
    """Return i if `arg` is where(less(i, 0), add(i, n), i), else None.

    - lengths: the lengths of the axes that the indices select from.
    - by_row: whether n is a vector with the first of these lengths, one for each entry along the last axis of i.
      Otherwise n is the only length.
    """
    chosen = producer_of(arg, "where")
    if chosen is None:
        return None
    condition, shifted, index = chosen.args
    test, total = producer_of(condition, "less"), producer_of(shifted, "add")
    if not isinstance(index, Ref) or test is None or total is None or not _keeps_shape(chosen, index):
        return None
    if test.args[0] is not index or not _is_integer(test.args[1], 0) or total.args[0] is not index:
        return None
    added = _sizes_of(total.args[1])
    if added is None:
        return None
    expected = list(lengths[: index.spec.shape[-1]]) if by_row else list(lengths)
    is_expected = len(added) == len(expected) and all(map(is_equal, added, expected))
    return index if is_expected else None


def _sizes_of(arg: Any) -> Optional[List[Extent]]:
    """Return the sizes that an argument holds: a constant, or sizes that are computed. None: it holds other values."""
    if isinstance(arg, Const):
        return [int(size) for size in arg.array.reshape(-1)] if arg.spec.rank < 2 else None
    node = producer_of(arg, "extents", "cast")
    if node is not None and node.primitive == "cast":
        node = producer_of(node.args[0], "extents")
    sizes = None if node is None else node.args[0]
    return list(sizes.dims) if isinstance(sizes, Extents) else None


# -- integers ----------------------------------------------------------------------------------------------------------
def _find_quotient(node: Node) -> Optional[Replacement]:
    """Return the quotient of signed integers that a `where` chooses for divisors other than -1; None for another node."""
    if node.primitive != "where":
        return None
    condition, negative, quotient = node.args
    test, division = producer_of(condition, "equal"), producer_of(quotient, "div")
    if test is None or division is None or not _is_integer(test.args[1], -1):
        return None
    x, y = division.args[0], test.args[0]
    divides = _divisor(division.args[1]) == (y, True) and _is_negation(negative, x)
    return Replacement("div", [x, y], {}) if divides else None


def _is_negation(arg: Any, x: Any) -> bool:
    """Whether an argument is computed as -x, or both are constants of this relation."""
    negation = producer_of(arg, "neg")
    if negation is not None:
        return negation.args[0] is x
    return isinstance(arg, Const) and isinstance(x, Const) and bool(np.array_equal(arg.array, np.negative(x.array)))


def _find_unsigned_quotient(node: Node) -> Optional[Replacement]:
    return _without_guard(node, "div", is_signed=False)


def _find_remainder(node: Node) -> Optional[Replacement]:
    is_signed = node.primitive == "mod" and node.outputs[0].spec.dtype.kind == "i"
    return _without_guard(node, "mod", is_signed)


def _without_guard(node: Node, primitive: str, is_signed: bool) -> Optional[Replacement]:
    """Return the node without the guard of its divisor; None for another primitive, and without such a guard.

    `is_signed`: whether the guard also replaces a divisor of -1, and the integers are signed.
    """
    divisor = _divisor(node.args[1]) if node.primitive == primitive else None
    if divisor is None or divisor[1] != is_signed or node.outputs[0].spec.dtype.kind != ("i" if is_signed else "u"):
        return None
    return Replacement(primitive, [node.args[0], divisor[0]], {})


def _divisor(arg: Any) -> Optional[Tuple[Ref, bool]]:
    """Return (y, whether -1 is replaced) if `arg` is y with 1 in place of 0, and of -1. None for other values."""
    chosen = producer_of(arg, "where")
    if chosen is None or not _is_integer(chosen.args[1], 1):
        return None
    condition, _, y = chosen.args
    either = producer_of(condition, "logical_or")
    tests = [producer_of(test, "equal") for test in (either.args if either is not None else [condition])]
    replaced = (0, -1)[: len(tests)]
    is_guard = all(
        test is not None and test.args[0] is y and _is_integer(test.args[1], number)
        for test, number in zip(tests, replaced)
    )
    return (y, either is not None) if is_guard and isinstance(y, Ref) and _keeps_shape(chosen, y) else None


def _find_sign(node: Node) -> Optional[Replacement]:
    """Return the sign of floats that a `where` chooses for all numbers but NaN; None for another node."""
    if node.primitive != "where":
        return None
    test, sign = producer_of(node.args[0], "is_nan"), producer_of(node.args[2], "sign")
    x = node.args[1]
    if test is None or sign is None or test.args[0] is not x or sign.args[0] is not x:
        return None
    return Replacement("sign", [x], {})


def _find_below_one(node: Node) -> Optional[Replacement]:
    """Return random numbers that are rounded down to the digits of their dtype; None for another node.

    The lowering rounds them in this way. The replacement is a cast to the dtype that they have, which does nothing.
    """
    dtype = node.outputs[0].spec.dtype
    if node.primitive != "div" or dtype.kind != "f" or not dtype.native:
        return None
    whole, scale = producer_of(node.args[0], "floor"), number_of(node.args[1])
    product = None if whole is None else producer_of(whole.args[0], "mul")
    if product is None or scale != 2.0 ** (np.finfo(dtype.numpy).nmant + 1) or number_of(product.args[1]) != scale:
        return None
    numbers = product.args[0]
    return Replacement("cast", [numbers], {"dtype": dtype}) if producer_of(numbers, "random_uniform") else None


def _is_integer(arg: Any, number: int) -> bool:
    """Whether an argument is a constant with this integer as its only element."""
    if not isinstance(arg, Const) or arg.spec.dtype.kind not in "iu" or arg.array.size != 1:
        return False
    return bool(arg.array.reshape(()) == number)


def _keeps_shape(node: Node, source: Ref) -> bool:
    return is_equal_shape(node.outputs[0].spec.shape, source.spec.shape)
