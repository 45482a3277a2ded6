"""Losses, their derivatives and metrics, compared with Keras 3 and with torch."""

from typing import Any, Callable, Dict, List, NamedTuple, Tuple

import keras
import numpy as np
import pytest
from onnx_compat_keras.features import back_end

from matrix.harness.functions import run_function, run_with_derivative
from matrix.harness.generators import per_test
from onnx_compat.training.losses import LOSSES, scalar_loss
from onnx_compat.training.metrics import METRICS, scalar_metric

RNG = per_test(np.random.RandomState(3))
#: Results of float32 arithmetic in another order of operations.
RTOL, ATOL = 1e-5, 1e-6
OF_ONNX = ("negative_log_likelihood", "softmax_cross_entropy")


class Sample(NamedTuple):
    """Labels and predictions of a loss, its options, and the name of the class of Keras."""

    labels: np.ndarray
    predictions: np.ndarray
    options: Dict[str, Any]
    keras_class: str


def values(*shape: int) -> np.ndarray:
    return RNG.standard_normal(shape).astype(np.float32)


def probabilities(*shape: int) -> np.ndarray:
    exponentials = np.exp(RNG.standard_normal(shape))
    return (exponentials / exponentials.sum(-1, keepdims=True)).astype(np.float32)


def indices(classes: int, *shape: int) -> np.ndarray:
    return RNG.randint(0, classes, shape).astype(np.int64)


def one_hot(classes: int, *shape: int) -> np.ndarray:
    return np.eye(classes, dtype=np.float32)[indices(classes, *shape)]


def binary(*shape: int) -> np.ndarray:
    return RNG.randint(0, 2, shape).astype(np.float32)


def unit_vectors(count: int, length: int) -> np.ndarray:
    vectors = RNG.standard_normal((count, length))
    return (vectors / np.sqrt((vectors**2).sum(-1, keepdims=True))).astype(np.float32)


def sample(name: str) -> Sample:
    labels, predictions, keras_class, options = SAMPLES[name]()
    return Sample(labels, predictions, options, keras_class)


