"""Random tree ensembles of ai.onnx.ml, compared with onnxruntime."""

import numpy as np
import pytest
from meanings import meaning
from ml import agree, grown, ours, proto, theirs
from onnx import TensorProto, numpy_helper

from onnx_compat.errors import InvalidModelError, OnnxCompatError

FLOAT, INT64, STRING = TensorProto.FLOAT, TensorProto.INT64, TensorProto.STRING
ORDERED = ("BRANCH_LEQ", "BRANCH_LT", "BRANCH_GTE", "BRANCH_GT")
ALL = (*ORDERED, "BRANCH_EQ", "BRANCH_NEQ")
TRANSFORMS = ("NONE", "SOFTMAX", "LOGISTIC", "SOFTMAX_ZERO")
DTYPES = (np.float32, np.float64)


def rows(random, dtype, count=9, features=3):
    """Return rows of small numbers, many of which equal thresholds; some are missing (NaN)."""
    x = random.randint(-4, 5, (count, features)) / 2
    if np.dtype(dtype).kind == "f":
        x[random.rand(*x.shape) < 0.2] = np.nan
    return x.astype(dtype)


def on_grid(random):
    return lambda: random.randint(-3, 4) / 2


def some_modes(random):
    return [(item,) for item in ALL][random.randint(6)] if random.rand() < 0.5 else (ALL, ORDERED)[random.randint(2)]


def as_tensors(attributes, *names):
    """Return the attributes with each list of floats as a tensor of doubles."""
    for name in names:
        if name in attributes:
            tensor = numpy_helper.from_array(np.asarray(attributes.pop(name), np.float64))
            attributes[name + "_as_tensor"] = tensor


@pytest.mark.parametrize("seed", range(80))
def test_a_regressor(seed):
    random = np.random.RandomState(seed)
    targets = random.randint(1, 4)
    label_attributes = [
        lambda tree: range(targets),
        lambda tree: [tree % targets],
        lambda tree: np.flatnonzero(random.rand(targets) < 0.6),
    ]
    nodes = grown(
        random, random.randint(1, 6), random.randint(0, 5), 3, some_modes(random), on_grid(random),
        label_attributes[random.randint(3)], random.randn,
    )  # fmt: skip
    nodes.update(n_targets=targets, aggregate_function=("SUM", "AVERAGE", "MIN", "MAX")[random.randint(4)])
    nodes["post_transform"] = TRANSFORMS[seed % 4]
    if not nodes["target_ids"]:
        nodes.update(target_treeids=[0], target_nodeids=[0], target_ids=[0], target_weights=[1.0])
    if random.rand() < 0.5:
        nodes["base_values"] = random.randn(targets).tolist()
    dtype = DTYPES[random.randint(2)]
    version = 1 + 2 * int(random.rand() < 0.6)
    if dtype is np.float64 and version == 3:
        as_tensors(nodes, "nodes_values", "target_weights", "base_values")
    agree("TreeEnsembleRegressor", version, [rows(random, dtype)], [FLOAT], **nodes)


@pytest.mark.parametrize("seed", range(120))
def test_a_classifier(seed):
    random = np.random.RandomState(1000 + seed)
    classes = random.randint(3, 6) if random.rand() < 0.4 else 2
    label_attributes = [
        lambda tree: range(classes), lambda tree: [tree % classes], lambda tree: [0], lambda tree: [1],
        lambda tree: np.flatnonzero(random.rand(classes) < 0.6),
    ][random.randint(5)]  # fmt: skip
    weight = (random.randn, random.rand)[random.randint(2)]
    nodes = grown(
        random,
        random.randint(1, 6),
        random.randint(1, 5),
        3,
        some_modes(random),
        on_grid(random),
        label_attributes,
        weight,
    )
    for key in ("treeids", "nodeids", "ids", "weights"):
        nodes["class_" + key] = nodes.pop("target_" + key)
    nodes["post_transform"] = TRANSFORMS[seed % 4]
    text = random.rand() < 0.5
    numbers = [7, 5, 6, 9, 8][:classes] if classes > 2 else [0, 1]  # of two, onnxruntime answers with these anyway
    labels = list("vwxyz")[:classes] if text else numbers
    nodes["classlabels_strings" if text else "classlabels_int64s"] = labels
    if random.rand() < 0.5:
        nodes["base_values"] = random.randn(classes).tolist()
    dtype = (*DTYPES, np.int64, np.int32)[random.randint(4)]
    version = 1 + 2 * int(random.rand() < 0.6)
    if dtype is np.float64 and version == 3:
        as_tensors(nodes, "nodes_values", "class_weights", "base_values")
    agree("TreeEnsembleClassifier", version, [rows(random, dtype)], [STRING if text else INT64, FLOAT], **nodes)


