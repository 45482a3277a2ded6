"""What the leaves of trees say, put together: the sum, mean, least or largest of each target's weights."""

from typing import NamedTuple, Sequence

import numpy as np

from onnx_compat import primitives as p
from onnx_compat.dtypes import DType
from onnx_compat.errors import InvalidModelError
from onnx_compat.ops.ml.forest import Forest
from onnx_compat.value import Tensor, lift

__all__ = ["AGGREGATES", "Weights", "aggregated", "scored"]

AGGREGATES = ("AVERAGE", "SUM", "MIN", "MAX")


class Weights(NamedTuple):
    """One entry for each weight: the node that it is of, its target, itself."""

    node: np.ndarray
    target: np.ndarray
    weight: np.ndarray
    targets: int


def aggregated(at: Tensor, forest: Forest, weights: Weights, how: str, dtype: DType) -> Tensor:
    """[rows, targets] of the leaves that the rows ended in; zero for a target that none of them says anything about."""
    if how not in AGGREGATES:
        raise InvalidModelError("the aggregate function is one of %s, not %r" % (", ".join(AGGREGATES), how))
    table = _table(forest, weights, how).astype(dtype.numpy)
    if how in ("SUM", "AVERAGE"):
        total = p.reduce_sum(_taken(at, table), [1])
        return p.div(total, float(forest.trees)) if how == "AVERAGE" else total
    found = _taken(at, table)
    found = p.reduce_min(found, [1]) if how == "MIN" else p.reduce_max(found, [1])
    there = _there(forest, weights)
    return found if there.all() else p.where(scored(at, forest, weights), found, 0.0)


def scored(at: Tensor, forest: Forest, weights: Weights) -> Tensor:
    """Whether any of the leaves that a row ended in says something about the target: booleans [rows, targets]."""
    return p.reduce_max(_taken(at, _there(forest, weights)), [1])


def _taken(at: Tensor, table: np.ndarray) -> Tensor:
    """The rows of the table: [rows, trees, targets]."""
    if table.shape[1] == 1:  # a vector is quicker to look up
        return p.unsqueeze(p.take(lift(np.ascontiguousarray(table[:, 0])), at, 0), [2])
    return p.take(lift(table), at, 0)


def _table(forest: Forest, weights: Weights, how: str) -> np.ndarray:
    """The weights of each place in the forest; what is not there changes nothing."""
    nothing = {"MIN": np.inf, "MAX": -np.inf}.get(how, 0.0)
    table = np.full((_nodes(forest), weights.targets), nothing)
    combine = {"MIN": np.minimum, "MAX": np.maximum}.get(how, np.add)
    combine.at(table, (weights.node, weights.target), weights.weight)
    return table[forest.origin]


def _there(forest: Forest, weights: Weights) -> np.ndarray:
    there = np.zeros((_nodes(forest), weights.targets), bool)
    there[weights.node, weights.target] = True
    inner = forest.child != np.arange(len(forest.child))
    return there[forest.origin] | inner[:, None]


def _nodes(forest: Forest) -> int:
    return int(forest.origin.max()) + 1


def of_leaves(node: Sequence[int], target: Sequence[int], weight: np.ndarray, targets: int, forest: Forest) -> Weights:
    """The weights without those of nodes that no row can end in."""
    nodes, ids = np.asarray(node, np.int64), np.asarray(target, np.int64)
    if not len(nodes) == len(ids) == len(weight):
        raise InvalidModelError("%d, %d and %d ids and weights of leaves" % (len(nodes), len(ids), len(weight)))
    if len(ids) and not 0 <= ids.min() <= ids.max() < targets:
        raise InvalidModelError("a leaf has a weight for target %d of %d" % (ids.max(), targets))
    at = np.zeros(max(_nodes(forest), nodes.max(initial=-1) + 1), bool)
    at[forest.origin[forest.child == np.arange(len(forest.child))]] = True
    kept = at[nodes]
    return Weights(nodes[kept], ids[kept], np.asarray(weight)[kept], targets)
