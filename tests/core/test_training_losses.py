"""Losses: formulas and derivatives in float64, extreme probabilities, empty batches, arguments that do not fit."""

import functools

import numpy as np
import pytest
from ctc_alignments import alignments
from hypothesis import given
from hypothesis import strategies as st

from matrix.harness.functions import compile_function, run_function, run_with_derivative
from matrix.harness.generators import per_test
from onnx_compat import autodiff
from onnx_compat import primitives as p
from onnx_compat.errors import InputError
from onnx_compat.ir.dtypes import float32
from onnx_compat.ops import loss as meanings
from onnx_compat.tracing.values import lift
from onnx_compat.training.losses import ALIASES, LOSSES, loss_function, scalar_loss

E = 1e-7
RANDOM = per_test(np.random.RandomState(2))


def softmax(x, axis=-1):
    e = np.exp(x - x.max(axis, keepdims=True))
    return e / e.sum(axis, keepdims=True)


def unit(x):
    return x / np.sqrt((x * x).sum(-1, keepdims=True))


def circle_formula(y, x, gamma, margin):
    similarity = x @ x.T
    is_like = y[:, None] == y[None]
    near, far = (np.maximum(distance, 0) for distance in (1 + margin - similarity, similarity + margin))
    p_terms = np.exp(-gamma * near * (similarity - 1 + margin)) * (is_like & ~np.eye(len(y), dtype=bool))
    n_terms = np.exp(gamma * far * (similarity - margin)) * ~is_like
    return np.log1p(p_terms.sum(1) * n_terms.sum(1))


Y, X = RANDOM.standard_normal((4, 3)), RANDOM.standard_normal((4, 3))
BITS = RANDOM.randint(0, 2, (4, 3)).astype(np.float64)
Q, P = softmax(RANDOM.standard_normal((4, 3))), softmax(X)
CLASSES = np.array([2, 0, 1, 1])
HOT = np.eye(3)[CLASSES]
SCORES = RANDOM.standard_normal((2, 4, 3))
SYMBOLS = np.array([[1, 1, 0], [2, 0, 0]])
WEIGHTS = np.array([0.5, 2, 3])


def mean(x):
    return x.mean(-1)


def entropy(y, x):
    return -y * np.log(x) - (1 - y) * np.log(1 - x)


