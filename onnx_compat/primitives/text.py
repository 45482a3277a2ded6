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
    """The text of x followed by the text of y."""
    return elementwise("string_concat", list(lift_pair("string_concat", x, y)), string)


@primitive("s")
def string_match(x: TensorLike, pattern: str) -> Tensor:
    """Whether the whole text matches a regular expression in RE2's syntax."""
    return elementwise("string_match", [lift(x)], bool_, {"pattern": pattern})


@primitive("s")
def string_split(x: TensorLike, delimiter: Optional[str] = None, limit: Optional[int] = None) -> List[Tensor]:
    """The pieces of each text between delimiters along a new last axis, and the int64 number of pieces of each text.

    Without a delimiter (or with an empty one), ASCII white space at both ends is removed, and runs of it separate pieces. A text is split at most `limit` times. The new axis has the length of the largest number of pieces;
    shorter rows are filled with empty strings. An empty text has one piece with a delimiter, and none without.
    """
    x = lift(x)
    params = {"delimiter": delimiter or None, "limit": limit}
    folded = fold("string_split", [x], [string, int64], **params)
    if folded is not None:
        return list(folded)
    return apply_primitive("string_split", [current_trace().argument(x)], params, [None, None])


@primitive("s")
def string_rank(x: TensorLike) -> Tensor:
    """The int64 rank, from zero on, of each text among the distinct texts in the order of their code points."""
    x = lift(x)
    folded = fold("string_rank", [x], [int64])
    if folded is not None:
        return folded[0]
    return apply_primitive("string_rank", [current_trace().argument(x)], {})[0]


@primitive("fiub")
def to_text(x: TensorLike) -> Tensor:
    """Numbers as numpy prints them: integers in decimal, `True`, `False`, `1e-05`, `nan`, `-inf`. A float has the fewest
    digits that read back as the same number of its type (for a carried type, of its carrier).
    """
    x = lift(x)
    return elementwise("to_text", [x], string, {"dtype": x.dtype})


@primitive("s")
def from_text(x: TensorLike, dtype: DType) -> Tensor:
    """Numbers in plain or scientific notation, `NaN`, `INF`, `+INF`, `-INF` in any case. For an integer dtype, the text of
    a float is truncated. Another text is an error of the model.
    """
    if dtype.kind not in "fiub":
        raise InvalidModelError("text cannot be converted to %s" % dtype.name)
    return elementwise("from_text", [lift(x)], dtype, {"dtype": dtype})
