"""Prepare the arguments of losses and metrics, and the functions of primitives that several losses use."""

from typing import Any, Optional, Sequence, Tuple

import numpy as np

from onnx_compat import primitives as p
from onnx_compat.errors import InputError
from onnx_compat.ir.dims import is_equal, is_static
from onnx_compat.ir.dtypes import int64
from onnx_compat.tracing.values import Tensor

__all__ = [
    "EPSILON",
    "align",
    "align_ranks",
    "check_predictions",
    "class_indices",
    "log_sum_exp",
    "select_class",
    "smooth",
    "softplus",
]

#: The bound that keeps logarithms and quotients finite. It is `keras.backend.epsilon()`.
EPSILON = 1e-7


def align_ranks(x: Tensor, y: Tensor) -> Tuple[Tensor, Tensor]:
    """Return two tensors of equal rank, if their ranks differ by a last axis of length 1; else the same tensors.

    A vector gets the axis; otherwise the axis is removed: [N] and [N, 1] give [N, 1], [N, T] and [N, T, 1] give [N, T].
    """
    if x.rank == y.rank + 1 and is_equal(x.shape[-1], 1):
        return (x, p.unsqueeze(y, [-1])) if y.rank == 1 else (p.squeeze(x, [-1]), y)
    if y.rank == x.rank + 1 and is_equal(y.shape[-1], 1):
        return (p.unsqueeze(x, [-1]), y) if x.rank == 1 else (x, p.squeeze(y, [-1]))
    return x, y


def check_predictions(predictions: Tensor, rank: int = 1) -> None:
    """Raise InputError if the predictions are no floats, or have fewer than `rank` axes."""
    if predictions.dtype.kind != "f" or predictions.rank < rank:
        raise InputError(
            "predictions are %s, and must be floats of rank %d or more" % (predictions.spec, rank),
            hint="give the loss the model's output of probabilities, logits or values",
        )


def align(labels: Tensor, predictions: Tensor) -> Tuple[Any, Any]:
    """Return (labels, predictions) of one dtype and one shape. The labels are cast to the dtype of the predictions.

    A last axis of length 1 that only one of them has is added or removed. Raises InputError for predictions that are no
    floats, and for other shapes that differ: labels do not broadcast.
    """
    check_predictions(predictions)
    labels, predictions = align_ranks(labels, predictions)
    check_shapes(labels.shape, predictions.shape, "the shape of the predictions")
    return p.cast(labels, predictions.dtype), predictions


def check_shapes(labels: Sequence[Any], expected: Sequence[Any], description: str) -> None:
    """Raise InputError if two shapes differ in rank or in a static size. `description` names `expected` in the error."""
    pairs = zip(labels, expected)
    if len(labels) != len(expected) or any(is_static(a) and is_static(b) and a != b for a, b in pairs):
        raise InputError(
            "labels have the shape %s, and %s is %s" % (list(labels), description, list(expected)),
            hint="give a label for each prediction; classes as indices need a loss whose name begins with 'sparse'",
        )


def class_indices(labels: Tensor, predictions: Tensor, axis: int) -> Any:
    """Return labels that are class indices as int64, in the shape of the predictions without the class axis.

    `axis`: the class axis of the predictions, counted from the front. Labels of the predictions' rank whose class axis
    has length 1 lose this axis. Raises InputError for another shape.
    """
    if labels.rank == predictions.rank and is_equal(labels.shape[axis], 1):
        labels = p.squeeze(labels, [axis])
    expected = predictions.shape[:axis] + predictions.shape[axis + 1 :]
    check_shapes(labels.shape, expected, "the shape of the predictions without the class axis")
    return p.cast(labels, int64)


def select_class(x: Tensor, classes: Tensor, axis: int) -> Any:
    """Return the elements of x at the class indices along `axis`. The axis is removed. NaN for an index out of range.

    A class index is compared with every position, so the derivative needs no scatter.
    """
    hot = p.one_hot(classes, x.shape[axis], axis)
    selected = p.reduce_sum(p.where(hot, x, 0), [axis])
    return p.where(p.reduce_max(hot, [axis]), selected, float("nan"))


def smooth(labels: Any, label_smoothing: float, classes: Any) -> Any:
    """Return labels * (1 - label_smoothing) + label_smoothing / classes. `classes` is a number or a Tensor."""
    return labels * (1.0 - label_smoothing) + p.div(label_smoothing, classes) if label_smoothing else labels


def softplus(x: Any) -> Any:
    """Return log(1 + e^x), without overflow, with a relative error of a few ulps, and with the derivative 1/2 at 0.

    The meaning of Softplus is composed of relu and abs, which both have the derivative 0 at 0.
    """
    e: Any = p.exp(p.where(x > 0, p.neg(x), x))
    return p.where(x > 0, x, 0) + p.atanh(e / (e + 2)) * 2


def log_sum_exp(x: Any, axis: int, mask: Optional[Tensor] = None) -> Any:
    """Return log(sum(e^x)) along an axis over the elements where `mask` is True; -inf if `mask` is False everywhere.

    The derivative with respect to another element is 0. Without a mask, all elements count, and must be finite.
    """
    if mask is None:
        largest = p.reduce_max(x, [axis], keepdims=True)
        return p.log(p.reduce_sum(p.exp(p.sub(x, largest)), [axis])) + p.squeeze(largest, [axis])
    lowest = float(np.finfo(x.dtype.numpy).min)
    largest = p.reduce_max(p.where(mask, x, lowest), [axis], keepdims=True)
    total = p.reduce_sum(p.where(mask, p.exp(p.where(mask, p.sub(x, largest), 0)), 0), [axis])
    is_counted = p.reduce_max(mask, [axis])
    result = p.log(p.where(is_counted, total, 1)) + p.squeeze(largest, [axis])
    return p.where(is_counted, result, -float("inf"))