Made = Callable[[], Tuple[Any, Any, str, Dict[str, Any]]]
SAMPLES: Dict[str, Made] = {
    "mean_squared_error": lambda: (values(5, 3), values(5, 3), "MeanSquaredError", {}),
    "mean_squared_error-column": lambda: (values(5), values(5, 1), "MeanSquaredError", {}),
    "mean_absolute_error": lambda: (values(5, 3), values(5, 3), "MeanAbsoluteError", {}),
    "mean_absolute_percentage_error": lambda: (values(5, 3), values(5, 3), "MeanAbsolutePercentageError", {}),
    "mean_squared_logarithmic_error": lambda: (values(5, 3), values(5, 3), "MeanSquaredLogarithmicError", {}),
    "cosine_similarity": lambda: (values(5, 3), values(5, 3), "CosineSimilarity", {}),
    "cosine_similarity-axis": lambda: (values(5, 3, 2), values(5, 3, 2), "CosineSimilarity", {"axis": 1}),
    "huber": lambda: (values(5, 3) * 3, values(5, 3), "Huber", {"delta": 1.5}),
    "log_cosh": lambda: (values(5, 3) * 30, values(5, 3), "LogCosh", {}),
    "poisson": lambda: (np.abs(values(5, 3)), np.abs(values(5, 3)), "Poisson", {}),
    "hinge": lambda: (binary(5, 3), values(5, 3), "Hinge", {}),
    "hinge-signed": lambda: (binary(5, 3) * 2 - 1, values(5, 3), "Hinge", {}),
    "squared_hinge": lambda: (binary(5, 3), values(5, 3), "SquaredHinge", {}),
    "categorical_hinge": lambda: (one_hot(4, 5), values(5, 4), "CategoricalHinge", {}),
    "kl_divergence": lambda: (probabilities(5, 4), probabilities(5, 4), "KLDivergence", {}),
    "binary_crossentropy": lambda: (binary(5, 3), probabilities(5, 3), "BinaryCrossentropy", {}),
    "binary_crossentropy-logits": lambda: (
        binary(5, 3), values(5, 3) * 20, "BinaryCrossentropy", {"from_logits": True, "label_smoothing": 0.1}
    ),
    "binary_focal_crossentropy": lambda: (binary(5, 3), probabilities(5, 3), "BinaryFocalCrossentropy", {}),
    "binary_focal_crossentropy-balanced": lambda: (
        binary(5, 3), values(5, 3), "BinaryFocalCrossentropy",
        {"from_logits": True, "apply_class_balancing": True, "alpha": 0.4, "gamma": 1.5, "label_smoothing": 0.2},
    ),
    "categorical_crossentropy": lambda: (one_hot(4, 5), probabilities(5, 4), "CategoricalCrossentropy", {}),
    "categorical_crossentropy-logits": lambda: (
        one_hot(4, 5), values(5, 4) * 20, "CategoricalCrossentropy", {"from_logits": True, "label_smoothing": 0.1}
    ),
    "categorical_crossentropy-axis": lambda: (
        np.moveaxis(one_hot(4, 5, 2), -1, 1), values(5, 4, 2), "CategoricalCrossentropy", {"from_logits": True, "axis": 1}
    ),
    "categorical_focal_crossentropy": lambda: (
        one_hot(4, 5), probabilities(5, 4), "CategoricalFocalCrossentropy", {}
    ),
    "categorical_focal_crossentropy-logits": lambda: (
        one_hot(4, 5), values(5, 4), "CategoricalFocalCrossentropy",
        {"from_logits": True, "alpha": 0.4, "gamma": 1.5, "label_smoothing": 0.2},
    ),
    "sparse_categorical_crossentropy": lambda: (
        indices(4, 5), probabilities(5, 4), "SparseCategoricalCrossentropy", {}
    ),
    "sparse_categorical_crossentropy-logits": lambda: (
        indices(4, 5, 2), values(5, 2, 4) * 20, "SparseCategoricalCrossentropy", {"from_logits": True}
    ),
    "sparse_categorical_crossentropy-ignore": lambda: (
        indices(4, 9), values(9, 4), "SparseCategoricalCrossentropy", {"from_logits": True, "ignore_class": 2}
    ),
    "categorical_generalized_cross_entropy": lambda: (
        indices(4, 5), probabilities(5, 4), "CategoricalGeneralizedCrossEntropy", {"q": 0.7}
    ),
    "dice": lambda: (binary(5, 3, 2), probabilities(5, 3, 2), "Dice", {}),
    "dice-axes": lambda: (binary(5, 3, 2), probabilities(5, 3, 2), "Dice", {"axis": (1, 2)}),
    "tversky": lambda: (binary(5, 3, 2), probabilities(5, 3, 2), "Tversky", {"alpha": 0.3, "beta": 0.6}),
    "tversky-axes": lambda: (binary(5, 3, 2), probabilities(5, 3, 2), "Tversky", {"axis": (1, 2)}),
    "circle": lambda: (np.array([0, 1, 0, 2, 1, 0]), unit_vectors(6, 3), "Circle", {}),
    "circle-diagonal": lambda: (
        np.array([0, 1, 0, 2, 1, 0]), unit_vectors(6, 3), "Circle", {"gamma": 4.0, "margin": 0.2, "remove_diagonal": False}
    ),
    "ctc": lambda: (np.array([[1, 2, 2, 0], [3, 0, 0, 0], [1, 1, 3, 2]]), values(3, 7, 4), "CTC", {}),
}  # fmt: skip


def test_every_loss_has_a_sample() -> None:
    assert {name.split("-")[0] for name in SAMPLES} | set(OF_ONNX) == set(LOSSES)


def keras_loss(case: Sample, **common: Any) -> Any:
    return getattr(keras.losses, case.keras_class)(**case.options, **common)


