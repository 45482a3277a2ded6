"""Primitives on strings."""

from typing import List, Optional

from onnx_compat.errors import InvalidModelError
from onnx_compat.ir.dtypes import DType, bool_, int64, string
from onnx_compat.primitives.base import apply_primitive, fold, primitive
from onnx_compat.primitives.elementwise import elementwise, lift_pair
from onnx_compat.tracing.trace import current_trace
from onnx_compat.tracing.values import Tensor, TensorLike, lift


@primitive("s")
def string_lower(x: TensorLike) -> Tensor:
    """Every letter in lower case, by Unicode's rules."""
    return elementwise("string_lower", [lift(x)], string)


@primitive("s")
def string_upper(x: TensorLike) -> Tensor:
    """Every letter in upper case, by Unicode's rules."""
    return elementwise("string_upper", [lift(x)], string)


@primitive("s")
def string_concat(x: TensorLike, y: TensorLike) -> Tensor:
    """The text of x followed by the text of y, for each pair of elements; the operands broadcast."""
    return elementwise("string_concat", list(lift_pair("string_concat", x, y)), string)


@primitive("s")
def string_match(x: TensorLike, pattern: str) -> Tensor:
    """Whether the whole text of each element matches a regular expression in RE2's syntax, as a bool tensor."""
    return elementwise("string_match", [lift(x)], bool_, {"pattern": pattern})


@primitive("s")
def string_split(x: TensorLike, delimiter: Optional[str] = None, limit: Optional[int] = None) -> List[Tensor]:
    """Split each text. Return [pieces along a new last axis, int64 number of pieces of each text].

    The new axis is as long as the largest number of pieces; rows with fewer pieces end with empty strings.

    - delimiter: None or "" splits at runs of ASCII white space, and removes ASCII white space at both ends.
    - limit: the largest number of splits, from the left; None: no limit.

    With a delimiter, an empty text has one piece. Without a delimiter, a text of only white space has none.
    """
    x = lift(x)
    params = {"delimiter": delimiter or None, "limit": limit}
    folded = fold("string_split", [x], [string, int64], **params)
    if folded is not None:
        return list(folded)
    return apply_primitive("string_split", [current_trace().argument(x)], params, [None, None])


@primitive("s")
def string_rank(x: TensorLike) -> Tensor:
    """The int64 rank of each text among the distinct texts, sorted by code points: ["b", "a", "b"] -> [1, 0, 1]."""
    x = lift(x)
    folded = fold("string_rank", [x], [int64])
    if folded is not None:
        return folded[0]
    return apply_primitive("string_rank", [current_trace().argument(x)], {})[0]


@primitive("fiub")
def to_text(x: TensorLike) -> Tensor:
    """Each number as numpy prints it: integers in decimal, `True`, `False`, `1e-05`, `nan`, `-inf`.

    A float has the fewest digits that read back as the same number of its dtype. A carried dtype is printed as its
    carrier: bfloat16 as float32.
    """
    x = lift(x)
    return elementwise("to_text", [x], string, {"dtype": x.dtype})


@primitive("s")
def from_text(x: TensorLike, dtype: DType) -> Tensor:
    """The number in each text: plain or scientific notation, or `NaN`, `INF`, `+INF`, `-INF` in upper or lower case.

    For an integer dtype, the text of a float is truncated. To bool, it is truncated too: 0 gives False, any other
    integer True. The reference refuses any other text. For an integer dtype or bool, it also refuses NaN, infinity, and
    a number that the dtype cannot hold; on a framework, the result of these is not defined.

    Raises InvalidModelError for a string or complex dtype, and for a refused text that is known while tracing.
    """
    if dtype.kind not in "fiub":
        raise InvalidModelError("text cannot be converted to %s" % dtype.name)
    return elementwise("from_text", [lift(x)], dtype, {"dtype": dtype})
