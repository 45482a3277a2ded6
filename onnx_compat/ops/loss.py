"""Losses of classification: NegativeLogLikelihoodLoss and SoftmaxCrossEntropyLoss."""

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
    """Return the negative log-likelihood of the target classes: -log-probability * weight of the class.

    - input: log-probabilities [N, C, ...].
    - target: class indices [N, ...]. A target equal to `ignore_index` has the loss 0, and the weight 0 in the mean.
    - weight: a number for each class; by default 1.
    - reduction: "none" gives the losses [N, ...], "sum" their sum, "mean" their sum divided by the sum of the targets'
      weights. If all targets are ignored, the mean is NaN.

    Raises InvalidModelError for another `reduction`, and for a known target that is out of range.
    """
    classes = p.cast(target, int64)
    is_counted: Any = p.full(target.shape, True, p.equal(classes, 0).dtype)
    if ignore_index is not None:
        is_counted = p.logical_not(p.equal(classes, ignore_index))
        classes = p.where(is_counted, classes, 0)
    log_probabilities = p.squeeze(p.take_along(input, p.unsqueeze(classes, [1]), 1), [1])
    weights = p.cast(is_counted, input.dtype)
    if weight is not None:
        weights = p.mul(weights, p.take(weight, classes, 0))
    loss = p.neg(p.mul(p.where(is_counted, log_probabilities, 0), weights))
    if reduction == "none":
        return loss
    total = p.reduce_sum(loss)
    if reduction == "sum":
        return total
    if reduction != "mean":
        raise InvalidModelError("a loss is reduced by none, sum or mean, not %r" % reduction)
    return p.div(total, p.reduce_sum(weights))


@op("SoftmaxCrossEntropyLoss", since=(12, 13))
def softmax_cross_entropy(
    scores: Tensor,
    labels: Tensor,
    weights: Optional[Tensor] = None,
    *,
    ignore_index: Optional[int] = None,
    reduction: str = "mean",
) -> Tuple[Tensor, Tensor]:
    """Return (negative log-likelihood of the labels under the softmax of the scores, log-softmax of the scores).

    The softmax is along axis 1.

    - labels: class indices [N, ...]. A label equal to `ignore_index` has the loss 0, and the weight 0 in the mean.
    - weights: a number for each class; by default 1.
    - reduction: "none" gives the losses [N, ...], "sum" their sum, "mean" their sum divided by the sum of the
      labels' weights.

    Raises InvalidModelError for another `reduction`, and for a known label that is out of range.
    """
    log_prob = p.log_softmax(scores, 1)
    loss = negative_log_likelihood(log_prob, labels, weights, ignore_index=ignore_index, reduction=reduction)
    return loss, log_prob