def keras_derivative(function: Callable[[Any], Any], x: np.ndarray) -> np.ndarray:
    """Return the derivative of a scalar function by the back end; JAX and torch compute it, TensorFlow too."""
    if back_end() == "tensorflow":
        import tensorflow as tf

        with tf.GradientTape() as tape:
            variable = tf.Variable(x)
            result = function(variable)
        return np.asarray(tape.gradient(result, variable))
    if back_end() == "torch":
        import torch

        variable = torch.tensor(x, requires_grad=True, device="cpu")
        with keras.device("cpu"):
            function(variable).backward()
        return np.asarray(variable.grad)
    import jax

    return np.asarray(jax.grad(function)(x))


def loss_with_derivative(case: Sample, **common: Any) -> List[np.ndarray]:
    """Return [the loss of a batch, its derivative] of Keras."""
    loss = keras_loss(case, **common)
    value = keras.ops.convert_to_numpy(loss(case.labels, case.predictions))
    return [value, keras_derivative(lambda x: loss(case.labels, x), case.predictions)]


@pytest.mark.parametrize("name", sorted(SAMPLES))
@pytest.mark.parametrize("is_symbolic", [False, True], ids=["static", "symbolic"])
def test_the_mean_and_its_derivative_are_those_of_keras(name: str, is_symbolic: bool) -> None:
    case = sample(name)
    got = run_with_derivative(
        lambda labels, x: scalar_loss(case.keras_class, labels, x, **case.options),
        [case.labels, case.predictions], 1, is_symbolic=is_symbolic,
    )  # fmt: skip
    expected = loss_with_derivative(case)
    for mine, theirs in zip(got, expected):
        np.testing.assert_allclose(mine, theirs, RTOL, ATOL * max(1.0, float(np.abs(theirs).max())))


@pytest.mark.parametrize("reduction", ["mean", "sum", "none"])
@pytest.mark.parametrize("name", sorted(SAMPLES))
def test_weighted_losses_are_those_of_keras(name: str, reduction: str) -> None:
    case = sample(name)
    losses = lambda reduction, *weight: run_function(  # noqa: E731
        lambda labels, x, *w: scalar_loss(case.keras_class, labels, x, *w, reduction=reduction, **case.options),
        [case.labels, case.predictions, *weight],
    )[0]
    weight = np.asarray(RNG.rand(*losses("none").shape), np.float32)
    loss = keras_loss(case, reduction=reduction)
    expected = keras.ops.convert_to_numpy(loss(case.labels, case.predictions, sample_weight=weight))
    np.testing.assert_allclose(losses(reduction, weight), expected, RTOL, ATOL * max(1.0, np.abs(expected).max()))


METRIC_SAMPLES: Dict[str, Made] = {
    "binary_accuracy": lambda: (binary(9, 3), probabilities(9, 3), "BinaryAccuracy", {"threshold": 0.3}),
    "categorical_accuracy": lambda: (one_hot(4, 9), values(9, 4), "CategoricalAccuracy", {}),
    "sparse_categorical_accuracy": lambda: (indices(4, 9), values(9, 4), "SparseCategoricalAccuracy", {}),
    "sparse_categorical_accuracy-sequence": lambda: (
        indices(4, 9, 2), values(9, 2, 4), "SparseCategoricalAccuracy", {}
    ),
    "sparse_categorical_accuracy-column": lambda: (indices(4, 9, 1), values(9, 4), "SparseCategoricalAccuracy", {}),
    "top_k_categorical_accuracy": lambda: (one_hot(7, 9), values(9, 7), "TopKCategoricalAccuracy", {"k": 3}),
    "sparse_top_k_categorical_accuracy": lambda: (
        indices(7, 9), values(9, 7), "SparseTopKCategoricalAccuracy", {"k": 2}
    ),
    "root_mean_squared_error": lambda: (values(9, 3), values(9, 3), "RootMeanSquaredError", {}),
    "cosine_similarity": lambda: (values(9, 3), values(9, 3), "CosineSimilarity", {}),
    "mean_squared_error": SAMPLES["mean_squared_error"],
    "sparse_categorical_crossentropy": SAMPLES["sparse_categorical_crossentropy"],
}  # fmt: skip


