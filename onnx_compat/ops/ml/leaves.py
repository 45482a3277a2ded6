"""Aggregation of the weights of the leaves of decision trees: sum, mean, minimum or maximum for each target."""

from typing import Any, NamedTuple, Optional, Sequence

import numpy as np

from onnx_compat import primitives as p
from onnx_compat.errors import InvalidModelError
from onnx_compat.ir.dtypes import DType
from onnx_compat.ops.ml.forest import Forest
from onnx_compat.primitives.ranges import first_out_of_range
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
    """The weights of leaves: entry k adds weight[k] to the score of target[k] for a row that reaches the leaf node[k].

    node[k] is an index in `forest.Nodes`, as in `Forest.origin`. `targets` is the number of targets.
    """

    node: np.ndarray
    target: np.ndarray
    weight: np.ndarray
    targets: int


def aggregate(
    positions: Tensor, forest: Forest, weights: Weights, function: str, dtype: DType, base: Any = ()
) -> Tensor:
    """Return the scores [rows, targets]: the aggregated weights of the leaves that a row reaches, plus base values.

    - positions: the leaf of each row in each tree, [rows, trees].
    - function: "SUM", "AVERAGE" (the sum divided by the number of trees), "MIN" or "MAX".
    - dtype: the dtype of the scores.
    - base: a value for each target, one value for all targets, or none.

    If no leaf that a row reaches has a weight for a target, the score is 0, without the base value. Exception: with a
    single target, a leaf without a weight has the weight 0, and the base value is added.

    Raises InvalidModelError for another `function`.
    """
    if function not in AGGREGATES:
        raise InvalidModelError("the aggregate function is one of %s, not %r" % (", ".join(AGGREGATES), function))
    is_sum = function in ("SUM", "AVERAGE")
    scores = _take_rows(positions, _weight_table(forest, weights, function).astype(dtype.numpy))
    scores = {"MIN": p.reduce_min, "MAX": p.reduce_max}.get(function, p.reduce_sum)(scores, [1])
    if function == "AVERAGE":
        scores = p.div(scores, float(forest.trees))
    scores = add_base_values(scores, base)
    if weights.targets == 1 or (is_sum and not len(base)) or _weight_presence(forest, weights).all():
        return scores
    return p.where(has_weight(positions, forest, weights), scores, 0.0)


def add_base_values(scores: Tensor, base: Any) -> Tensor:
    """Return the scores plus the base values, one for each target or one for all; the scores themselves without any."""
    return p.add(scores, lift(np.asarray(base, scores.dtype.numpy))) if len(base) else scores


def has_weight(positions: Tensor, forest: Forest, weights: Weights) -> Tensor:
    """Return whether any leaf that a row reaches has a weight for each target: booleans [rows, targets]."""
    return p.reduce_max(_take_rows(positions, _weight_presence(forest, weights)), [1])


def is_always_weighted(forest: Forest, weights: Weights, target: int) -> Optional[bool]:
    """Return True if all leaves have a weight for the target, False if no leaf has one, None if only some have one."""
    is_present = _weight_presence(forest, weights)[forest.leaf, target]
    return bool(is_present.all()) if is_present.all() or not is_present.any() else None


def _take_rows(positions: Tensor, table: np.ndarray) -> Tensor:
    """Return table[position] for each position: [rows, trees, targets].

    `positions` is [rows, trees]. `table` has a row of targets for each position in the forest.
    """
    if table.shape[1] == 1:  # a vector is faster to look up
        return p.unsqueeze(p.take(lift(np.ascontiguousarray(table[:, 0])), positions, 0), [2])
    return p.take(lift(table), positions, 0)


def _weight_table(forest: Forest, weights: Weights, function: str) -> Any:
    """Return the weights of each position in the forest as an array [positions, targets].

    Several weights of a leaf for one target are combined: MIN takes the least, MAX the greatest, any other `function`
    the sum. A missing weight is 0 if there is a single target. Otherwise it is inf for MIN, -inf for MAX and 0 for
    sums.
    """
    neutral = {"MIN": np.inf, "MAX": -np.inf}.get(function, 0.0)
    table = np.full((_node_count(forest), weights.targets), neutral)
    if weights.targets == 1:
        table[np.setdiff1d(np.arange(len(table)), weights.node)] = 0
    combine = {"MIN": np.minimum, "MAX": np.maximum}.get(function, np.add)
    combine.at(table, (weights.node, weights.target), weights.weight)
    return table[forest.origin]


def _weight_presence(forest: Forest, weights: Weights) -> Any:
    """Return whether each position has a weight for each target, [positions, targets]; True for inner nodes."""
    is_present = np.zeros((_node_count(forest), weights.targets), bool)
    is_present[weights.node, weights.target] = True
    return is_present[forest.origin] | ~forest.leaf[:, None]


def _node_count(forest: Forest) -> int:
    return int(forest.origin.max()) + 1


def reachable_weights(
    node: Sequence[int], target: Sequence[int], weight: np.ndarray, targets: int, forest: Forest
) -> Weights:
    """Return the weights of nodes that are leaves of the forest; leave out those of inner and of unreachable nodes.

    Entry k adds weight[k] to target[k] at node[k]; `targets` is the number of targets. Raises InvalidModelError if the
    lists differ in length, or a target is out of range.
    """
    nodes, ids = np.asarray(node, np.int64), np.asarray(target, np.int64)
    if not len(nodes) == len(ids) == len(weight):
        raise InvalidModelError(
            "the lists of leaf nodes, targets and weights have %d, %d and %d entries; their lengths must be equal"
            % (len(nodes), len(ids), len(weight))
        )
    wrong = first_out_of_range(ids, 0, targets - 1)
    if wrong is not None:
        raise InvalidModelError("a leaf has a weight for target %d; there are %d targets" % (wrong, targets))
    is_reachable = np.zeros(max(_node_count(forest), nodes.max(initial=-1) + 1), bool)
    is_reachable[forest.origin[forest.leaf]] = True
    selected = is_reachable[nodes]
    return Weights(nodes[selected], ids[selected], np.asarray(weight)[selected], targets)
