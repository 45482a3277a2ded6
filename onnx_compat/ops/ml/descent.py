"""Descent of all rows through all decision trees at once, level by level."""

from typing import Any, List

import numpy as np

from onnx_compat import primitives as p
from onnx_compat.errors import InvalidModelError
from onnx_compat.ir.dims import Extent, is_equal, is_static
from onnx_compat.ir.dtypes import bool_, int64
from onnx_compat.ops.ml.forest import EQ, LEQ, Column, Forest
from onnx_compat.tracing.values import Tensor, lift

__all__ = ["find_leaves"]

#: The deepest trees whose steps are unrolled; deeper trees loop.
_UNROLLED = 32


def find_leaves(x: Tensor, forest: Forest) -> Tensor:
    """Return the leaf that each row of x reaches in each tree: an int64 tensor [rows, trees].

    x is [rows, features]. A leaf is given by its position in the arrays of `forest`. Raises InvalidModelError if the
    number of features is static, and the trees compare a feature that x lacks.
    """
    table = _comparison_columns(x, forest)
    width = len(forest.columns) + 1
    count = x.shape[0]
    roots = np.arange(forest.trees)
    if forest.depth == 0:
        return p.broadcast_to(lift(roots.reshape(1, -1), int64), (count, forest.trees))
    features = p.take(table, lift(forest.column[roots]), 1)
    positions = _select_child(features, lift(roots), lift(forest.child[roots]), forest)
    step = _Step(table, width, count, forest)
    if forest.depth <= _UNROLLED:
        for _ in range(forest.depth - 1):
            positions = step(positions)
        return positions
    results: List[Tensor] = p.while_loop(
        lambda steps, _: p.less(steps, forest.depth - 1),
        lambda steps, positions: [p.add(steps, 1), step(positions)],
        [lift(0, int64), positions],
    )
    return results[1]


class _Step:
    """Descend one level: map the current position of each row in each tree, [rows, trees], to a child of that position.

    A leaf is its own child. The constructor takes `table`, the values that nodes compare, [count, width], as
    `_comparison_columns` returns them.
    """

    def __init__(self, table: Tensor, width: int, count: Extent, forest: Forest) -> None:
        self.flat = p.reshape(table, (count * width,))
        self.rows = p.reshape(p.mul(p.iota(count), width), (count, 1))
        self.column, self.child = lift(forest.column), lift(forest.child)
        self.forest = forest

    def __call__(self, positions: Tensor) -> Tensor:
        indices = p.add(p.take(self.column, positions, 0), self.rows)
        return _select_child(p.take(self.flat, indices, 0), positions, p.take(self.child, positions, 0), self.forest)


def _select_child(features: Tensor, positions: Tensor, child: Tensor, forest: Forest) -> Tensor:
    """Return the child that the comparison at each position selects: child - 1 if the comparison holds, else child.

    - features: the compared values.
    - positions: the position of the comparing node in `forest`.
    - child: the position of its second child.

    Comparisons are not negated: TensorFlow rewrites not (x <= y) to x > y, which differs for NaN.
    """
    return p.sub(child, p.cast(_condition_holds(features, positions, forest), int64))


def _condition_holds(features: Tensor, positions: Tensor, forest: Forest) -> Tensor:
    """Return whether the comparison at each position holds for the value in `features`: bool [rows, trees].

    No comparison holds for NaN, except at positions where `forest.missing` is True.
    """
    threshold = p.take(lift(forest.threshold), positions, 0)
    kinds = sorted(set(forest.kind.tolist()))
    holds = _compare(features, threshold, kinds[0])
    if len(kinds) > 1:
        kind = p.take(lift(forest.kind), positions, 0)
        for other_kind in kinds[1:]:
            holds = p.where(p.equal(kind, other_kind), _compare(features, threshold, other_kind), holds)
    if forest.missing.any():
        missing = p.take(lift(forest.missing, bool_), positions, 0)
        holds = p.logical_or(holds, p.logical_and(p.is_nan(features), missing))
    return holds


def _compare(x: Tensor, threshold: Tensor, kind: int) -> Tensor:
    if kind == EQ:
        return p.equal(x, threshold)
    return p.less_equal(x, threshold) if kind == LEQ else p.less(x, threshold)


def _comparison_columns(x: Tensor, forest: Forest) -> Tensor:
    """Return the values that nodes compare, [rows, 1 + columns]: -inf for leaves, then the columns `forest.columns`.

    A column has a feature of x, or whether a feature is in a set. Raises InvalidModelError if the number of features is
    static, and the columns need a feature that x lacks.
    """
    parts: List[Tensor] = [p.full((x.shape[0], 1), -np.inf, x.dtype)]
    group: List[Column] = []
    for column in [*forest.columns, None]:
        if group and (column is None or column.members is not None or column.low != group[-1].low):
            parts.append(_build_columns(x, group))
            group = []
        if column is not None:
            group.append(column)
    return p.concat(parts, 1)


def _build_columns(x: Tensor, group: List[Column]) -> Tensor:
    """Return the values of the columns `group`, [rows, columns].

    The group is several features, or a single set membership. All columns of a group have the same `low`. If `low` is
    True, NaN becomes -inf, or counts as a member of the set. Raises InvalidModelError if the number of features is
    static, and the group needs a feature that x lacks.
    """
    features = [column.feature for column in group]
    values = _take_features(x, features)
    if group[0].members is not None:
        return _membership(values, group[0])
    return p.where(p.is_nan(values), -np.inf, values) if group[0].low else values


def _take_features(x: Tensor, features: List[int]) -> Tensor:
    if is_equal(x.shape[1], len(features)) and features == list(range(len(features))):
        return x
    if is_static(x.shape[1]) and max(features) >= x.shape[1]:
        raise InvalidModelError("the trees compare feature %d; the input has %s features" % (max(features), x.shape[1]))
    return p.take(x, lift(np.asarray(features)), 1)


def _membership(values: Tensor, column: Column) -> Tensor:
    """Return 1 where the feature is a member of the set, else 0: [rows, 1]. NaN is a member if `column.low`.

    `values` is the feature of the column, [rows, 1].
    """
    is_member: Any = p.equal(
        values, lift(np.asarray(column.members or (), np.float64).reshape(1, -1).astype(values.dtype.numpy))
    )
    is_member = p.reduce_max(is_member, [1], True)
    if column.low:
        is_member = p.logical_or(is_member, p.is_nan(values))
    return p.cast(is_member, values.dtype)
