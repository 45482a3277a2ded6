"""Ensembles of decision trees. How rows go down is in descent.py, what leaves say in leaves.py."""

from typing import Any, Dict, List, NamedTuple, Optional, Sequence, Tuple

import numpy as np

from onnx_compat import primitives as p
from onnx_compat.errors import InvalidModelError
from onnx_compat.ir.dtypes import DType, float32, float64, int64
from onnx_compat.ops.arguments import Floats, Ints, Strings
from onnx_compat.ops.ml.common import (
    DOMAIN,
    POST_TRANSFORMS,
    apply_post_transform,
    as_rows,
    label_tensor,
    transform_single_score,
)
from onnx_compat.ops.ml.descent import find_leaves
from onnx_compat.ops.ml.forest import LEAF, MODES, Forest, Nodes, build_forest, index_nodes, split_members
from onnx_compat.ops.ml.leaves import (
    AGGREGATES,
    Weights,
    add_base_values,
    aggregate,
    has_weight,
    is_always_weighted,
    reachable_weights,
)
from onnx_compat.ops.ml.twoclass import classify_two
from onnx_compat.ops.older_versions import older_version
from onnx_compat.ops.registry import op
from onnx_compat.tracing.values import Tensor, known_array


class _Trees(NamedTuple):
    """A forest, the place of each node that the model names, and the dtype to compare in."""

    forest: Forest
    places: Dict[Tuple[int, int], int]
    dtype: DType


def _attribute_array(listed: Any, tensor: Optional[Tensor], what: str) -> np.ndarray:
    """An attribute that is a list of floats or, of more precision, a tensor."""
    if tensor is not None:
        return known_array(tensor, what).reshape(-1)
    return np.asarray(listed or (), np.float32)


def _compare_dtype(x: Tensor, *arrays: np.ndarray) -> DType:
    return float64 if x.dtype == float64 or any(a.dtype == np.float64 for a in arrays) else float32


def _read_trees(X: Tensor, values: np.ndarray, attributes: Dict[str, Any]) -> _Trees:
    """The nodes as versions 1 to 5 of the classifier and the regressor list them."""
    ids = list(zip(attributes["nodes_treeids"] or (), attributes["nodes_nodeids"] or ()))
    count = len(ids)
    names = [_mode_name(mode) for mode in attributes["nodes_modes"] or ()]
    try:
        mode = np.asarray([MODES.index(name) for name in names], np.int64)
    except ValueError as error:
        raise InvalidModelError("a node's mode is one of %s" % ", ".join(MODES)) from error
    features = np.asarray(attributes["nodes_featureids"] or (), np.int64)
    true, false = attributes["nodes_truenodeids"] or (), attributes["nodes_falsenodeids"] or ()
    tracks = np.asarray(attributes["nodes_missing_value_tracks_true"] or [0] * count, np.int64)
    if not count or {len(one) for one in (mode, features, true, false, tracks, values)} != {count}:
        raise InvalidModelError("the lists of the trees' nodes are empty or differ in length")
    places, yes, no, roots = index_nodes(ids, mode, true, false)
    dtype = _compare_dtype(X, values)
    nodes = Nodes(features, values.astype(dtype.numpy), mode, yes, no, tracks, {}, roots)
    return _Trees(build_forest(nodes, X.dtype.kind != "f"), places, dtype)


def _mode_name(value: Any) -> str:
    return value.decode("ascii", "replace") if isinstance(value, bytes) else str(value)


def _read_weights(trees: _Trees, treeids: Any, nodeids: Any, ids: Any, weights: np.ndarray, targets: int) -> Weights:
    try:
        nodes = [trees.places[name] for name in zip(treeids or (), nodeids or ())]
    except KeyError as error:
        raise InvalidModelError(
            "a weight is of node %d of tree %d, which is not there" % error.args[0][::-1]
        ) from error
    return reachable_weights(nodes, ids or (), weights, targets, trees.forest)


