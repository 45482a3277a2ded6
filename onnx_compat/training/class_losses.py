"""Losses of classes: cross-entropies of probabilities or logits, with labels as probabilities or as class indices."""

from typing import Any, Optional

from onnx_compat import primitives as p
from onnx_compat.ir.dtypes import int64
from onnx_compat.tracing.values import Tensor, lift
from onnx_compat.training.loss_inputs import (
    EPSILON,
    align,
    check_predictions,
    class_indices,
    select_class,
    smooth,
    softplus,
)
from onnx_compat.training.names import number


def _log_probabilities(predictions: Any, from_logits: bool, axis: int) -> Any:
    """Return the log-probabilities of the classes along `axis`.

    With `from_logits`, they are the log-softmax. Else the predictions are probabilities, divided by their sum and clipped
    to [1e-7, 1 - 1e-7].
    """
    if from_logits:
        return p.log_softmax(predictions, axis)
    total = p.reduce_sum(predictions, [axis], keepdims=True)
    return p.log(p.clip(p.div(predictions, total), EPSILON, 1 - EPSILON))


def _class_count(labels: Any, axis: int) -> Any:
    """Return the number of classes as a Tensor of the labels' dtype."""
    return p.cast(lift(labels.shape[axis], int64), labels.dtype)


def categorical_crossentropy(
    labels: Tensor, predictions: Tensor, *, from_logits: bool = False, label_smoothing: float = 0.0, axis: int = -1
) -> Tensor:
    """Return -sum(label * log(prediction)) along `axis`. Labels are probabilities of the classes, such as one-hot.

    - from_logits: the predictions are logits, of which the softmax is taken. By default they are probabilities: they
      are divided by their sum, and clipped to [1e-7, 1 - 1e-7].
    - label_smoothing: labels become label * (1 - label_smoothing) + label_smoothing / number of classes.
    """
    labels, predictions = align(labels, predictions)
    labels = smooth(labels, label_smoothing, _class_count(labels, -1))
    return p.neg(p.reduce_sum(p.mul(labels, _log_probabilities(predictions, from_logits, axis)), [axis]))


def categorical_focal_crossentropy(
    labels: Tensor,
    predictions: Tensor,
    *,
    alpha: float = 0.25,
    gamma: float = 2.0,
    from_logits: bool = False,
    label_smoothing: float = 0.0,
    axis: int = -1,
) -> Tensor:
    """Return -sum(alpha * (1 - prediction)^gamma * label * log(prediction)) along `axis`.

    `from_logits`, `label_smoothing` and `axis` are those of `categorical_crossentropy`.
    """
    labels, predictions = align(labels, predictions)
    labels = smooth(labels, label_smoothing, _class_count(labels, -1))
    if from_logits:
        predictions = p.softmax(predictions, axis)
    total = p.reduce_sum(predictions, [axis], keepdims=True)
    probabilities: Any = p.clip(p.div(predictions, total), EPSILON, 1 - EPSILON)
    factor = p.pow(1 - probabilities, gamma) * alpha
    return p.neg(p.reduce_sum(factor * labels * p.log(probabilities), [axis]))


def is_valid_class(classes: Any, ignore_class: Optional[int]) -> Any:
    """Return whether each class index counts: whether it differs from `ignore_class`. None: each counts."""
    if ignore_class is None:
        return p.full(classes.shape, True, p.equal(classes, 0).dtype)
    return p.not_equal(classes, ignore_class)


def sparse_categorical_crossentropy(
    labels: Tensor,
    predictions: Tensor,
    *,
    from_logits: bool = False,
    ignore_class: Optional[int] = None,
    axis: int = -1,
) -> Tensor:
    """Return minus the log-probability of the label's class. Labels are class indices.

    - from_logits, axis: those of `categorical_crossentropy`. Labels have the shape of the predictions without the class
      axis, or with length 1 there.
    - ignore_class: labels of this class have the loss 0, and do not count in a mean.

    A label out of range gives NaN.
    """
    check_predictions(predictions)
    axis = p.axis_of(axis, predictions.rank)
    classes = class_indices(labels, predictions, axis)
    log_probabilities = _log_probabilities(predictions, from_logits, axis)
    if ignore_class is None:
        return p.neg(select_class(log_probabilities, classes, axis))
    is_counted = is_valid_class(classes, ignore_class)
    loss = p.neg(select_class(log_probabilities, p.where(is_counted, classes, 0), axis))
    return p.where(is_counted, loss, 0)


def _binary_entropy(labels: Any, predictions: Any) -> Any:
    """Return -label * log(p) - (1 - label) * log(1 - p), with p the prediction clipped to [1e-7, 1 - 1e-7]."""
    probabilities: Any = p.clip(predictions, EPSILON, 1 - EPSILON)
    return p.neg(labels * p.log(probabilities) + (1 - labels) * p.log(1 - probabilities))


