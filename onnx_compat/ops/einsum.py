"""Einsum, out of transposes, sums and matrix products."""

from typing import Any, Dict, List, Sequence, Tuple

from onnx_compat import primitives as p
from onnx_compat.errors import InvalidModelError
from onnx_compat.ir.dims import Extent, is_equal
from onnx_compat.ops.arguments import product
from onnx_compat.ops.registry import op
from onnx_compat.tracing.values import Tensor

#: A tensor and the letter of each of its axes.
Term = Tuple[Any, List[str]]


@op("Einsum", since=(12, 28))
def einsum(*Inputs: Tensor, equation: str) -> Tensor:
    terms, output = _parse_equation(equation.replace(" ", ""), Inputs)
    x, letters = _take_diagonals(*terms[0])
    for k, term in enumerate(terms[1:], 2):
        later = {letter for _, others in terms[k:] for letter in others}
        x, letters = _contract((x, letters), _take_diagonals(*term), later | set(output))
    x, letters = _sum_axes(x, letters, set(output))
    return p.transpose(x, [letters.index(letter) for letter in output])


def _parse_equation(equation: str, inputs: Sequence[Any]) -> Tuple[List[Term], List[str]]:
    """The terms with a letter for each axis (capitals with a mark for those that an ellipsis stands for)."""
    left, arrow, right = equation.partition("->")
    parts = left.split(",")
    if len(parts) != len(inputs):
        raise InvalidModelError("the equation '%s' has %d terms for %d inputs" % (equation, len(parts), len(inputs)))
    terms = [(x, _axis_letters(part, x.rank)) for part, x in zip(parts, inputs)]
    dots = max((tuple(one for one in letters if one.startswith(".")) for _, letters in terms), key=len)
    if arrow:
        before, _, after = right.partition("...")
        return terms, [*before, *(dots if "..." in right else ()), *after]
    every = [letter for _, letters in terms for letter in letters]
    return terms, [*dots, *sorted({one for one in every if every.count(one) == 1 and not one.startswith(".")})]


def _axis_letters(part: str, rank: int) -> List[str]:
    before, dots, after = part.partition("...")
    hidden = rank - len(before) - len(after) if dots else 0
    if len(before) + len(after) + hidden != rank or hidden < 0:
        raise InvalidModelError("the term '%s' of an equation does not fit a tensor of rank %d" % (part, rank))
    return [*before, *(".%d" % k for k in range(hidden, 0, -1)), *after]


def _take_diagonals(x: Tensor, letters: List[str]) -> Term:
    """Without letters that come twice: of those axes only the diagonal counts."""
    for letter in sorted(set(letters)):
        while letters.count(letter) > 1:
            first = letters.index(letter)
            second = letters.index(letter, first + 1)
            places = p.iota(x.shape[first])
            shapes = [[x.shape[first] if k == axis else 1 for k in range(x.rank)] for axis in (first, second)]
            here = p.equal(*[p.reshape(places, shape) for shape in shapes])
            x = p.reduce_sum(p.where(here, x, 0), [second])
            letters = letters[:second] + letters[second + 1 :]
    return x, letters


def _sum_axes(x: Tensor, letters: List[str], kept: Any) -> Term:
    gone = [axis for axis, letter in enumerate(letters) if letter not in kept]
    return (p.reduce_sum(x, gone) if gone else x), [letter for letter in letters if letter in kept]


def _contract(a: Term, b: Term, kept: Any) -> Term:
    """Two terms as one product of matrices [batch, own, common] and [batch, common, own]."""
    (x, left), (y, right) = _sum_axes(*a, kept | set(b[1])), _sum_axes(*b, kept | set(a[1]))
    shared = [letter for letter in left if letter in right]
    batch = [letter for letter in shared if letter in kept]
    common = [letter for letter in shared if letter not in kept]
    mine = [letter for letter in left if letter not in shared]
    theirs = [letter for letter in right if letter not in shared]
    sizes: Dict[str, Extent] = {}
    for letter, extent in [*zip(left, x.shape), *zip(right, y.shape)]:
        if letter not in sizes or is_equal(sizes[letter], 1):
            sizes[letter] = extent

    def matrix(tensor: Tensor, letters: List[str], rows: List[str], columns: List[str]) -> Tensor:
        arranged = p.transpose(tensor, [letters.index(letter) for letter in batch + rows + columns])
        extents = [arranged.shape[k] for k in range(len(batch))]  # an axis of length one still broadcasts
        return p.reshape(arranged, [*extents, *(product([sizes[one] for one in group]) for group in (rows, columns))])

    result = p.matmul(matrix(x, left, mine, common), matrix(y, right, common, theirs))
    letters = batch + mine + theirs
    return p.reshape(result, [sizes[letter] for letter in letters]), letters
