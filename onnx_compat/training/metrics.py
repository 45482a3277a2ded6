"""Metrics by name: the mean of a value for each example, over a batch.

A metric is a function `f(labels, predictions, **options)` over primitives that returns a value for each example. Names,
options and results are those of Keras 3. Every loss is a metric too.
"""

from typing import Any, Callable, Dict, Union

from onnx_compat import primitives as p
from onnx_compat.errors import InputError
from onnx_compat.ir.dims import is_equal, is_static
from onnx_compat.ir.dtypes import float32, int64
from onnx_compat.tracing.values import Tensor, lift
from onnx_compat.training import regression_losses
from onnx_compat.training.loss_inputs import align, check_predictions, class_indices
from onnx_compat.training.losses import ALIASES as LOSS_ALIASES
from onnx_compat.training.losses import LOSSES, example_counts, mean, weigh
from onnx_compat.training.names import check_options, find, keyword_defaults

__all__ = ["METRICS", "MetricFunction", "metric_function", "scalar_metric"]

MetricFunction = Callable[..., Tensor]


def binary_accuracy(labels: Tensor, predictions: Tensor, *, threshold: float = 0.5) -> Tensor:
    """Return 1 where a prediction is above the threshold and the label is 1, or neither, else 0."""
    labels, predictions = align(labels, predictions)
    return p.cast(p.equal(p.cast(p.greater(predictions, threshold), labels.dtype), labels), float32)


def categorical_accuracy(labels: Tensor, predictions: Tensor) -> Tensor:
    """Return 1 where the largest prediction is that of the largest label along the last axis, else 0."""
    labels, predictions = align(labels, predictions)
    return p.cast(p.equal(p.argmax(labels, -1), p.argmax(predictions, -1)), float32)


def sparse_categorical_accuracy(labels: Tensor, predictions: Tensor) -> Tensor:
    """Return 1 where the largest prediction along the last axis is that of the label's class, else 0."""
    check_predictions(predictions)
    classes = class_indices(labels, predictions, predictions.rank - 1)
    return p.cast(p.equal(classes, p.argmax(predictions, -1)), float32)


def sparse_top_k_categorical_accuracy(labels: Tensor, predictions: Tensor, *, k: int = 5) -> Tensor:
    """Return 1 where fewer than k predictions are above that of the label's class, else 0.

    The classes are on the last axis. A prediction for the label's class that is not finite, and a label out of range,
    give 0.
    """
    check_predictions(predictions)
    axis = predictions.rank - 1
    classes = class_indices(labels, predictions, axis)
    hot = p.one_hot(classes, predictions.shape[axis], axis)
    own = p.reduce_sum(p.where(hot, predictions, 0), [axis], keepdims=True)
    better_count = p.reduce_sum(p.cast(p.greater(predictions, own), int64), [axis])
    is_valid = p.logical_and(p.reduce_max(hot, [axis]), p.less(p.squeeze(p.abs(own), [axis]), float("inf")))
    return p.cast(p.logical_and(p.less(better_count, k), is_valid), float32)


def top_k_categorical_accuracy(labels: Tensor, predictions: Tensor, *, k: int = 5) -> Tensor:
    """Return 1 where fewer than k predictions are above that of the largest label's class, else 0."""
    labels, predictions = align(labels, predictions)
    return sparse_top_k_categorical_accuracy(p.argmax(labels, -1), predictions, k=k)


def accuracy(labels: Tensor, predictions: Tensor) -> Tensor:
    """Return the binary, the categorical or the sparse categorical accuracy, as the shapes require it.

    - A last axis of the predictions of length 1: binary.
    - Labels without the last axis of the predictions, or with length 1 there: sparse categorical.
    - Others: categorical.
    """
    check_predictions(predictions)
    if is_equal(predictions.shape[-1], 1):
        return binary_accuracy(labels, predictions)
    if labels.rank < predictions.rank or is_equal(labels.shape[-1], 1):
        return sparse_categorical_accuracy(labels, predictions)
    return categorical_accuracy(labels, predictions)


def root_mean_squared_error(labels: Tensor, predictions: Tensor) -> Tensor:
    """Return the mean of (label - prediction)^2. `scalar_metric` takes the root of the mean over the batch."""
    return regression_losses.mean_squared_error(labels, predictions)


def cosine_similarity(labels: Tensor, predictions: Tensor, *, axis: int = -1) -> Tensor:
    """Return the cosine of the angle between labels and predictions along `axis`: minus the loss of this name."""
    return p.neg(regression_losses.cosine_similarity(labels, predictions, axis=axis))


_FUNCTIONS = [
    accuracy,
    binary_accuracy,
    categorical_accuracy,
    cosine_similarity,
    root_mean_squared_error,
    sparse_categorical_accuracy,
    sparse_top_k_categorical_accuracy,
    top_k_categorical_accuracy,
]

#: Name -> metric. `metric_function` takes other spellings too.
METRICS: Dict[str, MetricFunction] = {**LOSSES, **{function.__name__: function for function in _FUNCTIONS}}

#: Short name in lower case -> name.
ALIASES = {**LOSS_ALIASES, "acc": "accuracy", "rmse": "root_mean_squared_error"}


def metric_function(name: str) -> MetricFunction:
    """Return a metric by its name in any spelling: sparse_categorical_accuracy, SparseCategoricalAccuracy, acc.

    Raises InputError for another name.
    """
    return find("metric", name, METRICS, ALIASES)


def scalar_metric(
    metric: Union[str, MetricFunction],
    labels: Tensor,
    predictions: Tensor,
    sample_weight: Any = None,
    **options: Any,
) -> Tensor:
    """Return a metric of a batch: a scalar, float64 for float64 predictions of a loss, else float32.

    - metric: a name that `metric_function` takes, or a function (labels, predictions, **options) over primitives.
    - sample_weight: a factor for each value; the mean is divided by the sum of the factors. None: 1.
    - options: the options of the metric.

    The mean of no values is 0. Raises InputError for an unknown metric or option, for a `k` that is no positive int,
    and for labels or weights that do not fit.
    """
    function = metric_function(metric) if isinstance(metric, str) else metric
    if function in METRICS.values():
        check_options("the metric '%s'" % function.__name__, options, keyword_defaults(function))
    if "k" in options and not (is_static(options["k"]) and options["k"] > 0):
        raise InputError("k must be a positive int, not %r" % (options["k"],))
    if predictions.dtype.kind == "f" and predictions.dtype.name != "float64":
        predictions = p.cast(predictions, float32)
    values = function(labels, predictions, **options)
    counts = example_counts(function, labels, predictions, values, options)
    if sample_weight is not None:
        counts = weigh(p.full(values.shape, 1, values.dtype) if counts is None else counts, sample_weight)[0]
        values = weigh(values, sample_weight)[0]
    average = mean(values, counts)
    return p.sqrt(average) if function is root_mean_squared_error else average
