"""Trees as arrays: all nodes of an ensemble in one row, the two children of a node side by side.

Every comparison becomes one of three (<=, <, ==) by swapping children; what is not a comparison with one number, the
membership in a set, becomes a feature of its own. Leaves lead back to themselves, so that every row may take as many
steps as the deepest tree asks for.
"""

from typing import Any, Dict, List, NamedTuple, Optional, Sequence, Tuple

import numpy as np

from onnx_compat.errors import InvalidModelError

__all__ = [
    "EQ",
    "LEAF",
    "LEQ",
    "LT",
    "MODES",
    "Column",
    "Forest",
    "Nodes",
    "build_forest",
    "index_nodes",
    "split_members",
]

MODES = (
    "BRANCH_LEQ", "BRANCH_LT", "BRANCH_GTE", "BRANCH_GT", "BRANCH_EQ", "BRANCH_NEQ", "BRANCH_MEMBER", "LEAF",
)  # fmt: skip
_GTE, _GT, _NEQ, _MEMBER, LEAF = 2, 3, 5, 6, 7
LEQ, LT, EQ = 0, 1, 4


class Nodes(NamedTuple):
    """The nodes as a model lists them: children by their place, modes by their place in MODES."""

    feature: np.ndarray
    threshold: np.ndarray
    mode: np.ndarray
    true: np.ndarray
    false: np.ndarray
    tracks: np.ndarray  # whether a missing value (NaN) goes where the comparison would hold
    members: Dict[int, np.ndarray]  # node -> its set, for BRANCH_MEMBER
    roots: np.ndarray


class Column(NamedTuple):
    """What a node compares: a feature; that with NaN as -inf (`low`); or whether it is one of some numbers, NaN too or
    not (`low` again).
    """

    feature: int
    low: bool
    members: Optional[Tuple[float, ...]] = None


class Forest(NamedTuple):
    """The roots come first. Column 0 is -inf for every row: leaves compare it, and it always holds."""

    column: np.ndarray
    threshold: np.ndarray
    kind: np.ndarray
    child: np.ndarray  # where the comparison does not hold; the other child is the one before
    leaf: np.ndarray  # whether the place is an end
    missing: np.ndarray  # where NaN counts as holding, of the nodes for which no column says it
    origin: np.ndarray  # the node of the model
    columns: List[Column]  # from number 1 on
    trees: int
    depth: int


class _NormalizedNodes(NamedTuple):
    """The nodes with three comparisons only."""

    kind: np.ndarray
    swapped: np.ndarray
    missing: np.ndarray


def build_forest(nodes: Nodes, numbers: bool) -> Forest:
    """`numbers`: no feature can be NaN."""
    compared = _normalize_comparisons(nodes)
    missing = np.zeros(len(nodes.mode), bool) if numbers else compared.missing
    inner = nodes.mode != LEAF
    ordered = missing & inner & (compared.kind != EQ)
    ordered &= ~np.isnan(nodes.threshold) & ~((compared.kind == LT) & np.isneginf(nodes.threshold))
    columns, column = _collect_columns(nodes, ordered)
    true = np.where(compared.swapped, nodes.false, nodes.true)
    false = np.where(compared.swapped, nodes.true, nodes.false)
    origin, child, depth = _lay_out_levels(nodes.roots, inner, true, false)
    usual = int(np.bincount(compared.kind[inner]).argmax()) if inner.any() else LEQ
    kind = np.where(inner, compared.kind, usual)
    threshold = np.where(nodes.mode == _MEMBER, 0.5, nodes.threshold)
    threshold = np.where(inner, threshold, -np.inf if usual == EQ else 0).astype(nodes.threshold.dtype)
    missing = missing & inner & ~ordered
    return Forest(
        column[origin],
        threshold[origin],
        kind[origin].astype(np.int32),
        child,
        ~inner[origin],
        missing[origin],
        origin,
        columns,
        len(nodes.roots),
        depth,
    )


def _normalize_comparisons(nodes: Nodes) -> _NormalizedNodes:
    """x > t is x <= t with the children swapped, but for NaN, which then goes the other way; a NaN as t is never met."""
    mode, never = nodes.mode, np.isnan(nodes.threshold)
    tracks = nodes.tracks.astype(bool)
    swapped = np.isin(mode, (_GTE, _GT)) & ~never
    kind = np.select([np.isin(mode, (_GT, _MEMBER)), mode == _GTE, mode == _NEQ], [LEQ, LT, EQ], mode)
    missing = np.where(swapped, ~tracks, np.where(mode == _NEQ, False, tracks))
    member = mode == _MEMBER
    return _NormalizedNodes(np.where(mode == LEAF, LEQ, kind), swapped | (mode == _NEQ) | member, missing & ~member)


