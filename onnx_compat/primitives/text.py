"""Primitives on strings."""

from typing import Any, List, Optional

from onnx_compat.errors import InvalidModelError
from onnx_compat.ir.dtypes import DType, bool_, int64, string
from onnx_compat.primitives.base import apply_primitive, fold, primitive
from onnx_compat.primitives.elementwise import elementwise, paired
from onnx_compat.tracing.trace import current_trace
from onnx_compat.tracing.values import Tensor, lift


@primitive("s")
def string_lower(x: Any) -> Tensor:
    """Every letter in lower case, by Unicode's rules."""
    return elementwise("string_lower", [lift(x)], string)


@primitive("s")
def string_upper(x: Any) -> Tensor:
    """Every letter in upper case, by Unicode's rules."""
    return elementwise("string_upper", [lift(x)], string)


@primitive("s")
def string_concat(x: Any, y: Any) -> Tensor:
    """The text of y behind that of x."""
    return elementwise("string_concat", list(paired("string_concat", x, y)), string)


@primitive("s")
def string_match(x: Any, pattern: str) -> Tensor:
    """Whether the whole text matches a regular expression in RE2's syntax."""
    return elementwise("string_match", [lift(x)], bool_, {"pattern": pattern})


@primitive("s")
def string_split(x: Any, delimiter: Optional[str] = None, limit: Optional[int] = None) -> List[Tensor]:
    """The pieces of each text between the delimiters (without one, or of the empty one: between runs of ASCII's white
    space, with nothing before the first and behind the last), cut at most `limit` times: along a new last axis as long
    as the most pieces, filled up with empty strings. And the int64 count of each: of the empty text, one piece, but
    none of white space.
    """
    x = lift(x)
    params = {"delimiter": delimiter or None, "limit": limit}
    folded = fold("string_split", [x], [string, int64], **params)
    if folded is not None:
        return list(folded)
    return apply_primitive("string_split", [current_trace().argument(x)], params, [None, None])


@primitive("s")
def string_rank(x: Any) -> Tensor:
    """The place of each text among the different ones there are, ordered by their code points: int64 from zero on."""
    x = lift(x)
    folded = fold("string_rank", [x], [int64])
    if folded is not None:
        return folded[0]
    return apply_primitive("string_rank", [current_trace().argument(x)], {})[0]


@primitive("fiub")
def to_text(x: Any) -> Tensor:
    """Numbers as Python and numpy write them: of a float the fewest digits that read back as the same number of its
    type (of a carried type, of its carrier), `1e-05`, `nan`, `-inf`; integers in decimal; `True`, `False`.
    """
    x = lift(x)
    return elementwise("to_text", [x], string, {"dtype": x.dtype})


@primitive("s")
def from_text(x: Any, dtype: DType) -> Tensor:
    """Numbers in plain or scientific notation, `NaN`, `INF`, `+INF`, `-INF` in any case; an integer also from the text
    of a float, which is cut off. Anything else is the model's error.
    """
    if dtype.kind not in "fiub":
        raise InvalidModelError("no %s is read from text" % dtype.name)
    return elementwise("from_text", [lift(x)], dtype, {"dtype": dtype})