def test_every_metric_has_a_sample() -> None:
    assert {name.split("-")[0] for name in METRIC_SAMPLES} | {"accuracy"} | set(LOSSES) == set(METRICS)


@pytest.mark.parametrize("is_weighted", [False, True], ids=["plain", "weighted"])
@pytest.mark.parametrize("name", sorted(METRIC_SAMPLES))
def test_metrics_are_those_of_keras(name: str, is_weighted: bool) -> None:
    labels, predictions, keras_class, options = METRIC_SAMPLES[name]()
    shape = labels.shape if labels.ndim < predictions.ndim else labels.shape[:-1]
    if keras_class == "BinaryAccuracy":
        shape = labels.shape
    weight = [RNG.rand(*shape).astype(np.float32)] if is_weighted else []
    (got,) = run_function(
        lambda y, x, *w: scalar_metric(keras_class, y, x, *w, **options), [labels, predictions, *weight]
    )
    expected = getattr(keras.metrics, keras_class)(**options)(labels, predictions, *weight)
    np.testing.assert_allclose(got, keras.ops.convert_to_numpy(expected), 1e-6, 1e-6)


@pytest.mark.parametrize("name", ["accuracy", "acc"])
@pytest.mark.parametrize(
    ("labels", "predictions"),
    [
        (binary(9), probabilities(9, 2)[:, :1]),
        (binary(9, 1), probabilities(9, 2)[:, :1]),
        (indices(4, 9), values(9, 4)),
        (indices(4, 9, 1), values(9, 4)),
        (one_hot(4, 9), values(9, 4)),
    ],
)
def test_accuracy_is_chosen_as_keras_does(name: str, labels: np.ndarray, predictions: np.ndarray) -> None:
    from keras.src.trainers.compile_utils import get_metric

    expected = get_metric(name, labels, predictions)(labels, predictions)
    (got,) = run_function(lambda y, x: scalar_metric(name, y, x), [labels, predictions])
    assert got == pytest.approx(float(keras.ops.convert_to_numpy(expected)))


if back_end() == "torch":

    @pytest.mark.parametrize("is_weighted", [False, True], ids=["plain", "weighted"])
    @pytest.mark.parametrize("ignore_index", [None, 1])
    @pytest.mark.parametrize("reduction", ["mean", "sum", "none"])
    @pytest.mark.parametrize("name", OF_ONNX)
    def test_the_losses_of_onnx_are_those_of_torch(
        name: str, reduction: str, ignore_index: Any, is_weighted: bool
    ) -> None:
        import torch
        from torch.nn import functional

        labels, x = indices(4, 6, 2), np.log(np.moveaxis(probabilities(6, 2, 4), -1, 1))
        weights = RNG.rand(4).astype(np.float32) if is_weighted else None
        got = run_with_derivative(
            lambda y, x: scalar_loss(
                name, y, x, reduction=reduction, ignore_index=ignore_index, weights=weights
            ),
            [labels, x], 1,
        )  # fmt: skip
        function = functional.nll_loss if name == OF_ONNX[0] else functional.cross_entropy
        variable = torch.tensor(x, requires_grad=True, device="cpu")
        expected = function(
            variable,
            torch.tensor(labels, device="cpu"),
            None if weights is None else torch.tensor(weights, device="cpu"),
            ignore_index=-100 if ignore_index is None else ignore_index,
            reduction=reduction,
        )
        expected.sum().backward()
        for mine, theirs in zip(got, [expected.detach().numpy(), variable.grad.numpy()]):
            np.testing.assert_allclose(mine, theirs, RTOL, ATOL)