def _collect_columns(nodes: Nodes, low: np.ndarray) -> Tuple[List[Column], np.ndarray]:
    """The different columns that are compared, those of one make together, and the number of each node's."""
    compared: List[Tuple[int, Column]] = []
    for k in np.flatnonzero(nodes.mode != LEAF).tolist():
        feature = int(nodes.feature[k])
        if feature < 0:
            raise InvalidModelError("node %d of the trees compares feature %d" % (k, feature))
        if nodes.mode[k] == _MEMBER:
            column = Column(feature, bool(nodes.tracks[k]), tuple(nodes.members[k].tolist()))
        else:
            column = Column(feature, bool(low[k]))
        compared.append((k, column))
    columns = sorted({column for _, column in compared}, key=lambda one: (one.members or (), one.low, one.feature))
    columns.sort(key=lambda one: one.members is not None)
    places = {column: number + 1 for number, column in enumerate(columns)}
    numbers = np.zeros(len(nodes.mode), np.int64)
    for k, column in compared:
        numbers[k] = places[column]
    return columns, numbers


def _lay_out_levels(
    roots: np.ndarray, inner: np.ndarray, true: np.ndarray, false: np.ndarray
) -> Tuple[np.ndarray, np.ndarray, int]:
    """The nodes level by level: which node stands in each place, and the place of its second child."""
    level, start, depth = roots, 0, 0
    origins: List[np.ndarray] = []
    children: List[np.ndarray] = []
    limit = 16 * len(inner) + 16 * len(roots)  # leaves may be shared; a loop would never end
    while True:
        here = inner[level]
        after = start + len(level)
        place = after + 2 * (np.cumsum(here) - 1)
        origins.append(level)
        children.append(np.where(here, place, start + np.arange(len(level))) + 1)
        if not here.any():
            return np.concatenate(origins), np.concatenate(children).astype(np.int64), depth
        below = np.stack([true[level[here]], false[level[here]]], 1).reshape(-1)
        if below.min() < 0 or below.max() >= len(inner) or after + len(below) > limit:
            raise InvalidModelError("the nodes of the trees do not form trees")
        level, start, depth = below, after, depth + 1


def index_nodes(
    ids: Sequence[Tuple[int, int]], mode: np.ndarray, true: Sequence[int], false: Sequence[int]
) -> Tuple[Dict[Tuple[int, int], int], np.ndarray, np.ndarray, np.ndarray]:
    """Of nodes named by (tree, node): the place of each name, the places of both children, and the roots."""
    places = {name: k for k, name in enumerate(ids)}
    if len(places) < len(ids):
        raise InvalidModelError("two nodes of one tree have the same number")
    whole = np.arange(len(ids))
    yes, no, parentless = whole.copy(), whole.copy(), np.ones(len(ids), bool)
    for k in np.flatnonzero(mode != LEAF).tolist():
        tree = ids[k][0]
        try:
            yes[k], no[k] = places[tree, true[k]], places[tree, false[k]]
        except KeyError as error:
            raise InvalidModelError("node %d of tree %d has a child that is not there" % (ids[k][1], tree)) from error
        if k in (yes[k], no[k]):
            raise InvalidModelError("node %d of tree %d is a child of itself" % (ids[k][1], tree))
        parentless[yes[k]] = parentless[no[k]] = False
    roots: Dict[int, int] = {}
    for k in np.flatnonzero(parentless).tolist():
        roots.setdefault(ids[k][0], k)
    if len(roots) < len({tree for tree, _ in ids}):
        raise InvalidModelError("a tree has no root: the nodes of the trees do not form trees")
    return places, yes, no, np.asarray(list(roots.values()), np.int64)


def split_members(values: Any, mode: np.ndarray) -> Dict[int, np.ndarray]:
    """The sets of the BRANCH_MEMBER nodes, in their order: one list, in which NaN ends each set."""
    places = np.flatnonzero(mode == _MEMBER).tolist()
    if not places:
        return {}
    flat = np.asarray(() if values is None else values).reshape(-1)
    ends = np.flatnonzero(np.isnan(flat))
    sets = np.split(flat, ends)
    pieces = [sets[0], *(piece[1:] for piece in sets[1:])]
    if len(ends) < len(places) - 1:
        raise InvalidModelError("there are %d sets for %d nodes BRANCH_MEMBER" % (len(pieces), len(places)))
    return dict(zip(places, pieces))