# -- regressor ---------------------------------------------------------------------------------------------------------
@op("TreeEnsembleRegressor", since=(3, 5), domain=DOMAIN)
def tree_ensemble_regressor(
    X: Tensor,
    *,
    aggregate_function: str = "SUM",
    base_values: Floats = None,
    base_values_as_tensor: Optional[Tensor] = None,
    n_targets: Optional[int] = None,
    nodes_falsenodeids: Ints = None,
    nodes_featureids: Ints = None,
    nodes_hitrates: Floats = None,
    nodes_hitrates_as_tensor: Optional[Tensor] = None,
    nodes_missing_value_tracks_true: Ints = None,
    nodes_modes: Strings = None,
    nodes_nodeids: Ints = None,
    nodes_treeids: Ints = None,
    nodes_truenodeids: Ints = None,
    nodes_values: Floats = None,
    nodes_values_as_tensor: Optional[Tensor] = None,
    post_transform: str = "NONE",
    target_ids: Ints = None,
    target_nodeids: Ints = None,
    target_treeids: Ints = None,
    target_weights: Floats = None,
    target_weights_as_tensor: Optional[Tensor] = None,
) -> Tensor:
    trees = _read_trees(X, _attribute_array(nodes_values, nodes_values_as_tensor, "the thresholds"), locals())
    table = _attribute_array(target_weights, target_weights_as_tensor, "the weights")
    targets = int(n_targets or 1 + max(target_ids or (0,)))
    weights = _read_weights(trees, target_treeids, target_nodeids, target_ids, table, targets)
    at = find_leaves(as_rows(X, trees.dtype), trees.forest)
    base = _attribute_array(base_values, base_values_as_tensor, "the base values")
    scores = aggregate(at, trees.forest, weights, aggregate_function, trees.dtype, base)
    return p.cast(
        transform_single_score(scores, post_transform)
        if targets == 1
        else apply_post_transform(scores, post_transform),
        float32,
    )


_TENSORS = ("base_values_as_tensor", "nodes_hitrates_as_tensor", "nodes_values_as_tensor")
op("TreeEnsembleRegressor", since=1, domain=DOMAIN)(
    older_version(tree_ensemble_regressor, without=(*_TENSORS, "target_weights_as_tensor"))
)


# -- classifier --------------------------------------------------------------------------------------------------------
@op("TreeEnsembleClassifier", since=(3, 5), domain=DOMAIN)
def tree_ensemble_classifier(
    X: Tensor,
    *,
    base_values: Floats = None,
    base_values_as_tensor: Optional[Tensor] = None,
    class_ids: Ints = None,
    class_nodeids: Ints = None,
    class_treeids: Ints = None,
    class_weights: Floats = None,
    class_weights_as_tensor: Optional[Tensor] = None,
    classlabels_int64s: Ints = None,
    classlabels_strings: Strings = None,
    nodes_falsenodeids: Ints = None,
    nodes_featureids: Ints = None,
    nodes_hitrates: Floats = None,
    nodes_hitrates_as_tensor: Optional[Tensor] = None,
    nodes_missing_value_tracks_true: Ints = None,
    nodes_modes: Strings = None,
    nodes_nodeids: Ints = None,
    nodes_treeids: Ints = None,
    nodes_truenodeids: Ints = None,
    nodes_values: Floats = None,
    nodes_values_as_tensor: Optional[Tensor] = None,
    post_transform: str = "NONE",
) -> List[Tensor]:
    trees = _read_trees(X, _attribute_array(nodes_values, nodes_values_as_tensor, "the thresholds"), locals())
    table = _attribute_array(class_weights, class_weights_as_tensor, "the weights")
    base = _attribute_array(base_values, base_values_as_tensor, "the base values")
    labels = label_tensor(classlabels_int64s, classlabels_strings)
    if labels is None:
        raise InvalidModelError("a TreeEnsembleClassifier needs the labels of its classes")
    classes = len(classlabels_strings or classlabels_int64s or ())
    at = find_leaves(as_rows(X, trees.dtype), trees.forest)
    weights = _read_weights(trees, class_treeids, class_nodeids, class_ids, table, classes)
    if classes == 2:
        second, scores = classify_two(
            at, trees.forest, weights, base.astype(trees.dtype.numpy), post_transform, trees.dtype
        )
        # (Numbers are 0 and 1 in onnxruntime, whatever the model says.)
        label = p.take(labels, p.cast(second, int64), 0)
    else:
        scores = add_base_values(aggregate(at, trees.forest, weights, "SUM", trees.dtype), base)
        votes = scores
        if not len(base) and not all(is_always_weighted(trees.forest, weights, one) for one in range(classes)):
            votes = p.where(has_weight(at, trees.forest, weights), scores, -np.inf)  # a class must be spoken of to win
        label = p.take(labels, p.argmax(votes, 1), 0)
        scores = apply_post_transform(scores, post_transform)
    return [label, p.cast(scores, float32)]