def test_two_classes_have_the_labels_of_the_model():
    random = np.random.RandomState(11)
    nodes = grown(random, 3, 3, 3, some_modes(random), on_grid(random), lambda tree: range(2), random.randn)
    for key in ("treeids", "nodeids", "ids", "weights"):
        nodes["class_" + key] = nodes.pop("target_" + key)
    x = rows(random, np.float32)
    labels = []
    for numbers in ([0, 1], [7, 5]):
        model = proto("TreeEnsembleClassifier", 3, [x], [INT64, FLOAT], {**nodes, "classlabels_int64s": numbers})
        labels.append(ours(model, {"x0": x})[0])
    assert set(labels[1].tolist()) == {7, 5}
    np.testing.assert_array_equal(np.asarray([7, 5])[labels[0]], labels[1])


def test_one_base_value_for_one_score_of_two_classes():
    random = np.random.RandomState(5)
    nodes = grown(random, 4, 3, 3, ("BRANCH_LT",), random.randn, lambda tree: [0], random.rand)
    for key in ("treeids", "nodeids", "ids", "weights"):
        nodes["class_" + key] = nodes.pop("target_" + key)
    x = random.randn(20, 3).astype(np.float32)
    for transform in TRANSFORMS:
        agree(
            "TreeEnsembleClassifier", 3, [x], [INT64, FLOAT], post_transform=transform, base_values=[-1.5],
            classlabels_int64s=[30, 40], **nodes,
        )  # fmt: skip


def ensemble(random, dtype, aggregate, transform, targets):
    """Return a TreeEnsemble (opset 5) of depth 2 that uses every comparison mode."""
    count = 6
    modes = [6, 0, 1, 2, 3, 4, 5, 6, 6, 0, 5, 3, 2, 1, 4, 6, 6, 1]
    inner, leaf, roots = [], 0, []
    for tree in range(count):
        first = 3 * tree
        roots.append(first)
        inner.append((first + 1, 0, first + 2, 0))
        for _ in range(2):
            inner.append((leaf, 1, leaf + 1, 1))
            leaf += 2
    members = [[-2, 1], [1], [1, 2], [-1, 1, 2], [2, 9]]  # onnxruntime takes integers only
    flat = np.concatenate([np.append(item, np.nan) for item in members]).astype(dtype)
    splits = [random.randint(-3, 4) / 2 for _ in modes]
    return {
        "tree_roots": roots,
        "nodes_modes": numpy_helper.from_array(np.asarray(modes, np.uint8)),
        "nodes_featureids": [int(random.randint(3)) for _ in modes],
        "nodes_splits": numpy_helper.from_array(np.asarray(splits, dtype)),
        "nodes_truenodeids": [item[0] for item in inner],
        "nodes_trueleafs": [item[1] for item in inner],
        "nodes_falsenodeids": [item[2] for item in inner],
        "nodes_falseleafs": [item[3] for item in inner],
        "nodes_missing_value_tracks_true": [int(random.rand() < 0.5) for _ in modes],
        "leaf_targetids": [k % targets for k in range(leaf)],
        "leaf_weights": numpy_helper.from_array(random.randn(leaf).astype(dtype)),
        "membership_values": numpy_helper.from_array(flat),
        "n_targets": targets,
        "aggregate_function": aggregate,
        "post_transform": transform,
    }


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("aggregate", range(4))
@pytest.mark.parametrize("transform", [0, 3])
def test_an_ensemble_with_sets(dtype, aggregate, transform):
    random = np.random.RandomState(7 * aggregate + transform)
    kind = FLOAT if dtype is np.float32 else TensorProto.DOUBLE
    x = np.trunc(rows(random, dtype, 60))  # onnxruntime finds 1.5 in some sets that have 1
    for targets in (1, 2):
        agree("TreeEnsemble", 5, [x], [kind], **ensemble(random, dtype, aggregate, transform, targets))


