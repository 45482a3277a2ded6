"""Probabilities of classes out of the decisions between each two (Wu, Lin and Weng, 2004: their second method)."""

from typing import List, Sequence

import numpy as np

from onnx_compat import primitives as p
from onnx_compat.ir.dtypes import int64
from onnx_compat.tracing.values import Tensor, lift

__all__ = ["couple_probabilities"]

_LEAST = 1e-7


def couple_probabilities(scores: Tensor, a: Sequence[float], b: Sequence[float], classes: int) -> Tensor:
    """[rows, classes]: as libsvm does it, all rows in step, each until it is good enough."""
    duels = _pairwise_probabilities(scores, a, b, classes)
    matrix = _matrix(duels, classes)
    enough = 0.005 / classes
    first = p.full((scores.shape[0], classes), 1.0 / classes, scores.dtype)

    def error(estimate: Tensor) -> Tensor:
        q, total = _gradient(matrix, estimate)
        return p.reduce_max(p.abs(p.sub(q, total)), [1], True)

    def unfinished(step: Tensor, estimate: Tensor) -> Tensor:
        open_rows = p.reduce_max(p.greater_equal(error(estimate), enough))
        return p.logical_and(p.less(step, max(100, classes)), open_rows)

    def body(step: Tensor, estimate: Tensor) -> List[Tensor]:
        better = p.where(p.greater_equal(error(estimate), enough), _improve(matrix, estimate, classes), estimate)
        return [p.add(step, 1), better]

    return p.while_loop(unfinished, body, [lift(0, int64), first])[1]


def _pairwise_probabilities(scores: Tensor, a: Sequence[float], b: Sequence[float], classes: int) -> Tensor:
    """[rows, classes, classes]: how likely the one is, if it is one of the two."""
    count = classes * (classes - 1) // 2
    slopes, offsets = (lift(np.asarray(list(each)[:count], np.float32)) for each in (a, b))
    likely = p.sigmoid(p.neg(p.add(p.mul(scores, slopes), offsets)))
    likely = p.clip(likely, _LEAST, 1 - _LEAST)
    both = p.concat([likely, p.sub(1.0, likely), p.full((scores.shape[0], 1), 0.0, scores.dtype)], 1)
    places = np.full((classes, classes), 2 * count, np.int64)
    above = np.triu_indices(classes, 1)
    places[above] = np.arange(count)
    places.T[above] = count + np.arange(count)
    return p.reshape(p.take(both, lift(places.reshape(-1)), 1), (scores.shape[0], classes, classes))


def _matrix(duels: Tensor, classes: int) -> Tensor:
    """Q of the paper: r_ji * r_ji summed over j on the diagonal, -r_ji * r_ij elsewhere."""
    turned = p.transpose(duels, [0, 2, 1])
    squares = p.reduce_sum(p.mul(turned, turned), [2], True)
    diagonal = lift(np.eye(classes, dtype=bool))
    return p.where(diagonal, squares, p.neg(p.mul(duels, turned)))


def _gradient(matrix: Tensor, estimate: Tensor) -> "tuple[Tensor, Tensor]":
    q = p.reduce_sum(p.mul(matrix, p.unsqueeze(estimate, [1])), [2])
    return q, p.reduce_sum(p.mul(q, estimate), [1], True)


def _improve(matrix: Tensor, estimate: Tensor, classes: int) -> Tensor:
    """One round: each class in turn moves to where its derivative is zero."""
    q, total = _gradient(matrix, estimate)
    for k in range(classes):
        row = p.reshape(p.slice_axis(matrix, 1, k, k + 1), estimate.shape)
        diagonal, here = p.slice_axis(row, 1, k, k + 1), p.slice_axis(q, 1, k, k + 1)
        move = p.div(p.sub(total, here), diagonal)
        scale = p.add(move, 1.0)
        gained = p.mul(move, p.add(p.mul(move, diagonal), p.mul(here, 2.0)))
        total = p.div(p.div(p.add(total, gained), scale), scale)
        q = p.div(p.add(q, p.mul(move, row)), scale)
        unit = lift(np.eye(classes, dtype=np.float32)[k : k + 1])
        estimate = p.div(p.add(estimate, p.mul(move, unit)), scale)
    return estimate
