"""What the leaves of trees say, put together: the sum, mean, least or largest of each target's weights."""

from typing import Any, NamedTuple, Optional, Sequence

import numpy as np

from onnx_compat import primitives as p
from onnx_compat.errors import InvalidModelError
from onnx_compat.ir.dtypes import DType
from onnx_compat.ops.ml.forest import Forest
from onnx_compat.tracing.values import Tensor, lift

__all__ = [
    "AGGREGATES",
    "Weights",
    "add_base_values",
    "aggregate",
    "has_weight",
    "is_always_weighted",
    "reachable_weights",
]

AGGREGATES = ("AVERAGE", "SUM", "MIN", "MAX")


class Weights(NamedTuple):
    """One entry for each weight: the node that it is of, its target, itself."""

    node: np.ndarray
    target: np.ndarray
    weight: np.ndarray
    targets: int


def aggregate(at: Tensor, forest: Forest, weights: Weights, how: str, dtype: DType, base: Any = ()) -> Tensor:
    """[rows, targets] of the leaves that the rows ended in, and the base values. Of a target that no leaf says anything
    about it is zero, base value or not; where there is one target only, a leaf without a weight says zero.
    """
    if how not in AGGREGATES:
        raise InvalidModelError("the aggregate function is one of %s, not %r" % (", ".join(AGGREGATES), how))
    summed = how in ("SUM", "AVERAGE")
    found = _take_rows(at, _weight_table(forest, weights, how).astype(dtype.numpy))
    found = {"MIN": p.reduce_min, "MAX": p.reduce_max}.get(how, p.reduce_sum)(found, [1])
    if how == "AVERAGE":
        found = p.div(found, float(forest.trees))
    found = add_base_values(found, base)
    if weights.targets == 1 or (summed and not len(base)) or _weight_presence(forest, weights).all():
        return found
    return p.where(has_weight(at, forest, weights), found, 0.0)


def add_base_values(scores: Tensor, base: Any) -> Tensor:
    return p.add(scores, lift(np.asarray(base, scores.dtype.numpy))) if len(base) else scores


def has_weight(at: Tensor, forest: Forest, weights: Weights) -> Tensor:
    """Whether any of the leaves that a row ended in says something about the target: booleans [rows, targets]."""
    return p.reduce_max(_take_rows(at, _weight_presence(forest, weights)), [1])


def is_always_weighted(forest: Forest, weights: Weights, target: int) -> Optional[bool]:
    """Whether every leaf, or (False) none, says something about a target; None where some do."""
    there = _weight_presence(forest, weights)[forest.leaf, target]
    return bool(there.all()) if there.all() or not there.any() else None


def _take_rows(at: Tensor, table: np.ndarray) -> Tensor:
    """The rows of the table: [rows, trees, targets]."""
    if table.shape[1] == 1:  # a vector is quicker to look up
        return p.unsqueeze(p.take(lift(np.ascontiguousarray(table[:, 0])), at, 0), [2])
    return p.take(lift(table), at, 0)


def _weight_table(forest: Forest, weights: Weights, how: str) -> Any:
    """The weights of each place in the forest; what is not there changes nothing."""
    nothing = {"MIN": np.inf, "MAX": -np.inf}.get(how, 0.0)
    table = np.full((_node_count(forest), weights.targets), nothing)
    if weights.targets == 1:
        table[np.setdiff1d(np.arange(len(table)), weights.node)] = 0
    combine = {"MIN": np.minimum, "MAX": np.maximum}.get(how, np.add)
    combine.at(table, (weights.node, weights.target), weights.weight)
    return table[forest.origin]


def _weight_presence(forest: Forest, weights: Weights) -> Any:
    there = np.zeros((_node_count(forest), weights.targets), bool)
    there[weights.node, weights.target] = True
    return there[forest.origin] | ~forest.leaf[:, None]


def _node_count(forest: Forest) -> int:
    return int(forest.origin.max()) + 1


def reachable_weights(
    node: Sequence[int], target: Sequence[int], weight: np.ndarray, targets: int, forest: Forest
) -> Weights:
    """The weights without those of nodes that no row can end in."""
    nodes, ids = np.asarray(node, np.int64), np.asarray(target, np.int64)
    if not len(nodes) == len(ids) == len(weight):
        raise InvalidModelError("%d, %d and %d ids and weights of leaves" % (len(nodes), len(ids), len(weight)))
    if len(ids) and not 0 <= ids.min() <= ids.max() < targets:
        raise InvalidModelError("a leaf has a weight for target %d of %d" % (ids.max(), targets))
    at = np.zeros(max(_node_count(forest), nodes.max(initial=-1) + 1), bool)
    at[forest.origin[forest.leaf]] = True
    kept = at[nodes]
    return Weights(nodes[kept], ids[kept], np.asarray(weight)[kept], targets)