op("TreeEnsembleClassifier", since=1, domain=DOMAIN)(
    older_version(tree_ensemble_classifier, without=(*_TENSORS, "class_weights_as_tensor"))
)


# -- both --------------------------------------------------------------------------------------------------------------
@op("TreeEnsemble", since=5, domain=DOMAIN)
def tree_ensemble(
    X: Tensor,
    *,
    aggregate_function: int = 1,
    leaf_targetids: Sequence[int],
    leaf_weights: Tensor,
    membership_values: Optional[Tensor] = None,
    n_targets: Optional[int] = None,
    nodes_falseleafs: Sequence[int],
    nodes_falsenodeids: Sequence[int],
    nodes_featureids: Sequence[int],
    nodes_hitrates: Optional[Tensor] = None,
    nodes_missing_value_tracks_true: Ints = None,
    nodes_modes: Tensor,
    nodes_splits: Tensor,
    nodes_trueleafs: Sequence[int],
    nodes_truenodeids: Sequence[int],
    post_transform: int = 0,
    tree_roots: Sequence[int],
) -> Tensor:
    """The leaves are numbered apart from the nodes: here they come behind them."""
    splits = known_array(nodes_splits, "the thresholds").reshape(-1)
    table = known_array(leaf_weights, "the weights").reshape(-1)
    inner, ends = known_array(nodes_modes, "the modes").reshape(-1).astype(np.int64), len(table)
    count = len(inner)
    given = (splits, nodes_featureids, nodes_truenodeids, nodes_falsenodeids, nodes_trueleafs, nodes_falseleafs)
    if {len(one) for one in given} != {count} or not 0 <= inner.min() <= inner.max() < LEAF:
        raise InvalidModelError("the lists of the trees' nodes differ in length, or a mode is not known")
    dtype = _compare_dtype(X, splits, table)

    def filled(values: Any, value: Any) -> np.ndarray:
        return np.concatenate([np.asarray(values), np.full(ends, value, np.asarray(values).dtype)])

    def children(ids: Sequence[int], leafs: Sequence[int]) -> np.ndarray:
        return filled(np.asarray(ids) + count * (np.asarray(leafs) != 0), 0)

    members = split_members(None if membership_values is None else known_array(membership_values, "the sets"), inner)
    nodes = Nodes(
        feature=filled(nodes_featureids, 0),
        threshold=filled(splits.astype(dtype.numpy), 0),
        mode=filled(inner, LEAF),
        true=children(nodes_truenodeids, nodes_trueleafs),
        false=children(nodes_falsenodeids, nodes_falseleafs),
        tracks=filled(nodes_missing_value_tracks_true or [0] * count, 0),
        members=members,
        roots=np.asarray(tree_roots, np.int64),
    )
    made = build_forest(nodes, False)
    targets = int(n_targets or 1 + max(leaf_targetids))
    weights = reachable_weights(np.arange(count, count + ends).tolist(), leaf_targetids, table, targets, made)
    at = find_leaves(as_rows(X, dtype), made)
    scores = aggregate(at, made, weights, AGGREGATES[aggregate_function], dtype)
    name = POST_TRANSFORMS[post_transform]  # (onnxruntime has SOFTMAX and LOGISTIC the other way round)
    return p.cast(transform_single_score(scores, name) if targets == 1 else apply_post_transform(scores, name), X.dtype)