def test_transforms_have_the_numbers_of_the_specification():
    """In the specification 1 is SOFTMAX and 2 is LOGISTIC. onnxruntime exchanges them."""
    x = rows(np.random.RandomState(5), np.float32, 20)
    plain, softmax, logistic = (
        ours(
            proto("TreeEnsemble", 5, [x], [FLOAT], ensemble(np.random.RandomState(6), np.float32, 1, k, 2)), {"x0": x}
        )[0]
        for k in range(3)
    )
    powers = np.exp(plain - plain.max(1, keepdims=True))
    np.testing.assert_allclose(softmax, powers / powers.sum(1, keepdims=True), rtol=1e-5)
    np.testing.assert_allclose(logistic, 1 / (1 + np.exp(-plain)), rtol=1e-5)


def test_half_precision_is_compared_exactly():
    """The same trees and numbers give the same result in float16 as in another dtype."""
    nodes = {dtype: ensemble(np.random.RandomState(3), dtype, 1, 0, 2) for dtype in (np.float16, np.float32)}
    x = rows(np.random.RandomState(4), np.float16, 40)
    (half,) = ours(proto("TreeEnsemble", 5, [x], [TensorProto.FLOAT16], nodes[np.float16]), {"x0": x})
    wide = x.astype(np.float32)
    (full,) = ours(proto("TreeEnsemble", 5, [wide], [FLOAT], nodes[np.float32]), {"x0": wide})
    assert half.dtype == np.float16
    np.testing.assert_allclose(half, full, rtol=2e-3, atol=2e-3)


