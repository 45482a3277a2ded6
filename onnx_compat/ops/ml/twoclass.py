"""Trees that tell two classes apart, by the rules of onnxruntime, which the specification leaves open.

Usual is one score, of the second class, which is above a border or not: one half where all weights say how likely the
class is, zero where some are negative. It is written under the first class. A row may also end in leaves that say
something about both classes, or about neither.
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

_Said = Union[bool, Tensor]


def classify_two(
    at: Tensor, forest: Forest, weights: Weights, base: np.ndarray, name: str, dtype: DType
) -> Tuple[Tensor, Tensor]:
    """Whether it is the second class, and the scores of both."""
    sums = aggregate(at, forest, weights, "SUM", dtype)
    first, second = p.slice_axis(sums, 1, 0, 1), p.slice_axis(sums, 1, 1, 2)
    says_first, says_second = _said(at, forest, weights, 0), _said(at, forest, weights, 1)
    alone = len(set(weights.target.tolist())) == 1
    likely = alone and bool((weights.weight >= 0).all())
    if len(base) == 2:
        # The second class is its base value and what was written under the first; the first is the opposite.
        both = p.add(first, base[1].item())
        second = _where(says_second, both, p.mul(first, 0.0))
        first = _where(says_second, p.neg(both), p.add(first, base[0].item()))
        first = _where(says_first, first, p.mul(first, 0.0))
        scores = apply_post_transform(p.concat([first, second], 1), name)
    else:
        first = _where(says_first, p.add(first, base[0].item()) if len(base) else first, p.mul(first, 0.0))
        # (Of classes that are not alone and one base value, onnxruntime leaves one of the scores unwritten.)
        two = apply_post_transform(p.concat([first, second], 1), name)
        scores = _where(says_second, two, expand_to_two_scores(first, name, mixed=not likely))
    decisive = _where(says_second, second, first)
    return p.squeeze(p.greater(decisive, 0.5 if likely else 0.0), [1]), scores


def _said(at: Tensor, forest: Forest, weights: Weights, target: int) -> _Said:
    """Whether the leaves of a row say something about a class: for every row, for none, or for each row."""
    known = is_always_weighted(forest, weights, target)
    return p.slice_axis(has_weight(at, forest, weights), 1, target, target + 1) if known is None else known


def _where(condition: _Said, x: Tensor, y: Tensor) -> Tensor:
    if isinstance(condition, bool):
        return x if condition else y
    return p.where(condition, x, y)