#: Name -> labels, predictions, options, the losses.
FORMULAS = {
    "binary_crossentropy": (BITS, P, {}, mean(entropy(BITS, P))),
    "binary_crossentropy logits": (
        BITS, X, {"from_logits": True, "label_smoothing": 0.2}, mean(entropy(BITS * 0.8 + 0.1, 1 / (1 + np.exp(-X)))),
    ),
    "binary_focal_crossentropy": (
        BITS, P, {"apply_class_balancing": True, "alpha": 0.3, "gamma": 3.0},
        mean((1 - np.where(BITS, P, 1 - P)) ** 3 * entropy(BITS, P) * np.where(BITS, 0.3, 0.7)),
    ),
    "categorical_crossentropy": (HOT, 5 * P, {"label_smoothing": 0.3}, -((HOT * 0.7 + 0.1) * np.log(P)).sum(-1)),
    "categorical_crossentropy logits": (Q.T, X.T, {"from_logits": True, "axis": 0}, -(Q.T * np.log(softmax(X.T, 0))).sum(0)),
    "categorical_focal_crossentropy": (
        HOT, X, {"from_logits": True, "alpha": 0.5, "gamma": 1.5}, -0.5 * ((1 - P) ** 1.5 * HOT * np.log(P)).sum(-1),
    ),
    "categorical_generalized_cross_entropy": (CLASSES, P, {"q": 0.4}, (1 - P[range(4), CLASSES] ** 0.4) / 0.4),
    "categorical_hinge": (
        HOT, X, {}, np.maximum(0, 1 + ((1 - HOT) * X).max(-1) - (HOT * X).sum(-1)),
    ),
    "circle": (CLASSES, unit(X), {"gamma": 5.0, "margin": 0.3}, circle_formula(CLASSES, unit(X), 5.0, 0.3)),
    "cosine_similarity": (Y, X, {}, -(unit(Y) * unit(X)).sum(-1)),
    "ctc": (SYMBOLS, SCORES, {}, np.array([alignments(*pair) for pair in zip(SYMBOLS, SCORES)])),
    "dice": (BITS, P, {"axis": 1}, 1 - 2 * (BITS * P).sum(1) / (BITS.sum(1) + P.sum(1) + E)),
    "hinge": (BITS, X, {}, mean(np.maximum(0, 1 - (2 * BITS - 1) * X))),
    "hinge other labels": (Y, X, {}, mean(np.maximum(0, 1 - Y * X))),
    "huber": (Y, X, {"delta": 0.7}, mean(np.where(abs(X - Y) <= 0.7, (X - Y) ** 2 / 2, 0.7 * abs(X - Y) - 0.245))),
    "kl_divergence": (Q, P, {}, (Q * np.log(Q / P)).sum(-1)),
    "log_cosh": (Y, X, {}, mean(np.log(np.cosh(X - Y)))),
    "mean_absolute_error": (Y, X, {}, mean(abs(X - Y))),
    "mean_absolute_percentage_error": (Y, X, {}, 100 * mean(abs((X - Y) / Y))),
    "mean_squared_error": (Y, X, {}, mean((X - Y) ** 2)),
    "mean_squared_logarithmic_error": (P, Q, {}, mean((np.log(1 + P) - np.log(1 + Q)) ** 2)),
    "negative_log_likelihood": (
        CLASSES, np.log(P), {"weights": WEIGHTS}, -np.log(P[range(4), CLASSES]) * WEIGHTS[CLASSES],
    ),
    "poisson": (Q, P, {}, mean(P - Q * np.log(P + E))),
    "softmax_cross_entropy": (
        CLASSES, X, {"ignore_index": 0}, -np.log(P[range(4), CLASSES]) * (CLASSES != 0),
    ),
    "sparse_categorical_crossentropy": (CLASSES, P * 3, {}, -np.log(P[range(4), CLASSES])),
    "sparse_categorical_crossentropy logits": (
        CLASSES[:, None], X, {"from_logits": True, "ignore_class": 1}, -np.log(P[range(4), CLASSES]) * (CLASSES != 1),
    ),
    "squared_hinge": (BITS, X, {}, mean(np.maximum(0, 1 - (2 * BITS - 1) * X) ** 2)),
    "tversky": (
        BITS, P, {"alpha": 0.2, "beta": 0.9, "axis": [0, 1]},
        1 - (BITS * P).sum() / ((BITS * P).sum() + 0.2 * (BITS * (1 - P)).sum() + 0.9 * ((1 - BITS) * P).sum() + E),
    ),
}  # fmt: skip


def test_every_loss_has_a_formula():
    assert {name.split(" ")[0] for name in FORMULAS} == set(LOSSES)


@pytest.mark.parametrize("is_symbolic", [False, True], ids=["static", "symbolic"])
@pytest.mark.parametrize("name", sorted(FORMULAS))
def test_losses_are_their_formulas(name, is_symbolic):
    labels, predictions, options, expected = FORMULAS[name]
    (got,) = run_function(
        lambda y, x: LOSSES[name.split(" ")[0]](y, x, **options), [labels, predictions], is_symbolic=is_symbolic
    )
    assert got.dtype == np.float64
    np.testing.assert_allclose(got, expected, 1e-6, 1e-9)


@pytest.mark.parametrize("name", sorted(FORMULAS))
def test_derivatives_are_finite_differences(name):
    labels, predictions, options, _ = FORMULAS[name]

    def loss(y, x):
        return scalar_loss(name.split(" ")[0], y, x, **options)

    _, derivative = run_with_derivative(loss, [labels, predictions], 1)
    compiled = compile_function(loss, [labels, predictions])
    for index in np.ndindex(*predictions.shape):
        ends = []
        for step in (1e-6, -1e-6):
            moved = predictions.copy()
            moved[index] += step
            ends.append(compiled([labels, moved])[0])
        assert derivative[index] == pytest.approx((ends[0] - ends[1]) / 2e-6, rel=1e-5, abs=1e-8)


