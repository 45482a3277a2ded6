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


def keras_loss(made: Sample, **common: Any) -> Any:
    return getattr(keras.losses, made.keras_class)(**made.options, **common)


def keras_derivative(function: Callable[[Any], Any], x: np.ndarray) -> np.ndarray:
    """Return the derivative of a scalar function by the back end; JAX and torch compute it, TensorFlow too."""
    if back_end() == "tensorflow":
        import tensorflow

        with tensorflow.GradientTape() as tape:
            variable = tensorflow.Variable(x)
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


def lists_sums(made: Sample, **common: Any) -> List[np.ndarray]:
    """Return [the loss of a batch, its derivative] of Keras."""
    loss = keras_loss(made, **common)
    value = keras.ops.convert_to_numpy(loss(made.labels, made.predictions))
    return [value, keras_derivative(lambda x: loss(made.labels, x), made.predictions)]


@pytest.mark.parametrize("name", sorted(SAMPLES))
@pytest.mark.parametrize("is_symbolic", [False, True], ids=["static", "symbolic"])
def test_the_mean_and_its_derivative_are_those_of_keras(name: str, is_symbolic: bool) -> None:
    made = sample(name)
    if made.options.get("axis") == 1 and made.keras_class.startswith("Sparse") and back_end() == "tensorflow":
        return
    got = run_with_derivative(
        lambda labels, x: scalar_loss(made.keras_class, labels, x, **made.options),
        [made.labels, made.predictions], 1, is_symbolic=is_symbolic,
    )  # fmt: skip
    expected = lists_sums(made)
    for mine, theirs in zip(got, expected):
        np.testing.assert_allclose(mine, theirs, RTOL, ATOL * max(1.0, float(np.abs(theirs).max())))


@pytest.mark.parametrize("reduction", ["sum", "none"])
@pytest.mark.parametrize("name", sorted(SAMPLES))
def test_weighted_losses_are_those_of_keras(name: str, reduction: str) -> None:
    made = sample(name)
    shape = run_function(
        lambda labels, x: scalar_loss(made.keras_class, labels, x, reduction="none", **made.options),
        [made.labels, made.predictions],
    )[0].shape
    weights = RNG.rand(*shape).astype(np.float32)
    for chosen in ("mean", reduction):
        (got,) = run_function(
            lambda labels, x, w, chosen=chosen: scalar_loss(made.keras_class, labels, x, w, chosen, **made.options),
            [made.labels, made.predictions, weights],
        )
        loss = keras_loss(made, reduction=chosen)
        expected = keras.ops.convert_to_numpy(loss(made.labels, made.predictions, sample_weight=weights))
        np.testing.assert_allclose(got, expected, RTOL, ATOL * max(1.0, float(np.abs(expected).max())))
