"""Ensembles of decision trees.

`descent` finds the leaf that each row reaches, `leaves` aggregates the leaves' weights.
"""

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
    transform_target_scores,
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
    """A forest, the index of each node by its (tree, node) number, and the dtype in which features are compared."""

    forest: Forest
    node_indices: Dict[Tuple[int, int], int]
    dtype: DType


def _attribute_array(values: Any, tensor: Optional[Tensor], description: str) -> np.ndarray:
    """Return an attribute as a numpy vector: `tensor` if it is given, else the list `values` as float32.

    The vector is empty if both are absent. `description` names the attribute in errors. Raises NeedsKnownError if the
    tensor is not known.
    """
    if tensor is not None:
        return known_array(tensor, description).reshape(-1)
    return np.asarray(values or (), np.float32)


def _compare_dtype(x: Tensor, *arrays: np.ndarray) -> DType:
    return float64 if x.dtype == float64 or any(a.dtype == np.float64 for a in arrays) else float32


def _read_trees(X: Tensor, values: np.ndarray, attributes: Dict[str, Any]) -> _Trees:
    """Return the forest of a TreeEnsembleClassifier or TreeEnsembleRegressor, as `_Trees`.

    - values: the threshold of each node.
    - attributes: a dict: name -> value, with all attributes of the operator whose names begin with `nodes_`.

    Raises InvalidModelError if a mode is unknown, or if the lists are empty or differ in length. Raises it as well if
    the nodes do not form trees, or a node compares a negative feature.
    """
    treeids, nodeids = attributes["nodes_treeids"] or (), attributes["nodes_nodeids"] or ()
    ids = list(zip(treeids, nodeids))
    count = len(ids)
    names = [_mode_name(mode) for mode in attributes["nodes_modes"] or ()]
    try:
        mode = np.asarray([MODES.index(name) for name in names], np.int64)
    except ValueError as error:
        raise InvalidModelError("a node's mode is one of %s" % ", ".join(MODES)) from error
    features = np.asarray(attributes["nodes_featureids"] or (), np.int64)
    true, false = attributes["nodes_truenodeids"] or (), attributes["nodes_falsenodeids"] or ()
    tracks = np.asarray(attributes["nodes_missing_value_tracks_true"] or [0] * count, np.int64)
    node_lists = (treeids, nodeids, mode, features, true, false, tracks, values)
    if not count or {len(values_list) for values_list in node_lists} != {count}:
        raise InvalidModelError("the lists of the trees' nodes are empty or differ in length")
    node_indices, true_indices, false_indices, roots = index_nodes(ids, mode, true, false)
    dtype = _compare_dtype(X, values)
    nodes = Nodes(features, values.astype(dtype.numpy), mode, true_indices, false_indices, tracks, {}, roots)
    return _Trees(build_forest(nodes, X.dtype.kind != "f"), node_indices, dtype)


def _mode_name(value: Any) -> str:
    return value.decode("ascii", "replace") if isinstance(value, bytes) else str(value)


def _read_weights(trees: _Trees, treeids: Any, nodeids: Any, ids: Any, weights: np.ndarray, targets: int) -> Weights:
    """Return the weights of the leaves of `trees`, from attributes with an entry for each weight.

    Entry k adds weights[k] to the score of target ids[k] at node nodeids[k] of tree treeids[k]. `targets` is the
    number of targets. Raises InvalidModelError if the lists differ in length, or if a node or a target does not exist.
    """
    if len(treeids or ()) != len(nodeids or ()):
        raise InvalidModelError("the lists of the trees and nodes of weights differ in length")
    try:
        nodes = [trees.node_indices[name] for name in zip(treeids or (), nodeids or ())]
    except KeyError as error:
        raise InvalidModelError(
            "a weight belongs to node %d of tree %d, which does not exist" % error.args[0][::-1]
        ) from error
    return reachable_weights(nodes, ids or (), weights, targets, trees.forest)