@pytest.mark.parametrize(
    "options", [{}, {"weights": WEIGHTS}, {"ignore_index": 1}, {"weights": WEIGHTS, "ignore_index": -1}]
)
@pytest.mark.parametrize("reduction", ["mean", "sum", "none"])
def test_the_losses_of_onnx_are_the_meanings_of_their_operators(reduction, options):
    x = RANDOM.standard_normal((4, 3, 2))
    y = np.array([[0, 1], [-1 if options.get("ignore_index") == -1 else 2, 2], [1, 1], [2, 0]])
    arguments = [options["weights"]] if "weights" in options else []
    ignored = {"ignore_index": options.get("ignore_index"), "reduction": reduction}
    weights = [lift(array) for array in arguments]
    expected = [
        meanings.softmax_cross_entropy(lift(x), lift(y), *weights, **ignored)[0].value,
        meanings.negative_log_likelihood(lift(x), lift(y), *weights, **ignored).value,
    ]
    for name, value in zip(("softmax_cross_entropy", "negative_log_likelihood"), expected):
        got = scalar_loss(name, lift(y), lift(x), reduction=reduction, **options).value
        np.testing.assert_allclose(got, value, 1e-12)


#: Losses of probabilities -> labels.
ENTROPIES = {
    "binary_crossentropy": BITS,
    "binary_focal_crossentropy": BITS,
    "categorical_crossentropy": HOT,
    "categorical_focal_crossentropy": HOT,
    "cosine_similarity": BITS,
    "dice": BITS,
    "kl_divergence": HOT,
    "mean_absolute_percentage_error": BITS,
    "mean_squared_logarithmic_error": BITS,
    "poisson": BITS,
    "sparse_categorical_crossentropy": CLASSES,
    "tversky": BITS,
}


@functools.lru_cache(maxsize=None)
def compiled_entropy(name, **options):
    """Return the compiled loss with its derivative, for float32 predictions [4, 3]."""
    labels = ENTROPIES[name].astype(np.float32)

    def derive(x):
        variable = autodiff.variable(x)
        losses = scalar_loss(name, lift(labels), variable, reduction="none", **options)
        return [losses, *autodiff.gradients(losses, [variable])]

    return compile_function(derive, [np.zeros((4, 3), np.float32)])


@given(st.lists(st.sampled_from([0.0, 1.0, 1e-38, 1 - 6e-8, 0.5]), min_size=12, max_size=12))
def test_probabilities_of_0_and_1_give_finite_losses(numbers):
    x = np.array(numbers, np.float32).reshape(4, 3)
    for name in sorted(ENTROPIES):
        if "categorical" in name:  # they are divided by their sum
            x = np.where(x.sum(1, keepdims=True) > 0, x, np.float32(1))
        assert all(np.isfinite(array).all() for array in compiled_entropy(name)([x])), name


@given(st.lists(st.sampled_from([0.0, 1e4, -1e4, 88.0, -88.0, 1e-30, 1e38, -1e38]), min_size=12, max_size=12))
def test_logits_of_any_size_give_losses_with_finite_derivatives(numbers):
    x = np.array(numbers, np.float32).reshape(4, 3)
    for name in sorted(ENTROPIES):
        if name.endswith("crossentropy"):
            with np.errstate(over="ignore"):
                losses, derivative = compiled_entropy(name, from_logits=True)([x])
            assert not np.isnan(losses).any(), name
            assert np.isfinite(derivative).all(), name


