"""Class probabilities by pairwise coupling (Wu, Lin and Weng, 2004: the second method)."""

from typing import List, Sequence

import numpy as np

from onnx_compat import primitives as p
from onnx_compat.ir.dtypes import int64
from onnx_compat.tracing.values import Tensor, lift

__all__ = ["couple_probabilities"]

_LEAST = 1e-7


def couple_probabilities(scores: Tensor, a: Sequence[float], b: Sequence[float], classes: int) -> Tensor:
    """Return class probabilities [rows, classes] from decision values of pairs of classes, [rows, pairs].

    The pairs are (0, 1), (0, 2), …, (1, 2), …. `a` and `b` are the parameters of Platt scaling for each pair. The first
    class of a pair has the probability 1 / (1 + e^(a * score + b)). A row is iterated until its error is below 0.005 /
    classes, at most max(100, classes) steps, as in libsvm.
    """
    pairwise = _pairwise_probabilities(scores, a, b, classes)
    matrix = _matrix(pairwise, classes)
    tolerance = 0.005 / classes
    first = p.full((scores.shape[0], classes), 1.0 / classes, scores.dtype)

    def error(estimate: Tensor) -> Tensor:
        q, total = _gradient(matrix, estimate)
        return p.reduce_max(p.abs(p.sub(q, total)), [1], True)

    def has_open_rows(step: Tensor, estimate: Tensor) -> Tensor:
        open_rows = p.reduce_max(p.greater_equal(error(estimate), tolerance))
        return p.logical_and(p.less(step, max(100, classes)), open_rows)

    def body(step: Tensor, estimate: Tensor) -> List[Tensor]:
        next_estimate = p.where(
            p.greater_equal(error(estimate), tolerance), _improve(matrix, estimate, classes), estimate
        )
        return [p.add(step, 1), next_estimate]

    return p.while_loop(has_open_rows, body, [lift(0, int64), first])[1]


def _pairwise_probabilities(scores: Tensor, a: Sequence[float], b: Sequence[float], classes: int) -> Tensor:
    """Return r[i, j], the probability of class i given class i or j, by Platt scaling: [rows, classes, classes].

    - i < j: r[i, j] is sigmoid(-(a * score + b)), clipped to [1e-7, 1 - 1e-7]
    - i > j: r[i, j] is 1 - r[j, i]
    - i = j: r[i, j] is 0
    """
    count = classes * (classes - 1) // 2
    slopes, offsets = (lift(np.asarray(list(parameters)[:count], np.float32)) for parameters in (a, b))
    probabilities = p.sigmoid(p.neg(p.add(p.mul(scores, slopes), offsets)))
    probabilities = p.clip(probabilities, _LEAST, 1 - _LEAST)
    candidates = p.concat(
        [probabilities, p.sub(1.0, probabilities), p.full((scores.shape[0], 1), 0.0, scores.dtype)], 1
    )
    columns = np.full((classes, classes), 2 * count, np.int64)
    above = np.triu_indices(classes, 1)
    columns[above] = np.arange(count)
    columns.T[above] = count + np.arange(count)
    return p.reshape(p.take(candidates, lift(columns.reshape(-1)), 1), (scores.shape[0], classes, classes))


def _matrix(pairwise: Tensor, classes: int) -> Tensor:
    """Return, for each row, the matrix Q of Wu, Lin and Weng: [rows, classes, classes].

    `pairwise` is r, as `_pairwise_probabilities` returns it. Q[i, i] is the sum of r[j, i] ** 2 over j. For i != j,
    Q[i, j] is -r[j, i] * r[i, j].
    """
    transposed = p.transpose(pairwise, [0, 2, 1])
    squares = p.reduce_sum(p.mul(transposed, transposed), [2], True)
    diagonal = lift(np.eye(classes, dtype=bool))
    return p.where(diagonal, squares, p.neg(p.mul(pairwise, transposed)))


def _gradient(matrix: Tensor, estimate: Tensor) -> "tuple[Tensor, Tensor]":
    """Return, for each row, matrix @ estimate [rows, classes], and estimate^T @ matrix @ estimate [rows, 1].

    The first is half the gradient of the second.
    """
    q = p.reduce_sum(p.mul(matrix, p.unsqueeze(estimate, [1])), [2])
    return q, p.reduce_sum(p.mul(q, estimate), [1], True)


def _improve(matrix: Tensor, estimate: Tensor, classes: int) -> Tensor:
    """Return the estimate [rows, classes] after one sweep of coordinate descent.

    For each class in turn, its probability gets the value at which the derivative is 0. The row is then divided by its
    sum.
    """
    q, total = _gradient(matrix, estimate)
    for k in range(classes):
        row = p.reshape(p.slice_axis(matrix, 1, k, k + 1), estimate.shape)
        diagonal, component = p.slice_axis(row, 1, k, k + 1), p.slice_axis(q, 1, k, k + 1)
        move = p.div(p.sub(total, component), diagonal)
        scale = p.add(move, 1.0)
        increase = p.mul(move, p.add(p.mul(move, diagonal), p.mul(component, 2.0)))
        total = p.div(p.div(p.add(total, increase), scale), scale)
        q = p.div(p.add(q, p.mul(move, row)), scale)
        unit = lift(np.eye(classes, dtype=np.float32)[k : k + 1])
        estimate = p.div(p.add(estimate, p.mul(move, unit)), scale)
    return estimate
