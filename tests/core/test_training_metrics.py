"""Metrics: ties, labels out of range, weights, and the choice of the accuracy."""

import re

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from matrix.harness.functions import run_function
from onnx_compat.errors import InputError
from onnx_compat.tracing.values import lift
from onnx_compat.training.losses import LOSSES, scalar_loss
from onnx_compat.training.metrics import METRICS, metric_function, scalar_metric

SCORES = np.array([[0.1, 0.7, 0.2], [0.3, 0.3, 0.4], [0.5, 0.5, 0.0]], np.float32)


def measure(name, *arrays, is_symbolic=False, **options):
    (got,) = run_function(
        lambda y, x, *w: scalar_metric(name, y, x, *w, **options),
        [np.asarray(a) for a in arrays],
        is_symbolic=is_symbolic,
    )
    assert got.shape == ()
    return float(got)


@pytest.mark.parametrize("is_symbolic", [False, True])
@pytest.mark.parametrize(
    ("name", "labels", "options", "expected"),
    [
        ("sparse_categorical_accuracy", [1, 2, 1], {}, 2 / 3),  # of equal scores, the first is the largest
        ("sparse_categorical_accuracy", [[1], [2], [0]], {}, 1),
        ("sparse_categorical_accuracy", [1.0, 2.0, 5.0], {}, 2 / 3),
        ("categorical_accuracy", [[0, 1, 0], [0, 0, 1], [1, 0, 0]], {}, 1),
        ("sparse_top_k_categorical_accuracy", [2, 0, 1], {"k": 1}, 1 / 3),  # of equal scores, both are the largest
        ("sparse_top_k_categorical_accuracy", [2, 0, 2], {"k": 2}, 2 / 3),
        ("sparse_top_k_categorical_accuracy", [2, 0, 2], {}, 1),
        ("sparse_top_k_categorical_accuracy", [3, -1, 2], {}, 1 / 3),  # no class
        ("top_k_categorical_accuracy", [[0, 0, 1], [1, 0, 0], [0, 0, 1]], {"k": 2}, 2 / 3),
        ("binary_accuracy", [[0, 1, 0], [0, 0, 1], [1, 1, 0]], {"threshold": 0.3}, 1),
        ("binary_accuracy", [[0, 1, 0], [0, 0, 1], [1, 1, 0]], {}, 6 / 9),
        ("accuracy", [1, 2, 0], {}, 1),
        ("acc", [[0, 1, 0], [0, 0, 1], [1, 0, 0]], {}, 1),
        ("rmse", [[0.1, 0.7, 0.2], [0.3, 0.3, 0.4], [0.5, 0.5, 0.6]], {}, 0.2),
    ],
)
def test_values(name, labels, options, expected, is_symbolic):
    assert measure(name, labels, SCORES, is_symbolic=is_symbolic, **options) == pytest.approx(expected)


def test_a_score_that_is_not_finite_is_not_among_the_best():
    scores = np.array([[np.nan, 1, 2], [np.inf, 1, 2], [1, np.nan, 0]], np.float32)
    assert measure("sparse_top_k_categorical_accuracy", [0, 0, 0], scores, k=2) == pytest.approx(1 / 3)


@settings(max_examples=25, deadline=None)
@given(
    st.integers(0, 6),
    st.integers(0, 1000),
    st.sampled_from(["accuracy", "rmse", "mae", "sparse_top_k_categorical_accuracy"]),
)
def test_weights_count_examples(count, seed, name):
    """A weight of 2 is an example given twice, a weight of 0 an example left out. The mean of no example is 0."""
    random = np.random.RandomState(seed)
    x = random.standard_normal((count, 7)).astype(np.float32)
    is_sparse = name in ("accuracy", "sparse_top_k_categorical_accuracy")
    y = random.randint(0, 7, count) if is_sparse else random.standard_normal((count, 7)).astype(np.float32)
    weights = random.randint(0, 3, count)
    repeated = np.repeat(np.arange(count), weights)
    got = measure(name, y, x, weights.astype(np.float32), is_symbolic=True)
    expected = measure(name, y[repeated], x[repeated], is_symbolic=True)
    assert got == pytest.approx(expected, rel=1e-5)


def test_ignored_classes_do_not_count_in_weighted_means():
    y, weights = np.array([0, 1, 2]), np.array([1, 5, 2], np.float32)
    got = measure("sparse_categorical_crossentropy", y, SCORES + 0.01, weights, ignore_class=1)
    expected = measure("sparse_categorical_crossentropy", y[[0, 2]], (SCORES + 0.01)[[0, 2]], weights[[0, 2]])
    assert got == pytest.approx(expected)


@pytest.mark.parametrize("name", ["mse", "huber", "categorical_crossentropy"])
def test_a_loss_as_a_metric_is_its_mean(name):
    y = np.eye(3, dtype=np.float32)
    (loss,) = run_function(lambda y, x: scalar_loss(name, y, x), [y, SCORES + 0.1])
    assert measure(name, y, SCORES + 0.1) == pytest.approx(float(loss))
    assert set(LOSSES) <= set(METRICS)


def test_the_cosine_similarity_is_minus_the_loss():
    assert measure("cosine_similarity", SCORES, SCORES) == pytest.approx(1)
    assert metric_function("CosineSimilarity") is not LOSSES["cosine_similarity"]


@pytest.mark.parametrize(
    ("name", "options", "message"),
    [
        ("acuracy", {}, "there is no metric 'acuracy'.*\n.*did you mean 'accuracy'"),
        ("accuracy", {"treshold": 1}, "has no option 'treshold'"),
        ("binary_accuracy", {"treshold": 1}, "did you mean 'threshold'"),
        ("top_k_categorical_accuracy", {"k": 0}, r"k must be a number in \[1, inf\)"),
        ("top_k_categorical_accuracy", {"k": "3"}, "k must be a number in"),
        ("top_k_categorical_accuracy", {"k": 2.5}, "k must be an integer"),
        ("categorical_accuracy", {}, "labels have the shape"),
    ],
)
def test_arguments_that_do_not_fit_are_refused(name, options, message):
    with pytest.raises(InputError) as caught:
        scalar_metric(name, lift(np.zeros((3, 2))), lift(SCORES), **options)
    assert re.search(message, str(caught.value))
