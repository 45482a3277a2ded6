"""Losses of a classification."""

from typing import Any, Optional, Tuple

from onnx_compat import primitives as p
from onnx_compat.errors import InvalidModelError
from onnx_compat.ir.dtypes import int64
from onnx_compat.ops.registry import op
from onnx_compat.tracing.values import Tensor


@op("NegativeLogLikelihoodLoss", since=(12, 13, 22))
def negative_log_likelihood(
    input: Tensor,
    target: Tensor,
    weight: Optional[Tensor] = None,
    *,
    ignore_index: Optional[int] = None,
    reduction: str = "mean",
) -> Tensor:
    """Minus the entry of each target's class, times the class's weight; a mean is over the weights that count."""
    classes = p.cast(target, int64)
    counts: Any = p.full(target.shape, True, p.equal(classes, 0).dtype)
    if ignore_index is not None:
        counts = p.logical_not(p.equal(classes, ignore_index))
        classes = p.where(counts, classes, 0)
    chosen = p.squeeze(p.take_along(input, p.unsqueeze(classes, [1]), 1), [1])
    share = p.cast(counts, input.dtype)
    if weight is not None:
        share = p.mul(share, p.take(weight, classes, 0))
    loss = p.neg(p.mul(p.where(counts, chosen, 0), share))
    if reduction == "none":
        return loss
    total = p.reduce_sum(loss)
    if reduction == "sum":
        return total
    if reduction != "mean":
        raise InvalidModelError("a loss is reduced by none, sum or mean, not %r" % reduction)
    return p.div(total, p.reduce_sum(share))


@op("SoftmaxCrossEntropyLoss", since=(12, 13))
def softmax_cross_entropy(
    scores: Tensor,
    labels: Tensor,
    weights: Optional[Tensor] = None,
    *,
    ignore_index: Optional[int] = None,
    reduction: str = "mean",
) -> Tuple[Tensor, Tensor]:
    log_prob = p.log_softmax(scores, 1)
    loss = negative_log_likelihood(log_prob, labels, weights, ignore_index=ignore_index, reduction=reduction)
    return loss, log_prob
