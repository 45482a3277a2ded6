"""Decision trees as arrays: all nodes of an ensemble in level order, with adjacent children.

Each comparison becomes <=, < or == by swapping the children. A membership in a set becomes a feature of its own. A leaf
is its own child, so that every row may take as many steps as the deepest tree has levels.
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
    """The nodes of all trees, in the order of the model. Each array but `roots` has one entry for each node.

    - feature: the number of the feature that the node compares; ignored for a leaf.
    - threshold: the number that the feature is compared with; ignored for a leaf and for BRANCH_MEMBER.
    - mode: an index in MODES.
    - true: the index of the child if the comparison holds; ignored for a leaf.
    - false: the index of the child if the comparison does not hold; ignored for a leaf.
    - tracks: whether NaN goes to the child `true`. For BRANCH_NEQ, NaN goes there in any case.
    - members: a dict: index of a BRANCH_MEMBER node -> array of its members.
    - roots: the index of the root of each tree.
    """

    feature: np.ndarray
    threshold: np.ndarray
    mode: np.ndarray
    true: np.ndarray
    false: np.ndarray
    tracks: np.ndarray
    members: Dict[int, np.ndarray]
    roots: np.ndarray


class Column(NamedTuple):
    """A column of values that nodes compare with thresholds. `feature`: the number of the feature.

    - Without `members`: the values of the feature. If `low`, NaN is replaced by -inf.
    - With `members`: 1 where the feature is in `members`, else 0. If `low`, NaN counts as a member.
    """

    feature: int
    low: bool
    members: Optional[Tuple[float, ...]] = None


class Forest(NamedTuple):
    """The nodes of all trees in level order, the roots first. Each array has one entry for each position in this order.

    - column: the number of the column that the node compares; 0 for a leaf.
    - threshold: the number that the column is compared with.
    - kind: the comparison: LEQ, LT or EQ.
    - child: the position of the second child, to which a row goes if the comparison does not hold. The first child is
      at the position before it.
    - leaf: whether the node is a leaf.
    - missing: whether the comparison counts as true for NaN. False if the column replaces NaN.
    - origin: the index of the node in `Nodes`.
    - columns: the list of the columns 1, 2, …. Column 0 is -inf: the comparison of a leaf always holds and selects the
      leaf itself.
    - trees: the number of trees.
    - depth: the number of comparisons from a root to the deepest leaf.
    """

    column: np.ndarray
    threshold: np.ndarray
    kind: np.ndarray
    child: np.ndarray
    leaf: np.ndarray
    missing: np.ndarray
    origin: np.ndarray
    columns: List[Column]  # columns 1, 2, …
    trees: int
    depth: int


class _NormalizedNodes(NamedTuple):
    """The comparison of each node as <=, < or ==: three arrays with an entry for each node.

    - kind: LEQ, LT or EQ.
    - swapped: whether the children are swapped.
    - missing: whether the comparison must count as true for NaN; False for a set membership.
    """

    kind: np.ndarray
    swapped: np.ndarray
    missing: np.ndarray


def build_forest(nodes: Nodes, has_no_nan: bool) -> Forest:
    """Return the forest of the nodes. `has_no_nan` promises that no feature is NaN.

    Raises InvalidModelError if a node compares a negative feature. Raises it also if the nodes do not form trees: a
    root or a child does not exist, there is no root, or there is a cycle.
    """
    normalized = _normalize_comparisons(nodes)
    missing = np.zeros(len(nodes.mode), bool) if has_no_nan else normalized.missing
    inner = nodes.mode != LEAF
    uses_low_column = missing & inner & (normalized.kind != EQ)
    uses_low_column &= ~np.isnan(nodes.threshold) & ~((normalized.kind == LT) & np.isneginf(nodes.threshold))
    columns, column = _collect_columns(nodes, uses_low_column)
    true = np.where(normalized.swapped, nodes.false, nodes.true)
    false = np.where(normalized.swapped, nodes.true, nodes.false)
    origin, child, depth = _lay_out_levels(nodes.roots, inner, true, false)
    usual_kind = int(np.bincount(normalized.kind[inner]).argmax()) if inner.any() else LEQ
    kind = np.where(inner, normalized.kind, usual_kind)
    threshold = np.where(nodes.mode == _MEMBER, 0.5, nodes.threshold)
    threshold = np.where(inner, threshold, -np.inf if usual_kind == EQ else 0).astype(nodes.threshold.dtype)
    missing = missing & inner & ~uses_low_column
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
    """Rewrite each comparison of the nodes to <=, < or ==. Return a `_NormalizedNodes`.

    These comparisons are rewritten, with swapped children:

    - x > t  =>  x <= t
    - x >= t  =>  x < t
    - x != t  =>  x == t
    - x in a set  =>  membership <= 0.5

    Exception: for a threshold of NaN, > and >= become <= and < without a swap, because they must never hold.
    """
    mode, is_never_met = nodes.mode, np.isnan(nodes.threshold)
    tracks = nodes.tracks.astype(bool)
    swapped = np.isin(mode, (_GTE, _GT)) & ~is_never_met
    kind = np.select([np.isin(mode, (_GT, _MEMBER)), mode == _GTE, mode == _NEQ], [LEQ, LT, EQ], mode)
    missing = np.where(swapped, ~tracks, np.where(mode == _NEQ, False, tracks))
    is_member = mode == _MEMBER
    return _NormalizedNodes(
        np.where(mode == LEAF, LEQ, kind), swapped | (mode == _NEQ) | is_member, missing & ~is_member
    )


def _collect_columns(nodes: Nodes, low: np.ndarray) -> Tuple[List[Column], np.ndarray]:
    """Return (list of the distinct columns that nodes compare, the number of the column for each node).

    Columns are numbered from 1; a leaf has number 0. The list has columns of features first, then set memberships.
    `low` tells for each node that compares a feature with a threshold whether NaN becomes -inf in its column. A set
    membership uses `nodes.tracks` instead. Raises InvalidModelError for a negative feature.
    """
    node_columns: List[Tuple[int, Column]] = []
    for k in np.flatnonzero(nodes.mode != LEAF).tolist():
        feature = int(nodes.feature[k])
        if feature < 0:
            raise InvalidModelError("node %d of the trees compares feature %d" % (k, feature))
        if nodes.mode[k] == _MEMBER:
            column = Column(feature, bool(nodes.tracks[k]), tuple(nodes.members[k].tolist()))
        else:
            column = Column(feature, bool(low[k]))
        node_columns.append((k, column))
    columns = sorted(
        {column for _, column in node_columns}, key=lambda entry: (entry.members or (), entry.low, entry.feature)
    )
    columns.sort(key=lambda entry: entry.members is not None)
    column_numbers = {column: number + 1 for number, column in enumerate(columns)}
    numbers = np.zeros(len(nodes.mode), np.int64)
    for k, column in node_columns:
        numbers[k] = column_numbers[column]
    return columns, numbers


def _lay_out_levels(
    roots: np.ndarray, inner: np.ndarray, true: np.ndarray, false: np.ndarray
) -> Tuple[np.ndarray, np.ndarray, int]:
    """Arrange the nodes in level order. Return (node at each position, position of its second child, depth).

    - roots: the indices of the roots.
    - inner: for each node, whether it is no leaf.
    - true, false: for each node, the index of its first and of its second child.

    The two children of a node get adjacent positions. A node with several parents gets several positions. For a leaf,
    the position of the second child is its own position + 1. Raises InvalidModelError in these cases:

    - a root or a child does not exist, or there is no root
    - there are more than 16 * (nodes + roots) positions, which shows a cycle
    """
    level, start, depth = roots, 0, 0
    origins: List[np.ndarray] = []
    children: List[np.ndarray] = []
    limit = 16 * len(inner) + 16 * len(roots)  # leaves may be shared; a cycle would never end
    while True:
        if not len(level) or level.min() < 0 or level.max() >= len(inner) or start + len(level) > limit:
            raise InvalidModelError("the nodes of the trees do not form trees")
        is_inner = inner[level]
        next_start = start + len(level)
        child_positions = next_start + 2 * (np.cumsum(is_inner) - 1)
        origins.append(level)
        children.append(np.where(is_inner, child_positions, start + np.arange(len(level))) + 1)
        if not is_inner.any():
            return np.concatenate(origins), np.concatenate(children).astype(np.int64), depth
        children_level = np.stack([true[level[is_inner]], false[level[is_inner]]], 1).reshape(-1)
        level, start, depth = children_level, next_start, depth + 1


def index_nodes(
    ids: Sequence[Tuple[int, int]], mode: np.ndarray, true: Sequence[int], false: Sequence[int]
) -> Tuple[Dict[Tuple[int, int], int], np.ndarray, np.ndarray, np.ndarray]:
    """Return (dict of node indices, indices of first children, indices of second children, indices of roots).

    - ids: for each node, (number of its tree, number of the node). The index of a node is its position in `ids`.
    - mode: the mode of each node.
    - true, false: for each node, the number of its first and of its second child, in the same tree.

    The dict maps the entries of `ids` to indices. A leaf is its own child. The root of a tree is its first node that is
    no child. Raises InvalidModelError in these cases:

    - two entries of `ids` are equal
    - a child does not exist, or is the node itself
    - a tree has no root
    """
    indices = {name: k for k, name in enumerate(ids)}
    if len(indices) < len(ids):
        raise InvalidModelError("two nodes of one tree have the same number")
    all_indices = np.arange(len(ids))
    true_indices, false_indices, is_root = all_indices.copy(), all_indices.copy(), np.ones(len(ids), bool)
    for k in np.flatnonzero(mode != LEAF).tolist():
        tree = ids[k][0]
        try:
            true_indices[k], false_indices[k] = indices[tree, true[k]], indices[tree, false[k]]
        except KeyError as error:
            raise InvalidModelError("node %d of tree %d has a child that does not exist" % (ids[k][1], tree)) from error
        if k in (true_indices[k], false_indices[k]):
            raise InvalidModelError("node %d of tree %d is a child of itself" % (ids[k][1], tree))
        is_root[true_indices[k]] = is_root[false_indices[k]] = False
    roots: Dict[int, int] = {}
    for k in np.flatnonzero(is_root).tolist():
        roots.setdefault(ids[k][0], k)
    if len(roots) < len({tree for tree, _ in ids}):
        raise InvalidModelError("a tree has no root: the nodes of the trees do not form trees")
    return indices, true_indices, false_indices, np.asarray(list(roots.values()), np.int64)


def split_members(values: Any, mode: np.ndarray) -> Dict[int, np.ndarray]:
    """Return a dict: index of a BRANCH_MEMBER node -> array of its members; {} without such nodes.

    `values` lists the sets of all these nodes, in the order of the nodes, with a NaN between two sets. `mode` is the
    mode of each node. Surplus sets are dropped. Raises InvalidModelError if there are too few sets.
    """
    member_nodes = np.flatnonzero(mode == _MEMBER).tolist()
    if not member_nodes:
        return {}
    flat = np.asarray(() if values is None else values).reshape(-1)
    ends = np.flatnonzero(np.isnan(flat))
    sets = np.split(flat, ends)
    pieces = [sets[0], *(piece[1:] for piece in sets[1:])]
    if len(ends) < len(member_nodes) - 1:
        raise InvalidModelError("there are %d sets for %d nodes BRANCH_MEMBER" % (len(pieces), len(member_nodes)))
    return dict(zip(member_nodes, pieces))
