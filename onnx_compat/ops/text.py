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
    """Without the stop words, then in one case. Of nothing but stop words, a single empty string is left."""
    change = {"NONE": lambda x: x, "LOWER": p.string_lower, "UPPER": p.string_upper}.get(case_change_action)
    if change is None:
        raise InvalidModelError("case_change_action is LOWER, UPPER or NONE, not %r" % case_change_action)
    if not stopwords:
        return lift(change(X))
    words = X if X.rank == 1 else p.squeeze(X, [0])
    kept = _indices_without(words, stopwords, bool(is_case_sensitive))
    (left,) = p.cond(
        p.equal(lift(kept.shape[0]), 0),
        lambda: [_string_tensor([""])],
        lambda: [change(p.take(words, kept, 0))],
    )
    return left if X.rank == 1 else p.unsqueeze(left, [0])


@op("StringConcat", since=20)
def string_concat(X: Tensor, Y: Tensor) -> Tensor:
    return p.string_concat(X, Y)


@op("StringSplit", since=20)
def string_split(X: Tensor, *, delimiter: Optional[str] = None, maxsplit: Optional[int] = None) -> List[Tensor]:
    return p.string_split(X, delimiter, maxsplit)


@op("RegexFullMatch", since=20)
def regex_full_match(X: Tensor, *, pattern: Optional[str] = None) -> Tensor:
    """Without a pattern, that of the empty text."""
    return p.string_match(X, pattern or "")


def _indices_without(words: Tensor, stopwords: Sequence[str], sensitive: bool) -> Tensor:
    """The places of the words that are no stop words."""
    seen = words if sensitive else p.string_lower(words)
    unwanted = _string_tensor([word if sensitive else word.lower() for word in stopwords])
    stopped: Any = p.equal(p.unsqueeze(seen, [1]), unwanted)
    return p.squeeze(p.nonzero(p.logical_not(p.reduce_max(stopped, [1]))), [0])


def _string_tensor(texts: List[str]) -> Tensor:
    return lift(np.asarray(texts, object), string)