def binary_crossentropy(
    labels: Tensor, predictions: Tensor, *, from_logits: bool = False, label_smoothing: float = 0.0, axis: int = -1
) -> Tensor:
    """Return the mean of -label * log(prediction) - (1 - label) * log(1 - prediction) over `axis`.

    - from_logits: the predictions are logits, of which the sigmoid is taken. By default they are probabilities, clipped
      to [1e-7, 1 - 1e-7].
    - label_smoothing: labels become label * (1 - label_smoothing) + label_smoothing / 2.
    """
    labels, predictions = align(labels, predictions)
    labels = smooth(labels, label_smoothing, lift(2, labels.dtype))
    if from_logits:
        loss = labels * softplus(p.neg(predictions)) + (1 - labels) * softplus(predictions)
    else:
        loss = _binary_entropy(labels, predictions)
    return p.reduce_mean(loss, [axis])


def binary_focal_crossentropy(
    labels: Tensor,
    predictions: Tensor,
    *,
    apply_class_balancing: bool = False,
    alpha: float = 0.25,
    gamma: float = 2.0,
    from_logits: bool = False,
    label_smoothing: float = 0.0,
    axis: int = -1,
) -> Tensor:
    """Return the mean of (1 - p)^gamma * binary cross-entropy over `axis`. p is the probability given to the label.

    - apply_class_balancing: multiply by alpha for the label 1, and by 1 - alpha for the label 0.
    - from_logits, label_smoothing: those of `binary_crossentropy`.
    """
    labels, predictions = align(labels, predictions)
    labels = smooth(labels, label_smoothing, lift(2, labels.dtype))
    if from_logits:
        predictions = p.sigmoid(predictions)
    likelihood = labels * predictions + (1 - labels) * (1 - predictions)
    loss = p.pow(1 - likelihood, gamma) * _binary_entropy(labels, predictions)
    if apply_class_balancing:
        loss = loss * (labels * alpha + (1 - labels) * (1 - alpha))
    return p.reduce_mean(loss, [axis])


def kl_divergence(labels: Tensor, predictions: Tensor) -> Tensor:
    """Return sum(label * log(label / prediction)) over the last axis. Both are probabilities, clipped to [1e-7, 1]."""
    clipped: Any = [p.clip(x, EPSILON, 1) for x in align(labels, predictions)]
    return p.reduce_sum(clipped[0] * p.log(clipped[0] / clipped[1]), [-1])


def categorical_generalized_cross_entropy(labels: Tensor, predictions: Tensor, *, q: float = 0.5) -> Tensor:
    """Return (1 - p^q) / q, with p the probability of the label's class, on the last axis. Labels are class indices.

    `q` is between 0 and 1: near 0 it is the cross-entropy, near 1 the absolute error, which bears wrong labels.

    Raises InputError for another `q`.
    """
    number("q", q, "(0, 1)")
    check_predictions(predictions)
    axis = predictions.rank - 1
    return (1 - p.pow(select_class(predictions, class_indices(labels, predictions, axis), axis), q)) / q


def class_weights(labels: Tensor, predictions: Tensor, weights: Any, ignore_index: Optional[int]) -> Any:
    """Return the weight of each label for the two losses of ONNX: that of its class, and 0 if it is ignored.

    The arguments are those of `negative_log_likelihood`.
    """
    classes = class_indices(labels, predictions, 1)
    is_counted = is_valid_class(classes, ignore_index)
    if weights is None:
        return p.cast(is_counted, predictions.dtype)
    table = p.cast(lift(weights), predictions.dtype)
    return p.where(is_counted, p.take(table, p.where(is_counted, classes, 0), 0), 0)


def negative_log_likelihood(
    labels: Tensor, predictions: Tensor, *, weights: Any = None, ignore_index: Optional[int] = None
) -> Tensor:
    """Return the losses of ONNX's NegativeLogLikelihoodLoss: -log-probability * weight of the label's class.

    - predictions: log-probabilities [N, C, ...]; labels: class indices [N, ...].
    - weights: a number for each class, by default 1. A mean is divided by the sum of the labels' weights.
    - ignore_index: labels of this class have the loss 0, and the weight 0 in a mean.

    The meaning of the operator reads each log-probability by its index. Here, the index is compared with every class:
    see `select_class`. A label out of range gives NaN.
    """
    check_predictions(predictions, rank=2)
    classes = class_indices(labels, predictions, 1)
    is_counted = is_valid_class(classes, ignore_index)
    selected = select_class(predictions, p.where(is_counted, classes, 0), 1)
    return p.neg(p.mul(p.where(is_counted, selected, 0), class_weights(labels, predictions, weights, ignore_index)))


def softmax_cross_entropy(
    labels: Tensor, predictions: Tensor, *, weights: Any = None, ignore_index: Optional[int] = None
) -> Tensor:
    """Return the losses of ONNX's SoftmaxCrossEntropyLoss: `negative_log_likelihood` of the log-softmax along axis 1.

    Predictions are logits [N, C, ...]; the other arguments are those of `negative_log_likelihood`.
    """
    check_predictions(predictions, rank=2)
    return negative_log_likelihood(labels, p.log_softmax(predictions, 1), weights=weights, ignore_index=ignore_index)