def chain(depth):
    """Return one tree that compares x > k at level k. Its leaf is the number of comparisons that hold."""
    ids = list(range(2 * depth + 1))
    last = 2 * depth
    return {
        "nodes_treeids": [0] * len(ids),
        "nodes_nodeids": ids,
        "nodes_featureids": [0] * len(ids),
        "nodes_values": [float(k // 2) for k in ids],
        "nodes_modes": ["BRANCH_GT" if k % 2 == 0 and k < last else "LEAF" for k in ids],
        "nodes_truenodeids": [k + 2 if k % 2 == 0 and k < last else 0 for k in ids],
        "nodes_falsenodeids": [k + 1 if k % 2 == 0 and k < last else 0 for k in ids],
        "target_treeids": [0] * (depth + 1),
        "target_nodeids": [*range(1, last, 2), last],
        "target_ids": [0] * (depth + 1),
        "target_weights": [float(k) for k in range(depth + 1)],
        "n_targets": 1,
    }


def test_a_deep_tree_loops():
    x = np.array([[-1.0], [0.5], [31.5], [32.5], [99.0], [1000.0], [70.0]], np.float32)
    (scores,) = agree("TreeEnsembleRegressor", 1, [x], [FLOAT], **chain(100))
    assert scores.reshape(-1).tolist() == [0, 1, 32, 33, 99, 100, 70]


def test_thresholds_beyond_single_precision():
    tree = chain(2)
    tree["nodes_values"] = [1.0, 0.0, 1.0 + 1e-12, 0.0, 0.0]
    as_tensors(tree, "nodes_values", "target_weights")
    x = np.array([[1.0], [1.0 + 1e-13], [1.0 + 1e-11]])
    (scores,) = agree("TreeEnsembleRegressor", 3, [x], [FLOAT], **tree)
    assert scores.reshape(-1).tolist() == [0, 1, 2]


def test_infinities_and_zeros():
    """A threshold of 0 separates the smallest number from +0 and -0. Infinite thresholds are compared exactly."""
    tiny = np.finfo(np.float32).tiny  # what is less, TensorFlow takes for zero
    x = np.array([[0.0], [-0.0], [tiny], [-1.0], [np.inf], [-np.inf], [np.nan]], np.float32)
    for mode in ALL:
        for threshold in (0.0, np.inf, -np.inf):
            for tracks in (0, 1):
                tree = chain(1)
                tree.update(
                    nodes_values=[threshold, 0.0, 0.0], nodes_modes=[mode, "LEAF", "LEAF"],
                    nodes_missing_value_tracks_true=[tracks, 0, 0],
                )  # fmt: skip
                agree("TreeEnsembleRegressor", 1, [x], [FLOAT], **tree)


def test_the_newest_versions_mean_the_same():
    """Version 5 marks both operators as deprecated, and onnxruntime refuses them.

    The expected values are those of version 3.
    """
    x = np.array([[0.5], [7.0]], np.float32)
    tree = chain(3)
    model = proto("TreeEnsembleRegressor", 5, [x], [FLOAT], tree)
    older = proto("TreeEnsembleRegressor", 3, [x], [FLOAT], tree)
    assert ours(model, {"x0": x})[0].tolist() == theirs(older, {"x0": x})[0].tolist() == [[1.0], [3.0]]


@pytest.mark.parametrize(
    ("name", "value", "text"),
    [
        ("nodes_truenodeids", [0, 0, 0], "child of itself"),
        ("nodes_truenodeids", [9, 0, 0], "does not exist"),
        ("nodes_modes", ["BRANCH_UP", "LEAF", "LEAF"], "mode"),
        ("nodes_featureids", [4, 0, 0], "feature 4"),
        ("nodes_values", [1.0], "differ in length"),
        ("target_ids", [0, 5], "target 5"),
        ("target_nodeids", [1, 8], "does not exist"),
    ],
)
def test_invalid_trees_are_refused(name, value, text):
    x = np.zeros((2, 1), np.float32)
    tree = chain(1)
    tree[name] = value
    with pytest.raises(OnnxCompatError, match=text):
        ours(proto("TreeEnsembleRegressor", 1, [x], [FLOAT], tree), {"x0": x})


def test_a_cycle_of_nodes_is_refused():
    x = np.zeros((2, 1), np.float32)
    nodes = {
        "tree_roots": [0], "nodes_modes": numpy_helper.from_array(np.zeros(2, np.uint8)), "nodes_featureids": [0, 0],
        "nodes_splits": numpy_helper.from_array(np.zeros(2, np.float32)), "nodes_truenodeids": [1, 0],
        "nodes_trueleafs": [0, 0], "nodes_falsenodeids": [0, 0], "nodes_falseleafs": [1, 1], "leaf_targetids": [0],
        "leaf_weights": numpy_helper.from_array(np.ones(1, np.float32)), "n_targets": 1,
    }  # fmt: skip
    with pytest.raises(OnnxCompatError, match="do not form trees"):
        ours(proto("TreeEnsemble", 5, [x], [FLOAT], nodes), {"x0": x})


@pytest.mark.parametrize("name", ["aggregate_function", "post_transform"])
@pytest.mark.parametrize("number", [-1, 9])
def test_an_unknown_number_of_a_function_is_refused(name, number):
    x = np.zeros((2, 3), np.float32)
    attributes = dict(ensemble(np.random.RandomState(6), np.float32, 1, 0, 2), **{name: number})
    with pytest.raises(InvalidModelError, match="%s is a number from 0" % name):
        ours(proto("TreeEnsemble", 5, [x], [FLOAT], attributes), {"x0": x})


@pytest.mark.parametrize("wrong", [-1, 2])
def test_a_target_that_is_out_of_range_is_named(wrong):
    leaf = {"nodes_treeids": [0], "nodes_nodeids": [0], "nodes_featureids": [0], "nodes_values": [0.0]}
    leaf.update(nodes_modes=["LEAF"], nodes_truenodeids=[0], nodes_falsenodeids=[0], n_targets=2)
    leaf.update(target_treeids=[0, 0, 0], target_nodeids=[0, 0, 0], target_weights=[1.0, 2.0, 3.0])
    with pytest.raises(InvalidModelError, match="a leaf has a weight for target %d; there are 2 targets" % wrong):
        meaning("TreeEnsembleRegressor", 3, "ai.onnx.ml")(np.ones((1, 1), np.float32), target_ids=[1, wrong, 0], **leaf)


@pytest.mark.parametrize(("number", "is_leaf"), [(1, 0), (-1, 1), (2, 1), (-1, 0)])
def test_a_branch_to_a_node_or_a_leaf_that_does_not_exist(number: int, is_leaf: int) -> None:
    """Nodes and leaves have numbers of their own: a node number beyond the nodes is no leaf."""
    x = np.float32([[0.0], [1.0]])
    nodes = {
        "nodes_featureids": [0], "tree_roots": [0],
        "nodes_splits": numpy_helper.from_array(np.float32([0.5])), "nodes_modes": numpy_helper.from_array(np.uint8([0])),
        "nodes_truenodeids": [number], "nodes_trueleafs": [is_leaf], "nodes_falsenodeids": [1], "nodes_falseleafs": [1],
        "leaf_targetids": [0, 0], "leaf_weights": numpy_helper.from_array(np.float32([1, 2])), "n_targets": 1,
    }  # fmt: skip
    with pytest.raises(InvalidModelError, match="does not exist"):
        ours(proto("TreeEnsemble", 5, [x], [FLOAT], nodes), {"x0": x})
    valid = {**nodes, "nodes_truenodeids": [0], "nodes_trueleafs": [1]}
    np.testing.assert_array_equal(ours(proto("TreeEnsemble", 5, [x], [FLOAT], valid), {"x0": x})[0], [[1], [2]])