def _base_values(values: Any, tensor: Optional[Tensor], targets: int) -> np.ndarray:
    """Return the base values: none, one for all targets, or one for each. Raises InvalidModelError for another number.

    `values`, `tensor`: the attributes that may hold them, each None if the node lacks it.
    """
    base = _attribute_array(values, tensor, "the base values")
    if len(base) not in (0, 1, targets):
        raise InvalidModelError("there are %d base values for %d targets or classes" % (len(base), targets))
    return base


def _target_count(declared: Optional[int], ids: Sequence[int]) -> int:
    """Return the number of targets: `declared`, or for None and 0 the greatest of `ids` plus 1.

    Raises InvalidModelError if the number is below 1.
    """
    count = int(declared or 1 + max(ids))
    if count < 1:
        raise InvalidModelError("the number of targets is %d; it must be 1 or more" % count)
    return count


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
    """Return the float32 scores [rows, targets] of an ensemble of regression trees.

    A score is the aggregate of the weights of the leaves that a row reaches, plus the base value (see `aggregate`).
    n_targets is by default the greatest of target_ids plus 1. With a single target, only the post_transform PROBIT has
    an effect.

    Raises InvalidModelError in these cases:

    - The nodes do not form trees, or compare a feature that X lacks.
    - A weight belongs to a node or a target that does not exist.
    - Lists differ in length, or the number of base values is not 0, 1 or that of the targets.
    - aggregate_function is unknown, or post_transform is unknown and there are several targets.
    """
    trees = _read_trees(X, _attribute_array(nodes_values, nodes_values_as_tensor, "the thresholds"), locals())
    table = _attribute_array(target_weights, target_weights_as_tensor, "the weights")
    targets = _target_count(n_targets, target_ids or (0,))
    weights = _read_weights(trees, target_treeids, target_nodeids, target_ids, table, targets)
    positions = find_leaves(as_rows(X, trees.dtype), trees.forest)
    base = _base_values(base_values, base_values_as_tensor, targets)
    scores = aggregate(positions, trees.forest, weights, aggregate_function, trees.dtype, base)
    return p.cast(transform_target_scores(scores, targets, post_transform), float32)


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
    """Return [label of each row, float32 scores [rows, classes]] of an ensemble of classification trees.

    The label is the class with the greatest score before the post_transform. Without base values, a class for which a
    row reaches no weight cannot win. Two classes follow the rules of `classify_two`: one score may decide for both.

    Raises InvalidModelError in these cases:

    - The labels are missing, or post_transform is unknown.
    - The nodes do not form trees, or compare a feature that X lacks.
    - A weight belongs to a node or a class that does not exist.
    """
    trees = _read_trees(X, _attribute_array(nodes_values, nodes_values_as_tensor, "the thresholds"), locals())
    table = _attribute_array(class_weights, class_weights_as_tensor, "the weights")
    labels = label_tensor(classlabels_int64s, classlabels_strings)
    if labels is None:
        raise InvalidModelError("a TreeEnsembleClassifier needs the labels of its classes")
    classes = len(classlabels_strings or classlabels_int64s or ())
    base = _base_values(base_values, base_values_as_tensor, classes)
    positions = find_leaves(as_rows(X, trees.dtype), trees.forest)
    weights = _read_weights(trees, class_treeids, class_nodeids, class_ids, table, classes)
    if classes == 2:
        is_second, scores = classify_two(
            positions, trees.forest, weights, base.astype(trees.dtype.numpy), post_transform, trees.dtype
        )
        # onnxruntime returns 0 and 1 for any integer labels.
        label = p.take(labels, p.cast(is_second, int64), 0)
    else:
        scores = add_base_values(aggregate(positions, trees.forest, weights, "SUM", trees.dtype), base)
        votes = scores
        if not len(base) and not all(is_always_weighted(trees.forest, weights, target) for target in range(classes)):
            votes = p.where(
                has_weight(positions, trees.forest, weights), scores, -np.inf
            )  # a class without any weight cannot win
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
    """Return the scores [rows, targets] of an ensemble of trees, in the dtype of X.

    A score is the aggregate of the weights of the leaves that a row reaches (see `aggregate`). n_targets is by default
    the greatest of leaf_targetids plus 1. With a single target, only the post_transform PROBIT has an effect.

    Raises InvalidModelError in these cases:

    - The nodes do not form trees, or compare a feature that X lacks.
    - Lists differ in length, or there are no leaves, or too few sets of members.
    - A leaf has a target that does not exist.
    - The number of a mode, of aggregate_function or of post_transform is unknown.
    """
    splits = known_array(nodes_splits, "the thresholds").reshape(-1)
    table = known_array(leaf_weights, "the weights").reshape(-1)
    inner_modes, leaf_count = known_array(nodes_modes, "the modes").reshape(-1).astype(np.int64), len(table)
    count = len(inner_modes)
    node_lists = (splits, nodes_featureids, nodes_truenodeids, nodes_falsenodeids, nodes_trueleafs, nodes_falseleafs)
    tracks = nodes_missing_value_tracks_true or [0] * count
    if {len(node_list) for node_list in (*node_lists, tracks)} != {count} or not all(
        0 <= mode < LEAF for mode in inner_modes
    ):
        raise InvalidModelError("the lists of the trees' nodes differ in length, or a mode is unknown")
    if not leaf_count:
        raise InvalidModelError("the trees have no leaves")
    aggregate_name = _choose("aggregate_function", AGGREGATES, aggregate_function)
    transform_name = _choose("post_transform", POST_TRANSFORMS, post_transform)
    dtype = _compare_dtype(X, splits, table)

    def append_leaves(values: Any, value: Any) -> np.ndarray:
        return np.concatenate([np.asarray(values), np.full(leaf_count, value, np.asarray(values).dtype)])

    def children(ids: Sequence[int], leafs: Sequence[int]) -> np.ndarray:
        is_leaf = np.asarray(leafs) != 0
        bounds = np.where(is_leaf, leaf_count, count)
        if ((np.asarray(ids) < 0) | (np.asarray(ids) >= bounds)).any():
            raise InvalidModelError("a branch of a tree leads to a node or a leaf that does not exist")
        return append_leaves(np.asarray(ids) + count * is_leaf, 0)

    members = split_members(
        None if membership_values is None else known_array(membership_values, "the sets"), inner_modes
    )
    nodes = Nodes(
        feature=append_leaves(nodes_featureids, 0),
        threshold=append_leaves(splits.astype(dtype.numpy), 0),
        mode=append_leaves(inner_modes, LEAF),
        true=children(nodes_truenodeids, nodes_trueleafs),
        false=children(nodes_falsenodeids, nodes_falseleafs),
        tracks=append_leaves(tracks, 0),
        members=members,
        roots=np.asarray(tree_roots, np.int64),
    )
    forest = build_forest(nodes, False)
    targets = _target_count(n_targets, leaf_targetids or (0,))
    weights = reachable_weights(np.arange(count, count + leaf_count).tolist(), leaf_targetids, table, targets, forest)
    positions = find_leaves(as_rows(X, dtype), forest)
    scores = aggregate(positions, forest, weights, aggregate_name, dtype)
    # onnxruntime exchanges SOFTMAX and LOGISTIC
    return p.cast(transform_target_scores(scores, targets, transform_name), X.dtype)


def _choose(attribute: str, names: Sequence[str], number: int) -> str:
    """Return the name that a number of the attribute means. Raises InvalidModelError for another number."""
    if not 0 <= number < len(names):
        raise InvalidModelError("%s is a number from 0 to %d, not %d" % (attribute, len(names) - 1, number))
    return names[number]
