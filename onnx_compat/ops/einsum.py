"""Einsum as transposes, sums and matrix products."""

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
    """Return the sum of products that the equation describes: "ij,jk->ik" is the matrix product of two inputs.

    - A letter that is repeated in a term takes the diagonal of its axes: "ii->i".
    - A letter that the output lacks is summed over: "ij->i".
    - "..." stands for any number of axes, which broadcast.
    - Without "->", the output is "..." and the sorted letters that occur only once in the equation.

    Raises InvalidModelError if the equation does not fit the number or the ranks of the inputs. Raises it if the output
    has a letter twice, or a letter that no term has.
    """
    terms, output = _parse_equation(equation.replace(" ", ""), Inputs)
    unknown_letters = sorted(set(output).difference(*(letters for _, letters in terms)))
    if unknown_letters or len(set(output)) < len(output):
        problem = "a letter twice" if not unknown_letters else "'%s', which no term has" % unknown_letters[0]
        raise InvalidModelError("the output of the equation '%s' has %s" % (equation, problem))
    x, letters = _take_diagonals(*terms[0])
    for k, term in enumerate(terms[1:], 2):
        later_letters = {letter for _, other_letters in terms[k:] for letter in other_letters}
        x, letters = _contract((x, letters), _take_diagonals(*term), later_letters | set(output))
    x, letters = _sum_axes(x, letters, set(output))
    return p.transpose(x, [letters.index(letter) for letter in output])


def _parse_equation(equation: str, inputs: Sequence[Any]) -> Tuple[List[Term], List[str]]:
    """Parse an equation without spaces. Return (terms, letters of the output axes).

    The terms are a list with (input, list of the letters of its axes) for each input.

    The axes that "..." stands for get the letters …, ".2", ".1"; ".1" is the last of these axes. In the output, "..."
    stands for as many axes as in the term where it stands for most. Without "->", the output is "..." and the sorted
    letters that occur only once in the equation.

    Raises InvalidModelError if the number of terms is not that of the inputs, or if a term does not fit the rank of its
    input.
    """
    left, arrow, right = equation.partition("->")
    parts = left.split(",")
    if len(parts) != len(inputs):
        raise InvalidModelError("the equation '%s' has %d terms for %d inputs" % (equation, len(parts), len(inputs)))
    terms = [(x, _axis_letters(part, x.rank)) for part, x in zip(parts, inputs)]
    ellipsis = max((tuple(name for name in letters if name.startswith(".")) for _, letters in terms), key=len)
    if arrow:
        before, _, after = right.partition("...")
        return terms, [*before, *(ellipsis if "..." in right else ()), *after]
    every = [letter for _, letters in terms for letter in letters]
    return terms, [*ellipsis, *sorted({name for name in every if every.count(name) == 1 and not name.startswith(".")})]


def _axis_letters(part: str, rank: int) -> List[str]:
    """Return the letter of each axis of a term: "i...j" of rank 4 gives i, .2, .1, j.

    Raises InvalidModelError if the term does not fit the rank.
    """
    before, ellipsis, after = part.partition("...")
    ellipsis_rank = rank - len(before) - len(after) if ellipsis else 0
    if len(before) + len(after) + ellipsis_rank != rank or ellipsis_rank < 0:
        raise InvalidModelError("the term '%s' of an equation does not fit a tensor of rank %d" % (part, rank))
    return [*before, *(".%d" % k for k in range(ellipsis_rank, 0, -1)), *after]


def _take_diagonals(x: Tensor, letters: List[str]) -> Term:
    """Replace axes of x that have the same letter by their diagonal: letters "ii" become "i", and "iji" become "ij".

    Return (tensor, unique letters). The diagonal is at the axis where the letter occurs first. If the letters are
    unique, the tensor is x itself.
    """
    for letter in sorted(set(letters)):
        while letters.count(letter) > 1:
            first = letters.index(letter)
            second = letters.index(letter, first + 1)
            positions = p.iota(x.shape[first])
            shapes = [[x.shape[first] if k == axis else 1 for k in range(x.rank)] for axis in (first, second)]
            on_diagonal = p.equal(*[p.reshape(positions, shape) for shape in shapes])
            x = p.reduce_sum(p.where(on_diagonal, x, 0), [second])
            letters = letters[:second] + letters[second + 1 :]
    return x, letters


def _sum_axes(x: Tensor, letters: List[str], kept: Any) -> Term:
    """Sum x over each axis whose letter is not in `kept`. Return (sum, remaining letters).

    If all letters are in `kept`, the sum is x itself.
    """
    summed_axes = [axis for axis, letter in enumerate(letters) if letter not in kept]
    return (p.reduce_sum(x, summed_axes) if summed_axes else x), [letter for letter in letters if letter in kept]


def _contract(a: Term, b: Term, kept: Any) -> Term:
    """Multiply two terms, and sum over all letters that are not in `kept`. Return the product as a term.

    A term is (tensor, list of the letters of its axes). Each letter occurs once in a term. A letter that only one term
    has is also summed over if it is not in `kept`. The axes of the product are, in this order:

    - the kept letters that both terms have, in the order of `a`; an axis of size 1 broadcasts
    - the kept letters that only `a` has
    - the kept letters that only `b` has
    """
    (x, left), (y, right) = _sum_axes(*a, kept | set(b[1])), _sum_axes(*b, kept | set(a[1]))
    shared = [letter for letter in left if letter in right]
    batch = [letter for letter in shared if letter in kept]
    common = [letter for letter in shared if letter not in kept]
    own_left = [letter for letter in left if letter not in shared]
    own_right = [letter for letter in right if letter not in shared]
    sizes: Dict[str, Extent] = {}
    for letter, extent in [*zip(left, x.shape), *zip(right, y.shape)]:
        if letter not in sizes or is_equal(sizes[letter], 1):
            sizes[letter] = extent

    def matrix(tensor: Tensor, letters: List[str], rows: List[str], columns: List[str]) -> Tensor:
        arranged = p.transpose(tensor, [letters.index(letter) for letter in batch + rows + columns])
        extents = [arranged.shape[k] for k in range(len(batch))]  # an axis of size 1 still broadcasts
        return p.reshape(arranged, [*extents, *(product([sizes[name] for name in group]) for group in (rows, columns))])

    result = p.matmul(matrix(x, left, own_left, common), matrix(y, right, common, own_right))
    letters = batch + own_left + own_right
    return p.reshape(result, [sizes[letter] for letter in letters]), letters
