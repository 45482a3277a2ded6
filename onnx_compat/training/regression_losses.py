"""Losses of values: distances, margins and counts. Most are a mean over the last axis, for each example."""

import math
from typing import Any

from onnx_compat import primitives as p
from onnx_compat.tracing.values import Tensor
from onnx_compat.training.loss_inputs import EPSILON, align, softplus


def mean_squared_error(labels: Tensor, predictions: Tensor) -> Tensor:
    """Return the mean of (label - prediction)^2."""
    labels, predictions = align(labels, predictions)
    error = p.sub(labels, predictions)
    return p.reduce_mean(p.mul(error, error), [-1])


def mean_absolute_error(labels: Tensor, predictions: Tensor) -> Tensor:
    """Return the mean of |label - prediction|."""
    labels, predictions = align(labels, predictions)
    return p.reduce_mean(p.abs(p.sub(labels, predictions)), [-1])


def mean_absolute_percentage_error(labels: Tensor, predictions: Tensor) -> Tensor:
    """Return 100 times the mean of |label - prediction| / max(|label|, 1e-7)."""
    labels, predictions = align(labels, predictions)
    ratio = p.div(p.sub(labels, predictions), p.maximum(p.abs(labels), EPSILON))
    return p.mul(p.reduce_mean(p.abs(ratio), [-1]), 100)


def mean_squared_logarithmic_error(labels: Tensor, predictions: Tensor) -> Tensor:
    """Return the mean of (log(1 + label) - log(1 + prediction))^2. Values below 1e-7 count as 1e-7."""
    labels, predictions = align(labels, predictions)
    logs: Any = [p.log(p.add(p.maximum(x, EPSILON), 1)) for x in (predictions, labels)]
    error = p.sub(*logs)
    return p.reduce_mean(p.mul(error, error), [-1])


def normalize(x: Any, axis: int) -> Any:
    """Return x divided by its Euclidean norm along an axis. A norm below 1e-7 counts as the constant 1e-7."""
    square = p.reduce_sum(p.mul(x, x), [axis], keepdims=True)
    is_long = p.greater(square, EPSILON**2)
    return p.mul(x, p.where(is_long, p.div(1, p.sqrt(p.where(is_long, square, 1))), 1 / EPSILON))


def cosine_similarity(labels: Tensor, predictions: Tensor, *, axis: int = -1) -> Tensor:
    """Return minus the cosine of the angle between labels and predictions along `axis`; 0 for a vector of zeros."""
    labels, predictions = align(labels, predictions)
    return p.neg(p.reduce_sum(p.mul(normalize(labels, axis), normalize(predictions, axis)), [axis]))


def huber(labels: Tensor, predictions: Tensor, *, delta: float = 1.0) -> Tensor:
    """Return the mean of e^2 / 2 where |e| <= delta, else of delta * |e| - delta^2 / 2. e is prediction - label."""
    labels, predictions = align(labels, predictions)
    error = p.sub(predictions, labels)
    size = p.abs(error)
    is_small = p.less_equal(size, delta)
    return p.reduce_mean(p.where(is_small, p.mul(error, error) * 0.5, size * delta - 0.5 * delta**2), [-1])


def log_cosh(labels: Tensor, predictions: Tensor) -> Tensor:
    """Return the mean of log(cosh(prediction - label))."""
    labels, predictions = align(labels, predictions)
    error: Any = p.sub(predictions, labels)
    return p.reduce_mean(error + softplus(error * -2) - math.log(2), [-1])


def poisson(labels: Tensor, predictions: Tensor) -> Tensor:
    """Return the mean of prediction - label * log(prediction + 1e-7)."""
    labels, predictions = align(labels, predictions)
    return p.reduce_mean(predictions - labels * p.log(predictions + EPSILON), [-1])


def _convert_to_signs(labels: Tensor) -> Any:
    """Return labels of 0 and 1 as -1 and 1. If any label has another value, the labels are returned unchanged."""
    is_binary = p.reduce_min(p.logical_or(p.equal(labels, 0), p.equal(labels, 1)))
    return p.where(is_binary, labels * 2 - 1, labels)


def hinge(labels: Tensor, predictions: Tensor) -> Tensor:
    """Return the mean of max(1 - label * prediction, 0). Labels are -1 and 1; labels of 0 and 1 are converted."""
    labels, predictions = align(labels, predictions)
    return p.reduce_mean(p.maximum(1 - _convert_to_signs(labels) * predictions, 0), [-1])


def squared_hinge(labels: Tensor, predictions: Tensor) -> Tensor:
    """Return the mean of max(1 - label * prediction, 0)^2. Labels are -1 and 1; labels of 0 and 1 are converted."""
    labels, predictions = align(labels, predictions)
    margin = p.maximum(1 - _convert_to_signs(labels) * predictions, 0)
    return p.reduce_mean(p.mul(margin, margin), [-1])


def categorical_hinge(labels: Tensor, predictions: Tensor) -> Tensor:
    """Return max(1 + largest prediction of another class - prediction of the label's class, 0).

    Labels are one-hot along the last axis. The largest prediction is that of (1 - label) * prediction, so it is at
    least 0 for one-hot labels.
    """
    labels, predictions = align(labels, predictions)
    right = p.reduce_sum(p.mul(labels, predictions), [-1])
    wrong = p.reduce_max((1 - labels) * predictions, [-1])
    return p.maximum(p.sub(wrong, right) + 1, 0)
