"""Helpers of the operators of ai.onnx.ml: rows of features, class labels, transforms of scores.

Where the specification is silent, above all on two classes with one score, the result is that of onnxruntime.
"""

import math
from typing import Any, Optional, Sequence

import numpy as np

from onnx_compat import primitives as p
from onnx_compat.errors import InvalidModelError
from onnx_compat.ir.dtypes import DType, float32, int64, string
from onnx_compat.tracing.values import Tensor, lift

__all__ = [
    "DOMAIN",
    "apply_post_transform",
    "as_rows",
    "expand_to_two_scores",
    "label_tensor",
    "select_label",
    "transform_single_score",
    "transform_target_scores",
]

DOMAIN = "ai.onnx.ml"
POST_TRANSFORMS = ("NONE", "SOFTMAX", "LOGISTIC", "SOFTMAX_ZERO", "PROBIT")


def as_rows(x: Tensor, dtype: DType = float32) -> Tensor:
    """Return x as a matrix [rows, features] in this dtype. A vector is one row.

    Raises InvalidModelError for a scalar and for a higher rank.
    """
    x = p.cast(x, dtype)
    if x.rank == 1:
        return p.reshape(x, (1, x.shape[0]))
    if x.rank != 2:
        raise InvalidModelError("rows of features are a tensor of rank 2 (or 1), not %d" % x.rank)
    return x


def label_tensor(ints: Optional[Sequence[int]], strings: Optional[Sequence[str]]) -> Optional[Tensor]:
    """Return the class labels as a vector: strings if `strings` has any, else int64 integers.

    Return None if both lists are empty or None.
    """
    if strings:
        return lift(np.asarray(list(strings), object), string)
    return lift(np.asarray(ints, np.int64), int64) if ints else None


def select_label(labels: Optional[Tensor], condition: Tensor, positive: Any, negative: Any) -> Tensor:
    """Return, for each row, the label `positive` where the condition holds, else the label `negative`.

    The result has the dtype of `labels`, or int64 if `labels` is None.
    """
    dtype = int64 if labels is None else labels.dtype
    return p.where(condition, lift(positive, dtype), lift(negative, dtype))


def apply_post_transform(scores: Tensor, name: str) -> Tensor:
    """Apply a post_transform to scores; SOFTMAX and SOFTMAX_ZERO act along the last axis, the others on each score.

    NONE returns the scores unchanged. Raises InvalidModelError for a name that is not in POST_TRANSFORMS.
    """
    if name not in POST_TRANSFORMS:
        raise InvalidModelError("post_transform is one of %s, not %r" % (", ".join(POST_TRANSFORMS), name))
    if name == "NONE":
        return scores
    if name == "LOGISTIC":
        return p.sigmoid(scores)
    if name == "SOFTMAX":
        return p.softmax(scores, -1)
    return _softmax_zero(scores) if name == "SOFTMAX_ZERO" else _probit(scores)


def _softmax_zero(scores: Tensor) -> Tensor:
    """Return the softmax over those scores of a row whose absolute value exceeds 1e-7.

    A score x with an absolute value of at most 1e-7 becomes, as in onnxruntime:

    - If another score of the row exceeds 1e-7 (absolute): x * exp(-max) / sum, so that 0 stays 0. max is the maximum
      of the row, and sum the sum of exp(score - max) over the scores above 1e-7 (absolute).
    - Otherwise: NaN for 0, and an infinity for any other x.
    """
    largest = p.reduce_max(scores, [-1], True)
    is_nonzero = p.greater(p.abs(scores), 1e-7)
    powers = p.exp(p.sub(scores, largest))
    total = p.reduce_sum(p.where(is_nonzero, powers, 0.0), [-1], True)
    return p.div(p.where(is_nonzero, powers, p.mul(scores, p.exp(p.neg(largest)))), total)


def _probit(x: Tensor) -> Tensor:
    """Return sqrt(2) * erfinv(2x - 1) by Winitzki's approximation, as onnxruntime does. It is meant for 0 < x < 1."""
    y = p.sub(p.mul(x, 2.0), 1.0)
    log = p.log(p.mul(p.sub(1.0, y), p.add(y, 1.0)))
    half = p.add(p.mul(log, 0.5), 2 / (math.pi * 0.147))
    inner = p.sqrt(p.sub(p.mul(half, half), p.mul(log, 1 / 0.147)))
    root = p.mul(p.sqrt(p.sub(inner, half)), math.sqrt(2))
    return p.where(p.less(y, 0.0), p.neg(root), root)


def expand_to_two_scores(score: Tensor, name: str, mixed: bool) -> Tensor:
    """Return the scores of both classes, [rows, 2], from `score`, the score of the second class, [rows, 1].

    `name` is the post_transform:

    - LOGISTIC: sigmoid(-score), sigmoid(score)
    - PROBIT: probit(1 - score), probit(score)
    - any other name: -score if `mixed`, else 1 - score; then score
    """
    if name == "LOGISTIC":
        return p.concat([p.sigmoid(p.neg(score)), p.sigmoid(score)], 1)
    if name == "PROBIT":  # onnxruntime leaves the first score unwritten; here it is 1 - score
        return _probit(p.concat([p.sub(1.0, score), score], 1))
    return p.concat([p.neg(score) if mixed else p.sub(1.0, score), score], 1)


def transform_single_score(score: Tensor, name: str) -> Tensor:
    """Return the only score of each row after the post_transform `name`. As in onnxruntime, only PROBIT changes it."""
    return _probit(score) if name == "PROBIT" else score


def transform_target_scores(scores: Tensor, targets: int, name: str) -> Tensor:
    """Return the scores of a regression after the post_transform `name`; `targets` is the number of targets.

    With a single target, only PROBIT has an effect. With several targets, raises InvalidModelError for an unknown name.
    """
    return transform_single_score(scores, name) if targets == 1 else apply_post_transform(scores, name)