def test_derivatives_at_logits_of_0():
    """The derivatives of relu and of abs are 0 there: a softplus composed of them would give -label."""
    y = np.array([[0.0, 1.0]])
    _, derivative = run_with_derivative(
        lambda y, x: scalar_loss("binary_crossentropy", y, x, from_logits=True), [y, np.zeros((1, 2))], 1
    )
    np.testing.assert_allclose(derivative, [[0.25, -0.25]])


@pytest.mark.parametrize("value", [1e-8, 1e-3, 20.0, -20.0, -80.0])
def test_the_binary_crossentropy_of_logits_is_accurate(value):
    """In float32, log(1 + e^x) of a small e^x has no digits: the loss of a sure logit would be 0."""
    got, derivative = run_with_derivative(
        lambda y, x: scalar_loss("binary_crossentropy", y, x, from_logits=True),
        [np.zeros((1, 1), np.float32), np.full((1, 1), value, np.float32)], 1,
    )  # fmt: skip
    assert got == pytest.approx(np.logaddexp(0, value), rel=1e-6)
    assert derivative[0, 0] == pytest.approx(1 / (1 + np.exp(-value)), rel=1e-6)


@pytest.mark.parametrize("name", sorted(name for name in FORMULAS if np.ndim(FORMULAS[name][3])))
def test_an_empty_batch_has_the_loss_0(name):
    labels, predictions, options, _ = FORMULAS[name]
    name, batch_axis = name.split(" ")[0], 1 if options.get("axis") == 0 else 0
    empty = [np.take(array, [], batch_axis) for array in (labels, predictions)]
    is_of_onnx = name in ("negative_log_likelihood", "softmax_cross_entropy")
    for reduction, expected in (("sum", 0), ("mean", np.nan if is_of_onnx else 0)):
        with np.errstate(invalid="ignore"):
            got, derivative = run_with_derivative(
                lambda y, x, reduction=reduction: scalar_loss(name, y, x, reduction=reduction, **options), empty, 1
            )
        np.testing.assert_equal(got, expected)
        assert derivative.shape == empty[1].shape


@pytest.mark.parametrize("labels", [[1, 1, 1, 1], [-100, -100, -100, -100]])
def test_ignored_labels_have_no_loss_and_no_derivative(labels):
    y, x = np.array(labels), X.astype(np.float32)
    got, derivative = run_with_derivative(
        lambda y, x: scalar_loss(
            "sparse_categorical_crossentropy", y, x, from_logits=True, ignore_class=labels[0]
        ),
        [y, x], 1,
    )  # fmt: skip
    assert got == 0
    assert not derivative.any()
    with np.errstate(invalid="ignore"):
        (mean_of_onnx,) = run_function(
            lambda y, x: scalar_loss("softmax_cross_entropy", y, x, ignore_index=labels[0]), [y, x]
        )
    assert np.isnan(mean_of_onnx)


@pytest.mark.parametrize("name", ["sparse_categorical_crossentropy", "softmax_cross_entropy"])
@pytest.mark.parametrize("label", [3, -1])
def test_a_label_out_of_range_gives_nan(name, label):
    y = np.array([0, label, 1, 2])
    (got,) = run_function(lambda y, x: scalar_loss(name, y, x, reduction="none"), [y, P])
    assert np.isnan(got).tolist() == [False, True, False, False]


@pytest.mark.parametrize("positives", [[0, 1, 2, 3], [0, 0, 0, 0]])
def test_the_circle_loss_of_a_batch_without_pairs_is_0(positives):
    got, derivative = run_with_derivative(
        lambda y, x: scalar_loss("circle", y, x), [np.array(positives), unit(X).astype(np.float32)], 1
    )
    assert got == 0
    assert not derivative.any()


def test_a_vector_of_zeros_has_a_finite_cosine():
    got, derivative = run_with_derivative(
        lambda y, x: scalar_loss("cosine_similarity", y, x), [Y.astype(np.float32), np.zeros((4, 3), np.float32)], 1
    )
    assert got == 0
    assert np.isfinite(derivative).all()


