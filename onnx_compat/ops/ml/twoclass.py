"""Tree ensembles for two classes, by the rules of onnxruntime, which the specification leaves open.

Usually there is one score, listed under the first class, that decides for the second class. The boundary is 1/2 if all
weights are probabilities, and 0 if some are negative. A row may also reach leaves with weights for both classes, or for
neither.
"""

from typing import Tuple, Union

import numpy as np

from onnx_compat import primitives as p
from onnx_compat.ir.dtypes import DType
from onnx_compat.ops.ml.common import apply_post_transform, expand_to_two_scores
from onnx_compat.ops.ml.forest import Forest
from onnx_compat.ops.ml.leaves import Weights, aggregate, has_weight, is_always_weighted
from onnx_compat.tracing.values import Tensor

__all__ = ["classify_two"]

_Presence = Union[bool, Tensor]


def classify_two(
    positions: Tensor, forest: Forest, weights: Weights, base: np.ndarray, name: str, dtype: DType
) -> Tuple[Tensor, Tensor]:
    """Return (whether each row belongs to the second class, scores [rows, 2] after the post_transform `name`).

    The first result is a bool vector. The score of the second class decides if the row reaches a weight for that
    class, else the score of the first. A row belongs to the second class if this score, before the post_transform,
    exceeds a bound. The bound is 1/2 if all weights are 0 or more and belong to one class, else 0.

    - positions: the leaf of each row in each tree, [rows, trees].
    - base: the base values: none, one or two.
    - dtype: the dtype of the scores.

    Raises InvalidModelError for an unknown post_transform.
    """
    sums = aggregate(positions, forest, weights, "SUM", dtype)
    first, second = p.slice_axis(sums, 1, 0, 1), p.slice_axis(sums, 1, 1, 2)
    has_first, has_second = (
        _class_presence(positions, forest, weights, 0),
        _class_presence(positions, forest, weights, 1),
    )
    has_one_class = len(set(weights.target.tolist())) == 1
    are_probabilities = has_one_class and bool((weights.weight >= 0).all())
    if len(base) == 2:
        # The second score is its base value plus the sum listed under the first class; the first score is its negative.
        both = p.add(first, base[1].item())
        second = _where(has_second, both, p.mul(first, 0.0))
        first = _where(has_second, p.neg(both), p.add(first, base[0].item()))
        first = _where(has_first, first, p.mul(first, 0.0))
        scores = apply_post_transform(p.concat([first, second], 1), name)
    else:
        first = _where(has_first, p.add(first, base[0].item()) if len(base) else first, p.mul(first, 0.0))
        # With weights for both classes and one base value, onnxruntime leaves one of the scores unwritten.
        two_scores = apply_post_transform(p.concat([first, second], 1), name)
        scores = _where(has_second, two_scores, expand_to_two_scores(first, name, mixed=not are_probabilities))
    deciding_score = _where(has_second, second, first)
    return p.squeeze(p.greater(deciding_score, 0.5 if are_probabilities else 0.0), [1]), scores


def _class_presence(positions: Tensor, forest: Forest, weights: Weights, target: int) -> _Presence:
    """Return whether any leaf that a row reaches has a weight for class `target`.

    The result is a bool if all leaves of the forest have a weight for the class, or no leaf has. Otherwise it is a bool
    tensor [rows, 1].
    """
    constant = is_always_weighted(forest, weights, target)
    return p.slice_axis(has_weight(positions, forest, weights), 1, target, target + 1) if constant is None else constant


def _where(condition: _Presence, x: Tensor, y: Tensor) -> Tensor:
    if isinstance(condition, bool):
        return x if condition else y
    return p.where(condition, x, y)
