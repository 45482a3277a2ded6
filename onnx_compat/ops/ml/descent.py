"""Down all trees at once: each row's place in each tree, step by step."""

from typing import Any, List

import numpy as np

from onnx_compat import primitives as p
from onnx_compat.errors import InvalidModelError
from onnx_compat.ir.dims import Extent, is_equal, is_static
from onnx_compat.ir.dtypes import bool_, int64
from onnx_compat.ops.ml.forest import EQ, LEQ, Column, Forest
from onnx_compat.tracing.values import Tensor, lift

__all__ = ["find_leaves"]

#: Steps that are written out; deeper trees loop.
_UNROLLED = 32


def find_leaves(x: Tensor, forest: Forest) -> Tensor:
    """The places in the forest's arrays, [rows, trees], that the rows end in."""
    table = _comparison_columns(x, forest)
    width = len(forest.columns) + 1
    count = x.shape[0]
    roots = np.arange(forest.trees)
    if forest.depth == 0:
        return p.broadcast_to(lift(roots.reshape(1, -1), int64), (count, forest.trees))
    found = p.take(table, lift(forest.column[roots]), 1)
    at = _select_child(found, lift(roots), lift(forest.child[roots]), forest)
    step = _Step(table, width, count, forest)
    if forest.depth <= _UNROLLED:
        for _ in range(forest.depth - 1):
            at = step(at)
        return at
    done_and_at: List[Tensor] = p.while_loop(
        lambda done, _: p.less(done, forest.depth - 1),
        lambda done, at: [p.add(done, 1), step(at)],
        [lift(0, int64), at],
    )
    return done_and_at[1]


class _Step:
    """One step down, from any places."""

    def __init__(self, table: Tensor, width: int, count: Extent, forest: Forest) -> None:
        self.flat = p.reshape(table, (count * width,))
        self.rows = p.reshape(p.mul(p.iota(count), width), (count, 1))
        self.column, self.child = lift(forest.column), lift(forest.child)
        self.forest = forest

    def __call__(self, at: Tensor) -> Tensor:
        places = p.add(p.take(self.column, at, 0), self.rows)
        return _select_child(p.take(self.flat, places, 0), at, p.take(self.child, at, 0), self.forest)


def _select_child(found: Tensor, at: Tensor, child: Tensor, forest: Forest) -> Tensor:
    """The child that each comparison leads to. (Nothing is negated here: TensorFlow makes x > y of not x <= y, which is
    something else for NaN.)
    """
    return p.sub(child, p.cast(_condition_holds(found, at, forest), int64))


def _condition_holds(found: Tensor, at: Tensor, forest: Forest) -> Tensor:
    threshold = p.take(lift(forest.threshold), at, 0)
    kinds = sorted(set(forest.kind.tolist()))
    holds = _compare(found, threshold, kinds[0])
    if len(kinds) > 1:
        kind = p.take(lift(forest.kind), at, 0)
        for other in kinds[1:]:
            holds = p.where(p.equal(kind, other), _compare(found, threshold, other), holds)
    if forest.missing.any():
        missing = p.take(lift(forest.missing, bool_), at, 0)
        holds = p.logical_or(holds, p.logical_and(p.is_nan(found), missing))
    return holds


def _compare(x: Tensor, threshold: Tensor, kind: int) -> Tensor:
    if kind == EQ:
        return p.equal(x, threshold)
    return p.less_equal(x, threshold) if kind == LEQ else p.less(x, threshold)


def _comparison_columns(x: Tensor, forest: Forest) -> Tensor:
    """What the nodes compare, side by side behind a column of -inf."""
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
    """Columns of one make: several features, or one membership."""
    features = [column.feature for column in group]
    found = _take_features(x, features)
    if group[0].members is not None:
        return _membership(found, group[0])
    return p.where(p.is_nan(found), -np.inf, found) if group[0].low else found


def _take_features(x: Tensor, features: List[int]) -> Tensor:
    if is_equal(x.shape[1], len(features)) and features == list(range(len(features))):
        return x
    if is_static(x.shape[1]) and max(features) >= x.shape[1]:
        raise InvalidModelError("the trees compare feature %d, there are %s" % (max(features), x.shape[1]))
    return p.take(x, lift(np.asarray(features)), 1)


def _membership(found: Tensor, column: Column) -> Tensor:
    """1 where the feature is one of the members (or NaN, if that counts), else 0."""
    inside: Any = p.equal(
        found, lift(np.asarray(column.members or (), np.float64).reshape(1, -1).astype(found.dtype.numpy))
    )
    inside = p.reduce_max(inside, [1], True)
    if column.low:
        inside = p.logical_or(inside, p.is_nan(found))
    return p.cast(inside, found.dtype)