# -- arguments ---------------------------------------------------------------------------------------------------------
def test_names_in_any_spelling():
    for spelling in ("mean_squared_error", "MeanSquaredError", "MSE", "mse", "Mean-Squared-Error"):
        assert loss_function(spelling) is LOSSES["mean_squared_error"]
    assert loss_function("KLDivergence") is loss_function("kullback_leibler_divergence") is LOSSES["kl_divergence"]
    assert loss_function("SoftmaxCrossEntropyLoss") is LOSSES["softmax_cross_entropy"]
    assert set(ALIASES.values()) <= set(LOSSES)


def batch(*arrays):
    return [lift(np.asarray(array)) for array in arrays]


@pytest.mark.parametrize(
    ("arguments", "options", "message"),
    [
        (["mean_square_error", *batch(Y, X)], {}, "did you mean 'mean_squared_error'"),
        (["nonsense", *batch(Y, X)], {}, "use one of binary_crossentropy"),
        ([3, *batch(Y, X)], {}, "a loss is given by its name, not as int"),
        (["huber", *batch(Y, X)], {"delat": 1}, "did you mean 'delta'"),
        (["mse", *batch(Y, X)], {"axis": 1}, "its options are: none"),
        (["mse", *batch(Y, X)], {"reduction": "average"}, "reduced by mean, sum or none"),
        (["mse", *batch(Y[:3], X)], {}, r"labels have the shape \[3, 3\]"),
        (["mse", *batch(Y[0], X)], {}, r"labels have the shape \[3\]"),
        (["categorical_crossentropy", *batch(CLASSES, X)], {}, "begins with 'sparse'"),
        (["sparse_categorical_crossentropy", *batch(HOT, X)], {}, "without the class axis"),
        (["mse", *batch(Y, X.astype(np.int64))], {}, "must be floats"),
        (["mse", *batch(1.0, 2.0)], {}, "rank 1 or more"),
        (["softmax_cross_entropy", *batch(CLASSES, CLASSES * 1.0)], {}, "rank 2 or more"),
        (["mse", *batch(Y, X, Y)], {}, "do not fit losses"),
        (["mse", *batch(Y, X, [1.0, 2.0, 3.0])], {}, "do not fit losses"),
        (["circle", *batch(Y[..., None], X)], {}, r"\[N\] and \[N, D\]"),
        (["ctc", *batch(CLASSES, SCORES)], {}, "ranks 2 and 3"),
        (["categorical_generalized_cross_entropy", *batch(CLASSES, P)], {"q": 1.0}, r"q must be a number in \(0, 1\)"),
        (["categorical_generalized_cross_entropy", *batch(CLASSES, P)], {"q": 0}, "q must be a number"),
    ],
)
def test_arguments_that_do_not_fit_are_refused(arguments, options, message):
    with pytest.raises(InputError, match=message):
        scalar_loss(*arguments, **options)


def test_a_function_as_a_loss():
    def median_like(labels, predictions, *, power):
        return p.pow(p.abs(p.sub(labels, predictions)), power)

    (got,) = run_function(lambda y, x: scalar_loss(median_like, y, x, power=0.5), [Y, X])
    assert got == pytest.approx((abs(Y - X) ** 0.5).mean())


def test_the_loss_of_float16_predictions_is_float32():
    loss = scalar_loss("mse", lift(np.full((4, 2), 300)), lift(np.zeros((4, 2), np.float16)))
    assert (loss.dtype, float(loss.value)) == (float32, 90000.0)  # above the largest float16


def test_a_weight_of_an_axis_of_length_1_repeats():
    y, x = np.array([[1, 2], [0, 1]]), RANDOM.standard_normal((2, 2, 3))
    weighted, losses = (
        run_function(
            lambda y, x, *w: scalar_loss(
                "sparse_categorical_crossentropy", y, x, *w, reduction="none", from_logits=True
            ),
            [y, x, *w],
        )[0]
        for w in ([np.array([[2.0], [0.0]])], [])
    )
    np.testing.assert_allclose(weighted, losses * [[2], [0]])
