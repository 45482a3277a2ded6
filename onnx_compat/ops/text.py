"""Operators on strings."""

from typing import Any, List, Optional, Sequence

import numpy as np

from onnx_compat import primitives as p
from onnx_compat.errors import InvalidModelError
from onnx_compat.ir.dtypes import string
from onnx_compat.ops.registry import op
from onnx_compat.tracing.values import Tensor, lift


@op("StringNormalizer", since=10)
def string_normalizer(
    X: Tensor,
    *,
    case_change_action: str = "NONE",
    is_case_sensitive: int = 0,
    locale: Optional[str] = None,
    stopwords: Sequence[str] = (),
) -> Tensor:
    """Remove the stop words, then change the case.

    If there are stop words and no word remains, return a single empty string: [""] or [[""]]. X has the shape [words]
    or [1, words], and the result has the same rank. Without stop words, X may have any shape.

    - case_change_action: LOWER, UPPER or NONE.
    - is_case_sensitive: 0 ignores case in the comparison with the stop words.
    - locale: has no effect.

    Raises InvalidModelError for another case_change_action.
    """
    change = {"NONE": lambda x: x, "LOWER": p.string_lower, "UPPER": p.string_upper}.get(case_change_action)
    if change is None:
        raise InvalidModelError("case_change_action is LOWER, UPPER or NONE, not %r" % case_change_action)
    if not stopwords:
        return lift(change(X))
    words = X if X.rank == 1 else p.squeeze(X, [0])
    kept = _indices_without(words, stopwords, bool(is_case_sensitive))
    (result,) = p.cond(
        p.equal(lift(kept.shape[0]), 0),
        lambda: [_string_tensor([""])],
        lambda: [change(p.take(words, kept, 0))],
    )
    return result if X.rank == 1 else p.unsqueeze(result, [0])


@op("StringConcat", since=20)
def string_concat(X: Tensor, Y: Tensor) -> Tensor:
    """Concatenate the strings of X and Y elementwise, with broadcasting as in numpy."""
    return p.string_concat(X, Y)


@op("StringSplit", since=20)
def string_split(X: Tensor, *, delimiter: Optional[str] = None, maxsplit: Optional[int] = None) -> List[Tensor]:
    """Split each string at a delimiter (None or "": white space), at most `maxsplit` times (None: no limit).

    Return two tensors: the substrings along a new last axis, padded with "", and the int64 number of substrings of each
    string. An empty string has one substring with a delimiter, and none at white space.
    """
    return p.string_split(X, delimiter, maxsplit)


@op("RegexFullMatch", since=20)
def regex_full_match(X: Tensor, *, pattern: Optional[str] = None) -> Tensor:
    """Return whether the pattern (of RE2) matches each whole string. An absent pattern matches only empty strings."""
    return p.string_match(X, pattern or "")


def _indices_without(words: Tensor, stopwords: Sequence[str], sensitive: bool) -> Tensor:
    """Return the indices of the words that are not stop words, as a vector. `words` is a vector.

    Unless `sensitive`, the comparison ignores case.
    """
    compared = words if sensitive else p.string_lower(words)
    stopword_tensor = _string_tensor([word if sensitive else word.lower() for word in stopwords])
    is_stopword: Any = p.equal(p.unsqueeze(compared, [1]), stopword_tensor)
    return p.squeeze(p.nonzero(p.logical_not(p.reduce_max(is_stopword, [1]))), [0])


def _string_tensor(texts: List[str]) -> Tensor:
    return lift(np.asarray(texts, object), string)
